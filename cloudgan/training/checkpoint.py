"""Checkpoints: everything a run has learned, as one file that is complete or absent.

A checkpoint is a NumPy archive: one array per variable, with the same name in every process, and one
JSON text. Every variable is the same on all replicas (see `GanStep`), so the chief writes alone
and any number of replicas may read.

A file can be damaged on its way through disks and stores. It is read wholly, with its checksums, before
it is used; a damaged one is renamed, and the one before is used.
"""

from __future__ import annotations

import math
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field, ValidationError

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.clock import utc_now
from cloudgan.core.document import Document
from cloudgan.core.errors import CloudganError, DataError
from cloudgan.data.summary import TrainingSummary
from cloudgan.models.shower_frame import CLASSES, NODES
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import Numerics
from cloudgan.schema.record_line import Loss
from cloudgan.schema.run_folder import RunFolder, checkpoint_name, checkpoint_steps
from cloudgan.storage.store import ObjectMissingError, StoreError, open_store
from cloudgan.training.array_archive import as_archive, read_arrays

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor, Future
    from pathlib import Path

    from numpy.typing import NDArray

    from cloudgan.schema.stop_criterion import StopCriterion
    from cloudgan.training.cluster import Cluster


class BestCheckpoint(Document):
    """The best validated checkpoint, with all its metrics so that another one can rank it later."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

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


class State(Document):
    """Metadata of a checkpoint."""

    schema_version: Literal[1] = 1
    step: int = Field(ge=0)
    train_seconds: float = Field(ge=0, allow_inf_nan=False)
    config_hash: str
    config: RunConfig
    numerics: Numerics
    summary: TrainingSummary
    best: BestCheckpoint | None = None
    validated_step: int = Field(0, ge=0)
    recent: tuple[dict[str, Loss], ...] = Field(
        (), description="metrics of the newest validations, oldest first, that an early stop needs"
    )
    worker_steps: tuple[int, ...] = Field(
        (), description="of workers that exchange weights: own steps of each at this checkpoint"
    )
    master_steps: tuple[int, ...] = Field(
        (), description="of masters below rank 0: steps of the workers of each at this checkpoint"
    )


@dataclass(frozen=True)
class Checkpoint:
    """The whole content of a checkpoint file."""

    path: Path
    state: State
    arrays: Mapping[str, NDArray[Any]]


class Damaged(NamedTuple):
    """A checkpoint that cannot be used.

    Attributes:
        step: Its step.
        path: The file.
        reason: Why it cannot be used; names the file.
        is_copy: The copy in the bucket cannot be used either.
    """

    step: int
    path: Path
    reason: str
    is_copy: bool = False


_DAMAGED = ".damaged"
_DOWNLOAD = ".download"


class Checkpoints:
    """The checkpoints of one run: a folder, with an optional copy in a bucket."""

    def __init__(
        self,
        folder: Path,
        *,
        keep: int = 1,
        url: str = "",
        may_rename: bool = False,
        copier: Executor | None = None,
    ) -> None:
        """Opens the checkpoints in `folder`.

        Args:
            folder: Of the checkpoints.
            keep: Number of checkpoints to keep.
            url: Of their copies; empty: none.
            may_rename: Rename damaged ones, as the process does that writes checkpoints.
            copier: One thread that copies after `save`; the next `save` waits for `is_copied`.
        """
        self._folder, self._keep, self.may_rename = folder, keep, may_rename
        self._copy = open_store(url) if url else None
        self.copy_problem: str | None = None
        """Why the newest checkpoint is not in the bucket; None if it is, or without a bucket."""
        self._not_copied: set[Path] = set()
        self._copier = copier if url else None
        self._copying: Future[None] | None = None

    def save(self, state: State, arrays: Mapping[str, Any]) -> tuple[Path, int]:
        """Writes one checkpoint and removes old ones, except the best one and that of step 0.

        Returns:
            Its path and its size in bytes.

        Raises:
            CloudganError: Weights are not finite, or it could not be written; earlier ones are
                unchanged.
        """
        if problem := not_finite(arrays):
            raise CloudganError(
                f"checkpoint of step {state.step} not saved: {problem}; the last checkpoint is older."
                " Rerun with a smaller model.learning_rate"
            )
        meta = np.frombuffer(state.model_dump_json().encode(), np.uint8)
        content = as_archive({**arrays, _META: meta})
        path = self.path_of(state.step)
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            write_atomic(path, content)
        except DataError as error:
            last = self.steps()[-1:]
            kept = f"{self.path_of(last[0])} is complete" if last else "none yet"
            raise CloudganError(
                f"checkpoint not saved: {error}; last good checkpoint: {kept}. Free disk space"
                " and rerun the command to resume"
            ) from error
        best = state.best.step if state.best else None
        if self._copier:
            self._copying = self._copier.submit(self._copy_and_prune, path, best)
        else:
            self._copy_and_prune(path, best)
        return path, len(content)

    def is_copied(self) -> bool:
        """Whether the thread that copies has done what it could for the newest checkpoint."""
        copying = self._copying
        return not copying or (copying.done() and copying.result() is None)

    def _copy_and_prune(self, path: Path, best: int | None) -> None:
        self._copy_out(path, best)
        self._prune(best)

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

    def all_steps(self) -> list[int]:
        """Returns the steps of the checkpoints in the folder or the bucket, ascending.

        Raises:
            StoreError: The bucket cannot be read.
        """
        names = self._copy.list("step-") if self._copy else ()
        return sorted({*self.steps(), *checkpoint_steps(names)})

    def remove_later(self, step: int) -> None:
        """Removes the checkpoints after `step`, here and in the bucket.

        Raises:
            StoreError: The bucket cannot be changed.
        """
        for later in self.all_steps():
            if later > step:
                self.path_of(later).unlink(missing_ok=True)
                if self._copy:
                    self._copy.delete(self.path_of(later).name)

    def newest(self, *, below: int | None = None) -> tuple[Checkpoint | None, list[Damaged]]:
        """Reads the newest checkpoint, of the folder or the bucket, that is not damaged.

        If there is one, the damaged ones that are newer are renamed.

        Args:
            below: Skip this step and later ones.

        Returns:
            The checkpoint, None if there is none, and the damaged ones.

        Raises:
            DataError: All are damaged; nothing was renamed.
        """
        names = self._copy.list("step-") if self._copy else ()
        there = set(checkpoint_steps(names))
        damaged: list[Damaged] = []
        for step in sorted(there.union(self.steps()), reverse=True):
            if below is None or step < below:
                found = self._read(step, damaged, has_copy=step in there)
                if found:
                    return found, [self.set_aside(each) for each in damaged]
        unusable = [each.reason for each in damaged]
        unusable += sorted(map(str, self._folder.glob(f"step-*{_DAMAGED}*")))
        unusable += [f"{name} in the bucket" for name in names if _DAMAGED in name]
        if unusable:
            raise DataError(
                f"no usable checkpoint is left: {'; '.join(unusable)}. Restore a copy of one, or"
                " start again with another --run"
            )
        return None, damaged

    def _read(self, step: int, damaged: list[Damaged], *, has_copy: bool) -> Checkpoint | None:
        """Reads the checkpoint of a step from the folder, else from the bucket; None: damaged."""
        path = self.path_of(step)
        if path.exists() or path.is_symlink():  # a link to a file that is gone is said, not skipped
            try:
                return read_checkpoint(path)
            except DataError as error:
                damaged.append(Damaged(step, path, str(error)))
        if not (self._copy and has_copy):
            return None
        target = path.with_name(f"{path.name}{_DOWNLOAD}") if path.exists() else path
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._copy.get(path.name, target)
            found = read_checkpoint(target)
        except ObjectMissingError:  # the chief has just renamed it
            return None
        except DataError as error:
            damaged.append(Damaged(step, target, str(error), is_copy=True))
            return None
        if target != path:
            if self.may_rename:
                damaged[-1] = self.set_aside(damaged[-1])
            target.replace(path)
        return replace(found, path=path)

    def set_aside(self, damaged: Damaged) -> Damaged:
        """Renames a damaged file, here and in the bucket; only the process that writes checkpoints does.

        A file that cannot be renamed is skipped again at the next start.
        """
        path = self.path_of(damaged.step)
        if not self.may_rename or damaged.path.name.startswith(f"{path.name}{_DAMAGED}"):
            return damaged
        kept = path.with_name(f"{path.name}{_DAMAGED}")
        while kept.exists():
            kept = path.with_name(f"{path.name}{_DAMAGED}-{secrets.token_hex(4)}")
        try:
            damaged.path.rename(kept)
        except OSError:
            return damaged
        if self._copy and damaged.is_copy:
            with suppress(StoreError):
                self._copy.put(kept.name, kept)
                self._copy.delete(path.name)
        return damaged._replace(path=kept)

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
                with suppress(StoreError):  # a copy more than wanted
                    self._copy.delete(self.path_of(step).name)


def read_checkpoint(path: Path) -> Checkpoint:
    """Reads a checkpoint wholly, with its checksums.

    Raises:
        DataError: Not a checkpoint of this version, or damaged.
    """
    arrays = read_arrays(path)
    meta = arrays.pop(_META, None)
    if meta is None or meta.dtype != np.uint8:
        raise DataError(f"{path}: not a cloudgan checkpoint: it has no {_META}")
    try:
        state = State.model_validate_json(meta.tobytes())
    except (ValidationError, CloudganError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise DataError(
            f"{path}: damaged, or written by another version of cloudgan ({reason})"
        ) from error
    if checkpoint_steps([path.name]) not in ([], [state.step]):
        raise DataError(f"{path}: damaged (it holds step {state.step})")
    return Checkpoint(path, state, _with_spectrum(arrays))


def _with_spectrum(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Adds a spectrum without corrections to cell marginals that were measured before there was one."""
    added = {}
    for part in _NETWORKS:
        names = sorted(name for name in arrays if name.startswith(f"{part}/"))
        if names and names[-1].endswith("/limits"):
            empty = np.zeros((CLASSES, NODES), arrays[names[-1]].dtype)
            added[f"{part}/{len(names):03d}/spectrum"] = empty
    return arrays | added


