"""The files of a search: its configuration, its journal, and a folder for each of its trials."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from cloudgan.core.documents import read_json, write_json
from cloudgan.core.errors import ConfigError, install_command
from cloudgan.schema.search import FILE_NAME, SearchConfig, TrialRun


def check_extra() -> None:
    """Checks that the packages of a search are installed."""
    for name in ("optuna", "sklearn"):
        if find_spec(name) is None:
            raise ConfigError(f"a search needs {name}: {install_command('search')}")


class SearchFolder:
    """Paths of the files of a search."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / FILE_NAME
        self.journal_file = path / "journal.log"
        self.journal_lock = path / "journal.log.lock"
        self.store = path / "data"

    def run(self, run: TrialRun) -> Path:
        """Returns the folder of a run of a trial, an ordinary run."""
        return self.path / run.path

    def read_config(self) -> SearchConfig | None:
        """Returns the search in the folder; None: there is none."""
        if not self.config_file.exists():
            return None
        return read_json(self.config_file, SearchConfig)

    def write_config(self, config: SearchConfig) -> None:
        """Writes search.json."""
        before = self.read_config()
        changes = _differences(before, config) if before else []
        if changes and (self.path / "trials").exists():
            raise ConfigError(
                f"{self.path} holds another search: {', '.join(changes)} changed; give another"
                f" --run, or continue it with `cloudgan search {self.path}`"
            )
        if changes:  # it started no trial
            self.journal_file.unlink(missing_ok=True)
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.config_file, config)


def _differences(before: SearchConfig, now: SearchConfig) -> list[str]:
    """What may not change: not the number of trials or of blocks."""
    found = [
        name
        for name in (
            "sampler",
            "objective",
            "direction",
            "prune",
            "folds",
            "second",
            "usd_per_hour",
            "store",
        )
        if getattr(before, name) != getattr(now, name)
    ]
    if before.base != now.base:
        found.append("the run that all trials share")
    keys = {**before.space, **now.space}
    changed = [key for key in keys if before.space.get(key) != now.space.get(key)]
    return found + [f"the space of {key}" for key in changed]
