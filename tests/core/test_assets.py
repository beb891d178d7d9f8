"""The same assets in a checkout and in an installation."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cloudgan.core import assets
from cloudgan.core.errors import ConfigError, UnknownNameError

ROOT = Path(__file__).parents[2]


def test_a_checkout_has_its_assets_under_the_names_that_people_see():
    assert assets.folder() == ROOT
    assert {"deploy/README.md", "k8s/README.md", "requirements/lock.txt"} <= set(assets.names())
    assert assets.read_text("k8s/README.md") == (ROOT / "k8s/README.md").read_text("utf-8")


def test_what_is_no_asset_is_not_read_and_the_error_has_the_nearest_name():
    with pytest.raises(UnknownNameError, match=r"Did you mean 'k8s/README\.md'"):
        assets.read_text("k8s/READNE.md")
    with pytest.raises(UnknownNameError, match="unknown asset"):
        assets.read_text("pyproject.toml")
    with pytest.raises(UnknownNameError, match="unknown asset"):
        assets.read_bytes("k8s/../LICENSE")


def test_a_wheel_has_the_assets_of_the_checkout(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run([*build, str(tmp_path)], cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(site)
    code = "from cloudgan.core import assets as a; print(a.folder(), *a.names(), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    where, *names = done.stdout.splitlines()
    assert where == str(site / "cloudgan" / "_assets")
    assert tuple(names) == assets.names()


def test_an_installation_without_assets_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(assets, "_INSTALLED", tmp_path / "none")
    monkeypatch.setattr(assets, "_PACKAGE", tmp_path / "site" / "cloudgan")
    with pytest.raises(ConfigError, match="reinstall cloudgan"):
        assets.names()
