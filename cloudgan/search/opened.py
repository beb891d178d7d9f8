"""Opens the history of a search in a folder."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.core.errors import ConfigError, DataError, install_command
from cloudgan.schema.run_folder import find_run_folder
from cloudgan.schema.search import SearchConfig
from cloudgan.search.folder import SearchFolder

if TYPE_CHECKING:  # needs Optuna, which the message of `check_extra` names
    from cloudgan.search.study import SearchStudy


def open_search(path: str | Path) -> tuple[SearchFolder, SearchConfig, SearchStudy]:
    """Returns the folder of a search, its configuration and its history; nothing is started.

    Raises:
        DataError: The folder holds no search.
    """
    check_extra()
    from cloudgan.search.study import SearchStudy  # noqa: PLC0415  after that check

    folder = SearchFolder(find_run_folder(path).path)
    config = folder.read_config()
    if config is None:
        raise DataError(f"{path}: no search.json; start a search with `cloudgan search SPACE.yaml`")
    return folder, config, SearchStudy(folder, config, read_only=True)


def check_extra() -> None:
    """Checks that the packages of a search are installed.

    Raises:
        ConfigError: One is missing.
    """
    for name in ("optuna", "sklearn"):
        if find_spec(name) is None:
            raise ConfigError(f"a search needs {name}: {install_command('search')}")
