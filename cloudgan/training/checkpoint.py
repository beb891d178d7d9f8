"""Saves and loads everything a run has learned, as one file that is whole or absent.

A checkpoint is a NumPy archive: one array per variable, named alike in every process, and one
JSON text. Every variable is the same on all replicas (see `GanStep`), so the chief writes alone
and any number of replicas may read.
"""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from cloudgan.core.config import RunConfig
from cloudgan.core.errors import CloudganError, DataError
from cloudgan.core.record import Numerics
from cloudgan.core.whole_file import write_whole
from cloudgan.data.summary import TrainingSummary
from cloudgan.run_folder import checkpoint_name, checkpoint_steps
from cloudgan.stores import ObjectMissingError, StoreError, open_store
from cloudgan.training.best import Best

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_META = "meta.json"


class State(BaseModel):
    """What a checkpoint says beside its arrays."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    step: int
    train_seconds: float
    config_hash: str
    config: RunConfig
    numerics: Numerics
    summary: TrainingSummary
    best: Best | None = None
    validated_step: int = 0


class Checkpoints:
    """The checkpoints of one run: a folder, and perhaps a copy in a bucket."""

    def __init__(self, folder: Path, *, keep: int, url: str = "") -> None:
        self._folder, self._keep = folder, keep
        self._copy = open_store(url) if url else None
        self.copy_problem: str | None = None
        """Why the newest checkpoint is not in the bucket; None where it is, or none was asked."""
        self._not_copied: set[Path] = set()

    def save(self, state: State, arrays: Mapping[str, Any]) -> tuple[Path, int]:
        """Writes one checkpoint and removes old ones, but neither the best one nor that of step 0.

        Returns:
            Its path and its size in bytes.

        Raises:
            CloudganError: It could not be written; the ones before are as they were.
        """
        buffer = io.BytesIO()
        meta = np.frombuffer(state.model_dump_json().encode(), np.uint8)
        everything: dict[str, Any] = {**arrays, _META: meta}
        np.savez(buffer, **everything)
        path = self.path_of(state.step)
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            write_whole(path, buffer.getvalue())
        except DataError as error:
            last = self.latest()
            kept = f"{last} is whole" if last else "there is none yet"
            raise CloudganError(
                f"checkpoint not saved: {error}; last good checkpoint: {kept}. Free some space"
                " and give the same command again: it continues from there"
            ) from error
        best = state.best.step if state.best else None
        self._copy_out(path, best)
        self._prune(best)
        return path, buffer.getbuffer().nbytes

    def _copy_out(self, path: Path, best: int | None) -> None:
        """Copies to the bucket; where that fails the run goes on, for the file here is whole.

        The newest one makes up for others that did not get there, but for the best.
        """
        self.copy_problem = None
        if not self._copy:
            return
        self._not_copied.add(path)
        wanted = {path} if best is None else {path, self.path_of(best)}
        for each in sorted(self._not_copied & wanted):
            try:
                self._copy.put(each.name, each)
                self._not_copied.discard(each)
            except StoreError as error:
                self.copy_problem = str(error)

    def steps(self) -> list[int]:
        """Steps of the checkpoints in the folder, rising."""
        return checkpoint_steps(path.name for path in self._folder.glob("step-*.npz"))

    def latest(self) -> Path | None:
        """The newest checkpoint; fetched from the bucket where that is ahead of the folder."""
        here = self.steps()
        if self._copy:
            there = checkpoint_steps(self._copy.list("step-"))
            if there and (not here or there[-1] > here[-1]):
                self._folder.mkdir(parents=True, exist_ok=True)
                self._copy.get(checkpoint_name(there[-1]), self.path_of(there[-1]))
                return self.path_of(there[-1])
        return self.path_of(here[-1]) if here else None

    def path_of(self, step: int) -> Path:
        """Where the checkpoint of `step` is or would be."""
        return self._folder / checkpoint_name(step)

    def fetched(self, step: int) -> Path:
        """Returns the path of a step's checkpoint; fetched where only the bucket has it."""
        path = self.path_of(step)
        if self._copy and not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            with suppress(ObjectMissingError):
                self._copy.get(path.name, path)
        return path

    def _prune(self, best: int | None) -> None:
        for step in [step for step in self.steps() if step][: -self._keep]:
            if step == best:
                continue
            self.path_of(step).unlink(missing_ok=True)
            self._not_copied.discard(self.path_of(step))
            if self._copy and not self.copy_problem:
                self._copy.delete(self.path_of(step).name)


def read_state(path: Path) -> State:
    """Reads what a checkpoint says, without its arrays.

    Raises:
        DataError: It is no checkpoint of ours, or damaged.
    """
    with _archive(path) as archive:
        try:
            return State.model_validate_json(archive[_META].tobytes())
        except ValidationError as error:
            raise DataError(
                f"{path}: written by another version of cloudgan ({error.errors()[0]['msg']})"
            ) from error


def restore(path: Path, variables: Mapping[str, Any]) -> State:
    """Assigns every array of a checkpoint to its variable.

    Raises:
        DataError: Names or shapes are not this model's, or the file is damaged; then nothing was
            assigned.
    """
    state = read_state(path)
    with _archive(path) as archive:
        names = set(archive.files) - {_META}
        if names != set(variables):
            odd = sorted(names ^ set(variables))[:3]
            raise DataError(f"{path}: holds other variables than this model, such as {odd}")
        try:
            arrays = {name: archive[name] for name in variables}
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise DataError(
                f"{path}: damaged ({error}); delete it to use the one before"
            ) from error
    for name, variable in variables.items():
        if tuple(variable.shape) != arrays[name].shape:
            raise DataError(
                f"{path}: {name} has shape {arrays[name].shape}, this model {tuple(variable.shape)}"
            )
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return state


def restore_part(path: Path, part: str, weights: Sequence[Any]) -> None:
    """Assigns one network of a checkpoint to `weights`, which are in Keras' own order.

    Raises:
        DataError: It holds no such network.
    """
    with _archive(path) as archive:
        names = sorted(name for name in archive.files if name.startswith(f"{part}/"))
        if len(names) != len(weights):
            raise DataError(
                f"{path}: {part} has {len(names)} arrays there, {len(weights)} in this model"
            )
        for name, weight in zip(names, weights, strict=True):
            weight.assign(archive[name])


def _archive(path: Path) -> Any:
    try:
        archive = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
        if _META not in archive.files:
            raise DataError(f"{path}: not a checkpoint of cloudgan")
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, AttributeError) as error:
        raise DataError(f"{path}: cannot be read as a checkpoint ({error})") from error
    return archive
