from __future__ import annotations

import pytest

pytest.importorskip("google.auth", reason="needs pip install 'cloudgan[gcp]'")
pytest.importorskip("googleapiclient", reason="its discovery documents check what is sent")

from emulators.gcp.project import project
from launch.clouds.gcp.lab import cloud_of


@pytest.fixture
def google():
    """An emulated project after `setup`."""
    with project() as google:
        yield google


@pytest.fixture
def cloud(google):
    return cloud_of(google)
