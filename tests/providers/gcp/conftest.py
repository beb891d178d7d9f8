from __future__ import annotations

import pytest

pytest.importorskip("google.auth", reason="needs pip install 'cloudgan[gcp]'")
pytest.importorskip("googleapiclient", reason="its discovery documents check what is sent")

from google_cloud.project import project
from providers.gcp.lab import cloud_of


@pytest.fixture
def google():
    """A project of Google Cloud on loopback, in which `setup` was done."""
    with project() as made:
        yield made


@pytest.fixture
def cloud(google):
    return cloud_of(google)