def restore(checkpoint: Checkpoint, variables: Mapping[str, Any]) -> None:
    """Assigns every array of a checkpoint to its variable.

    Raises:
        DataError: Names, shapes or types do not match, or weights of a network are not finite;
            nothing was assigned.
    """
    path, arrays = checkpoint.path, checkpoint.arrays
    if set(arrays) != set(variables):
        odd = sorted(set(arrays) ^ set(variables))[:3]
        raise DataError(f"{path}: variables do not match this model, such as {odd}")
    for name, variable in variables.items():
        _check_array(path, name, arrays[name], variable)
    for name, variable in variables.items():
        # Keras counts updates in 64 bits under TensorFlow, in 32 under JAX.
        is_count = np.issubdtype(arrays[name].dtype, np.integer)
        variable.assign(arrays[name].astype(str(variable.dtype)) if is_count else arrays[name])


def restore_part(checkpoint: Checkpoint, part: str, weights: Sequence[Any]) -> None:
    """Assigns one network of a checkpoint to `weights`, in Keras order, in the precision of `weights`.

    Raises:
        DataError: No such network in the checkpoint, or its weights are not finite.
    """
    path, arrays = checkpoint.path, checkpoint.arrays
    names = sorted(name for name in arrays if name.startswith(f"{part}/"))
    if len(names) != len(weights):
        raise DataError(f"{path}: {part} has {len(names)} arrays, in this model {len(weights)}")
    for name, weight in zip(names, weights, strict=True):
        _check_array(path, name, arrays[name], weight, any_precision=True)
    for name, weight in zip(names, weights, strict=True):
        weight.assign(arrays[name])


