"""A registry client that records its waits instead of waiting."""

from __future__ import annotations

import pytest

from cloudgan.launch.container_registry.client import Registry


@pytest.fixture
def waits():
    return []


@pytest.fixture
def opened(waits):
    """Returns a function that opens the registry of a host with a login."""

    def with_login(login=None):
        return lambda host: Registry(host, login, sleep=waits.append)

    return with_login
