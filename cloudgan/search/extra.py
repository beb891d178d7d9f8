"""The extra of pyproject.toml that a search needs."""

from __future__ import annotations

from importlib.util import find_spec

from cloudgan.core.errors import ConfigError, install_command


def check_extra() -> None:
    """Checks that the packages of a search are installed."""
    for name in ("optuna", "sklearn"):
        if find_spec(name) is None:
            raise ConfigError(f"a search needs {name}: {install_command('search')}")