def _check_array(
    path: Path, name: str, array: NDArray[Any], variable: Any, *, any_precision: bool = False
) -> None:
    if tuple(variable.shape) != array.shape:
        raise DataError(
            f"{path}: {name} has shape {array.shape}, this model {tuple(variable.shape)}"
        )
    kinds = {str(variable.dtype), array.dtype.name}
    if len(kinds) > 1 and not (
        kinds == {"int32", "int64"} or (any_precision and np.issubdtype(array.dtype, np.floating))
    ):
        raise DataError(f"{path}: {name} has type {array.dtype}, this model {variable.dtype}")
    if problem := not_finite({name: array}):
        raise DataError(
            f"{path}: layer {getattr(variable, 'path', name)}: {problem}; this training diverged."
            " Use an earlier step, or train again with a smaller model.learning_rate"
        )


_NETWORKS = ("generator", "discriminator", "ema_generator")


def not_finite(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Returns the first weights of a network that are no numbers, NaN or infinite; empty: all are finite."""
    for name, array in arrays.items():
        if name.partition("/")[0] not in _NETWORKS:
            continue
        if not np.issubdtype(array.dtype, np.number):
            return f"{name} has type {array.dtype}, not numbers"
        if not np.isfinite(array).all():
            count = array.size - int(np.isfinite(array).sum())
            return f"{count} of {array.size} values of {name} are NaN or infinite"
    return ""


def run_checkpoints(
    config: RunConfig,
    folder: RunFolder,
    cluster: Cluster | None,
    copier: Executor | None = None,
) -> Checkpoints:
    """Returns the checkpoints of a run, as one of its workers opens them to train."""
    return Checkpoints(
        folder.checkpoints,
        keep=config.checkpoint.keep,
        url=config.checkpoint.url,
        may_rename=cluster is None or cluster.is_chief,
        copier=copier,
    )


def resume_point(
    checkpoints: Checkpoints,
    folder: RunFolder,
    say: Callable[[str], None],
    *,
    refused: tuple[Checkpoint, str] | None = None,
) -> Checkpoint | None:
    """Returns the checkpoint to resume from, None for a new run; records and shows damaged ones.

    Args:
        checkpoints: Of the run.
        folder: Of the run; the process that may rename checkpoints writes its record.
        say: Shows a line.
        refused: A checkpoint that does not fit the networks, and the reason; it is set aside.

    Raises:
        DataError: All checkpoints are damaged.
    """
    found, damaged = checkpoints.newest(below=refused[0].state.step if refused else None)
    if refused and found is None:
        raise DataError(f"no usable checkpoint is left: {refused[1]}")
    if refused:
        first = Damaged(refused[0].state.step, refused[0].path, refused[1], is_copy=True)
        damaged = [checkpoints.set_aside(first), *damaged]
    for each in damaged:
        say(f"checkpoint not used: {each.reason}; kept as {each.path.name}")
        if checkpoints.may_rename:
            line = record.DamagedCheckpoint(
                time=utc_now(), step=each.step, path=str(each.path), reason=each.reason
            )
            record.append(folder.record_file, line)
    return found
