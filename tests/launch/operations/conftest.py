"""Clouds in memory in place of those of the product."""

import pytest

from launch.lifecycle.cloud_double import installed


@pytest.fixture
def cloud(monkeypatch, tmp_path):
    """Google Cloud in memory."""
    return installed(monkeypatch, tmp_path)
