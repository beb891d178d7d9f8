"""Clouds in memory, where those of the product are imported."""

from __future__ import annotations

import pytest

from launch.ops.cloud_double import installed


@pytest.fixture
def cloud(monkeypatch, tmp_path):
    """Google Cloud, as far as it matters here."""
    return installed(monkeypatch, tmp_path)
