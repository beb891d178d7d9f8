"""The folder of a run: names of its files, its run.yaml, and the lock of its writer."""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.documents import read_yaml
from cloudgan.core.errors import ConfigError, shorten
from cloudgan.core.file_lock import HeldError, take
from cloudgan.core.local_path import local_path
from cloudgan.schema.config import RunConfig, differences, parse_config

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_NAMELESS = ("", "..")
_OF_A_RUN = frozenset(
    (
        *(".lock", "run.yaml", "record.jsonl", "launch.json", "plan.json", "checkpoints"),
        "coevolution.json",
    )
)
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
            ConfigError: The path is empty, or a URL.
        """
        if not str(path):
            raise ConfigError("the folder of the run is empty; give a folder such as runs/NAME")
        found = local_path(path, advice="--checkpoints copies the checkpoints to a bucket")
        # The name of the folder is that of the run: `.` and `..` have none.
        self.path = found if found.name not in _NAMELESS else Path(os.path.abspath(found))  # noqa: PTH100
        self.config_file = self.path / "run.yaml"
        self.record_file = self.path / "record.jsonl"
        self.launch_file = self.path / "launch.json"
        self.cost_file = self.path / "cost.json"
        self.verdict_file = self.path / "verdict.json"
        self.trace_file = self.path / "trace.json"
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

    def refuse_foreign(self) -> None:
        """Checks that the folder is missing, empty or that of a run, before a run writes into it.

        Raises:
            ConfigError: It has other files.
        """
        try:
            names = {found.name for found in self.path.iterdir()} if self.path.is_dir() else set()
        except OSError:
            return  # the first write says why
        foreign = sorted(name for name in names if not name.startswith("."))
        if foreign and names.isdisjoint(_OF_A_RUN):
            raise ConfigError(
                f"{self.path} is not the folder of a run: it has {shorten(', '.join(foreign[:3]))};"
                " nothing was written. Give a new folder, such as --run=runs/mine"
            )

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

    def saved_steps(self) -> list[int]:
        """Returns the steps of the checkpoints in the folder, in ascending order."""
        return checkpoint_steps(path.name for path in self.checkpoints.glob("step-*.npz"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Prevents a second process on this machine from training the same run.

        A run that fails before it wrote a file leaves no folder.

        Raises:
            ConfigError: Another process trains it.
        """
        if sys.platform == "win32":
            raise ConfigError("training needs Linux or macOS; use WSL on Windows")
        new = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        self.create()
        lock = self.path / ".lock"
        try:
            file, _ = take(lock)
        except HeldError as holder:
            raise ConfigError(
                f"{self.path} is being trained by process {holder};"
                " wait for it, or choose another --run"
            ) from holder
        except OSError as error:
            raise ConfigError(
                f"{self.path}: cannot be written ({error.strerror}); choose another --run"
            ) from error
        with file:
            try:
                yield
            except BaseException:
                if new and list(self.path.iterdir()) == [lock]:
                    lock.unlink()
                    with suppress(OSError):  # another process uses a folder above
                        for folder in new:
                            folder.rmdir()
                raise
