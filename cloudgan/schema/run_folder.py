"""The folder of a run: names of its files, its run.yaml, and the lock of its writer."""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.documents import read_yaml
from cloudgan.core.errors import ConfigError, shorten
from cloudgan.schema.config import RunConfig, differences, parse_config

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_CHECKPOINT = re.compile(r"step-(\d{9})\.npz")


def checkpoint_name(step: int) -> str:
    """Returns the file name of the checkpoint of a step, in the folder and in the store."""
    return f"step-{step:09d}.npz"


def checkpoint_steps(names: Iterable[str]) -> list[int]:
    """Returns the steps of the checkpoint files among `names`, in ascending order."""
    found = (_CHECKPOINT.fullmatch(name) for name in names)
    return sorted(int(name[1]) for name in found if name)


class RunFolder:
    """Paths of the files of a run; only the methods access the disk."""

    def __init__(self, path: Path | str) -> None:
        """Names the files of the run in the folder `path`.

        Raises:
            ConfigError: The path is empty.
        """
        if not str(path):
            raise ConfigError("the folder of the run is empty; give a folder such as runs/NAME")
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
        """Returns the configuration of the run; None: the folder holds no run."""
        if not self.config_file.exists():
            return None
        return parse_config(read_yaml(self.config_file), str(self.config_file))

    def write_config(self, config: RunConfig) -> None:
        """Writes run.yaml atomically."""
        self.create()
        text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
        write_atomic(self.config_file, text.encode())

    def create(self) -> None:
        """Creates the folder.

        Raises:
            ConfigError: It cannot be a folder: a file is there, the name is too long, or the disk is
                read-only.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"{shorten(str(self.path), 300)}: cannot be the folder of a run ({reason}); choose"
                " another --run"
            ) from error

    def check(self, config: RunConfig) -> None:
        """Checks that the folder is empty or holds this run.

        Raises:
            ConfigError: The folder holds another run.
        """
        there = self.read_config() if self.record_file.exists() else None
        if there and there.mathematics() != config.mathematics():
            found = differences(config.mathematics(), there.mathematics())
            raise ConfigError(
                f"{self.path} holds another run; requested and existing configuration differ in"
                f" {'; '.join(found)}. Choose another --run, or omit these flags to resume it"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Prevents a second process on this machine from training the same run.

        Raises:
            ConfigError: Another process trains it.
        """
        if fcntl is None:
            raise ConfigError("training needs Linux or macOS; use WSL on Windows")
        self.create()
        try:
            opened = (self.path / ".lock").open("a+")
        except OSError as error:
            raise ConfigError(
                f"{self.path}: cannot be written ({error.strerror}); choose another --run"
            ) from error
        with opened as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                file.seek(0)
                raise ConfigError(
                    f"{self.path} is being trained by process {file.read().strip() or '?'};"
                    " wait for it, or choose another --run"
                ) from error
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield
