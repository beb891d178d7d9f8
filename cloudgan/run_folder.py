"""The folder of one run: where its files are, its run.yaml, and who may write to it."""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cloudgan.core.config import RunConfig, differences, parse_config
from cloudgan.core.errors import ConfigError
from cloudgan.core.whole_file import write_whole

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_CHECKPOINT = re.compile(r"step-(\d{9})\.npz")


def checkpoint_name(step: int) -> str:
    """Returns what the checkpoint of a step is called, here and in a store."""
    return f"step-{step:09d}.npz"


def checkpoint_steps(names: Iterable[str]) -> list[int]:
    """Returns the steps of those names that are a checkpoint's, rising."""
    found = (_CHECKPOINT.fullmatch(name) for name in names)
    return sorted(int(name[1]) for name in found if name)


class RunFolder:
    """Names the files of a run; touches the disk only in its methods."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.config_file = self.path / "run.yaml"
        self.record_file = self.path / "record.jsonl"
        self.launch_file = self.path / "launch.json"
        self.cost_file = self.path / "cost.json"
        self.verdict_file = self.path / "verdict.json"
        self.summary_file = self.path / "data_summary.json"
        self.shards = self.path / "data"
        self.checkpoints = self.path / "checkpoints"
        self.logs = self.path / "logs"

    def read_config(self) -> RunConfig | None:
        """Returns the run's configuration; None where no run has begun here."""
        if not self.config_file.exists():
            return None
        return parse_config(read_yaml(self.config_file), str(self.config_file))

    def write_config(self, config: RunConfig) -> None:
        """Writes run.yaml, whole or not at all."""
        self.path.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
        write_whole(self.config_file, text.encode())

    def check(self, config: RunConfig) -> None:
        """Finds whether this folder is free or the run's own.

        Raises:
            ConfigError: Another run began here.
        """
        there = self.read_config() if self.record_file.exists() else None
        if there and there.mathematics() != config.mathematics():
            found = differences(config.mathematics(), there.mathematics())
            raise ConfigError(
                f"{self.path} belongs to another run; asked and found there differ in"
                f" {'; '.join(found)}. Take another --run, or leave these flags out to continue it"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps a second process from training the same run on this machine.

        Raises:
            ConfigError: One does already.
        """
        if fcntl is None:
            raise ConfigError("training needs Linux or macOS; use WSL on Windows")
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                file.seek(0)
                raise ConfigError(
                    f"{self.path} is being trained by process {file.read().strip() or '?'};"
                    " wait for it, or take another --run"
                ) from error
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield


def read_yaml(path: Path) -> dict[str, Any]:
    """Reads a YAML file that holds a mapping.

    Raises:
        ConfigError: The file is missing, is no YAML, or holds something else.
    """
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: holds {type(found).__name__}, expected keys and values")
    return found
