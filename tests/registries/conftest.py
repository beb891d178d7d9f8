"""A client of the tests' registry that counts its waits instead of waiting."""

from __future__ import annotations

import pytest

from cloudgan.registries.client import Registry


@pytest.fixture
def waits():
    return []


@pytest.fixture
def opened(waits):
    """Opens the registry of a host, with a login or without."""

    def with_login(login=None):
        return lambda host: Registry(host, login, sleep=waits.append)

    return with_login
