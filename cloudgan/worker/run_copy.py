"""A run's folder here and its copy in the store: what a training process needs before it starts."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from cloudgan.core import record
from cloudgan.core.quality import best_step
from cloudgan.core.whole_file import write_whole
from cloudgan.run_folder import checkpoint_name, checkpoint_steps
from cloudgan.stores import ObjectMissingError

if TYPE_CHECKING:
    from cloudgan.core.config import RunConfig
    from cloudgan.run_folder import RunFolder
    from cloudgan.stores import Store

CHECKPOINTS = "checkpoints"


class RunCopy:
    """The files of one run in two places."""

    def __init__(self, folder: RunFolder, store: Store) -> None:
        """Takes the folder, and a store whose root is the run's."""
        self._folder, self._store = folder, store

    def prepare_chief(self, config: RunConfig) -> None:
        """Fetches the record where it is longer there, and puts checkpoints that are only here.

        Raises:
            ConfigError: Another run has this name.
            StoreError: The store failed; nothing is half done.
        """
        if not self._folder.config_file.exists() and (there := self._read("run.yaml")):
            write_whole(self._folder.config_file, there)
        told = self._read(self._folder.record_file.name)
        if told and len(told) > _size(self._folder):
            write_whole(self._folder.record_file, told)
        self._folder.check(config)
        self._folder.write_config(config)
        self.push_checkpoints()

    def prepare_follower(self, config: RunConfig) -> None:
        """Forgets checkpoints fetched earlier: only what the store has is what the chief has."""
        shutil.rmtree(self._folder.checkpoints, ignore_errors=True)
        self._folder.write_config(config)

    def push_checkpoints(self) -> None:
        """Puts checkpoints that the store lacks: newer ones, and the best.

        Raises:
            StoreError: The store failed.
        """
        there, folder = self._steps_there(), self._folder.checkpoints
        newest = there[-1] if there else -1
        best = best_step(record.read_if_whole(self._folder.record_file).validations())
        for step in checkpoint_steps(path.name for path in folder.glob("step-*.npz")):
            if step > newest or (step == best and step not in there):
                name = checkpoint_name(step)
                self._store.put(f"{CHECKPOINTS}/{name}", folder / name)

    def newest_step(self) -> int | None:
        """The step of the newest checkpoint in the store; None where there is none."""
        there = self._steps_there()
        return there[-1] if there else None

    def _steps_there(self) -> list[int]:
        names = self._store.list(f"{CHECKPOINTS}/step-")
        return checkpoint_steps(name.rpartition("/")[2] for name in names)

    def _read(self, name: str) -> bytes | None:
        try:
            return self._store.read(name)
        except ObjectMissingError:
            return None


def _size(folder: RunFolder) -> int:
    return folder.record_file.stat().st_size if folder.record_file.exists() else 0
