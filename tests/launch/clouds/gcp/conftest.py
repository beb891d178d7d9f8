import pytest


@pytest.fixture
def google(lab):
    """An emulated project after `setup`."""
    return lab.google


@pytest.fixture
def cloud(lab):
    return lab.cloud()
