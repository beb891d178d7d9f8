"""The same assets in a checkout and in an installation."""

from __future__ import annotations

import pytest

from cloudgan.core import assets
from cloudgan.core.errors import ConfigError, UnknownNameError


def test_what_is_no_asset_is_not_read_and_the_error_has_the_nearest_name():
    with pytest.raises(UnknownNameError, match=r"Did you mean 'k8s/README\.md'"):
        assets.read_text("k8s/READNE.md")
    with pytest.raises(UnknownNameError, match="unknown asset"):
        assets.read_text("pyproject.toml")
    with pytest.raises(UnknownNameError, match="unknown asset"):
        assets.read_bytes("k8s/../LICENSE")


def test_an_installation_without_assets_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(assets, "_INSTALLED", tmp_path / "none")
    monkeypatch.setattr(assets, "_PACKAGE", tmp_path / "site" / "cloudgan")
    with pytest.raises(ConfigError, match="reinstall cloudgan"):
        assets.names()
