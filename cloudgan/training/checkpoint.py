"""Checkpoints: everything a run has learned, as one file that is complete or absent.

A checkpoint is a NumPy archive: one array per variable, with the same name in every process, and one
JSON text. Every variable is the same on all replicas (see `GanStep`), so the chief writes alone
and any number of replicas may read.
"""

from __future__ import annotations

import io
import math
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.errors import CloudganError, ConfigError, DataError
from cloudgan.data.summary import TrainingSummary
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import Loss, Numerics
from cloudgan.schema.run_folder import RunFolder, checkpoint_name, checkpoint_steps
from cloudgan.storage.store import ObjectMissingError, StoreError, open_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cloudgan.schema.stop_criterion import StopCriterion


class BestCheckpoint(BaseModel):
    """The best validated checkpoint, with all its metrics so that another one can rank it later."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    step: int = Field(ge=0)
    epoch: int = Field(ge=0)
    metrics: dict[str, Loss]

    def as_json(self) -> dict[str, Any]:
        """Returns it as JSON; NaN becomes null."""
        metrics = {name: v if math.isfinite(v) else None for name, v in self.metrics.items()}
        return {"step": self.step, "epoch": self.epoch, "metrics": metrics}

    def value(self, ranking: StopCriterion) -> float:
        """Returns the ranking metric; NaN if it was not measured."""
        return self.metrics.get(ranking.name, math.nan)

    def is_better_than(self, other: BestCheckpoint | None, ranking: StopCriterion) -> bool:
        """Whether it ranks above `other`; on a tie the earlier one stays."""
        value = self.value(ranking)
        if other is None or math.isnan(value):
            return not math.isnan(value)
        return ranking.is_better(value, other.value(ranking))


_META = "meta.json"


class State(BaseModel):
    """Metadata of a checkpoint."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    step: int
    train_seconds: float
    config_hash: str
    config: RunConfig
    numerics: Numerics
    summary: TrainingSummary
    best: BestCheckpoint | None = None
    validated_step: int = 0


class Checkpoints:
    """The checkpoints of one run: a folder, with an optional copy in a bucket."""

    def __init__(self, folder: Path, *, keep: int, url: str = "") -> None:
        self._folder, self._keep = folder, keep
        self._copy = open_store(url) if url else None
        self.copy_problem: str | None = None
        """Why the newest checkpoint is not in the bucket; None if it is, or without a bucket."""
        self._not_copied: set[Path] = set()

    def save(self, state: State, arrays: Mapping[str, Any]) -> tuple[Path, int]:
        """Writes one checkpoint and removes old ones, except the best one and that of step 0.

        Returns:
            Its path and its size in bytes.

        Raises:
            CloudganError: It could not be written; earlier ones are unchanged.
        """
        buffer = io.BytesIO()
        meta = np.frombuffer(state.model_dump_json().encode(), np.uint8)
        everything: dict[str, Any] = {**arrays, _META: meta}
        np.savez(buffer, **everything)
        path = self.path_of(state.step)
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            write_atomic(path, buffer.getvalue())
        except DataError as error:
            last = self.latest()
            kept = f"{last} is complete" if last else "none yet"
            raise CloudganError(
                f"checkpoint not saved: {error}; last good checkpoint: {kept}. Free disk space"
                " and rerun the command to resume"
            ) from error
        best = state.best.step if state.best else None
        self._copy_out(path, best)
        self._prune(best)
        return path, buffer.getbuffer().nbytes

    def _copy_out(self, path: Path, best: int | None) -> None:
        """Copies to the bucket; a failure does not stop the run, because the local file is complete.

        Of earlier failed copies only that of the best checkpoint is retried.
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
        """Returns the steps of the checkpoints in the folder, ascending."""
        return checkpoint_steps(path.name for path in self._folder.glob("step-*.npz"))

    def latest(self) -> Path | None:
        """Returns the newest checkpoint; downloads it if the bucket has a newer one than the folder."""
        here = self.steps()
        if self._copy:
            there = checkpoint_steps(self._copy.list("step-"))
            if there and (not here or there[-1] > here[-1]):
                self._folder.mkdir(parents=True, exist_ok=True)
                self._copy.get(checkpoint_name(there[-1]), self.path_of(there[-1]))
                return self.path_of(there[-1])
        return self.path_of(here[-1]) if here else None

    def path_of(self, step: int) -> Path:
        """Returns the path of the checkpoint of `step`."""
        return self._folder / checkpoint_name(step)

    def fetch(self, step: int) -> Path:
        """Returns the path of a step's checkpoint; downloads it if only the bucket has it."""
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
    """Reads the metadata of a checkpoint.

    Raises:
        DataError: Not a checkpoint of this version, or damaged.
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
        DataError: Names or shapes do not match, or the file is damaged; nothing was assigned.
    """
    state = read_state(path)
    with _archive(path) as archive:
        names = set(archive.files) - {_META}
        if names != set(variables):
            odd = sorted(names ^ set(variables))[:3]
            raise DataError(f"{path}: variables do not match this model, such as {odd}")
        try:
            arrays = {name: archive[name] for name in variables}
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise DataError(
                f"{path}: damaged ({error}); delete it to use the previous one"
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
    """Assigns one network of a checkpoint to `weights`, in Keras order.

    Raises:
        DataError: No such network in the checkpoint.
    """
    with _archive(path) as archive:
        names = sorted(name for name in archive.files if name.startswith(f"{part}/"))
        if len(names) != len(weights):
            raise DataError(f"{path}: {part} has {len(names)} arrays, in this model {len(weights)}")
        for name, weight in zip(names, weights, strict=True):
            weight.assign(archive[name])


def _archive(path: Path) -> Any:
    try:
        archive = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
        if _META not in archive.files:
            raise DataError(f"{path}: not a cloudgan checkpoint")
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, AttributeError) as error:
        raise DataError(f"{path}: cannot be read as a checkpoint ({error})") from error
    return archive


WARM_START_KEYS = (
    "networks",
    "image_shape",
    "latent_size",
    "noise_channels",
    "condition",
    "optimizer",
    "image_scale",
    "image_power",
    "energy_scaled_output",
    "calibrated_output",
    "output_activation",
)
"""Model keys that must equal those of the other run; losses and learning rates may differ."""


def find_warm_start(config: RunConfig) -> Path | None:
    """Returns the newest checkpoint of the run in `training.init_from`; None if it is not set.

    Raises:
        DataError: That run has no checkpoint.
        ConfigError: Its networks differ.
    """
    if not config.training.init_from:
        return None
    folder = RunFolder(config.training.init_from)
    path = Checkpoints(folder.checkpoints, keep=1).latest()
    if path is None:
        raise DataError(
            f"--init-from={config.training.init_from}: no checkpoint in {folder.checkpoints};"
            " name the folder of a trained run"
        )
    theirs, ours = read_state(path).config.model, config.model
    differ = [name for name in WARM_START_KEYS if getattr(theirs, name) != getattr(ours, name)]
    if bool(theirs.ema_decay) != bool(ours.ema_decay):
        differ.append("ema_decay")
    if differ:
        listed = "; ".join(
            f"{name} is {getattr(theirs, name)}, here {getattr(ours, name)}" for name in differ
        )
        raise ConfigError(
            f"--init-from={config.training.init_from}: its networks differ ({listed}); use the same"
            " preset, or omit --init-from"
        )
    return path
