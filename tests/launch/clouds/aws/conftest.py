import pytest


@pytest.fixture
def aws(lab):
    """An emulated account after `setup`."""
    return lab.aws
