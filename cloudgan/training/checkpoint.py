"""Checkpoints: everything a run has learned, in a folder, copied to a bucket, and the choice of one.

A checkpoint is a NumPy archive: one array per variable, with the same name in every process, and one
JSON text. Every variable is the same on all replicas, so the chief writes alone and any number of
replicas may read. A file is read wholly, with its checksums, before it is used: on its way through disks
and stores it can be damaged, and then the one before is used. Imports no TensorFlow.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, ValidationError

from cloudgan.core.arrays import Array, as_archive, read_arrays
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.clock import utc_now
from cloudgan.core.document import Document
from cloudgan.core.errors import CloudganError, ConfigError, DataError
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.summary import TrainingSummary
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import Numerics
from cloudgan.schema.run_folder import (
    RunFolder,
    Step,
    checkpoint_name,
    checkpoint_steps,
    find_run_folder,
)
from cloudgan.schema.stop_criterion import BestCheckpoint
from cloudgan.storage.store import ObjectMissingError, StoreError, open_store
from cloudgan.training.cluster import Cluster

META = "meta.json"
_NETWORKS = ("generator", "discriminator", "ema_generator")
_DAMAGED, _DOWNLOAD = ".damaged", ".download"
_AS_BEFORE = (
    *("networks", "image_shape", "latent_size", "noise_channels", "condition", "optimizer"),
    *("image_scale", "image_power", "energy_scaled_output", "calibrated_output"),
    *("output_activation", "angle", "cell_marginals"),
)
"""Model keys that a run shares with the one of `--init-from`; losses and learning rates may differ."""


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
    recent: tuple[dict[str, float], ...] = Field(
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
    arrays: Mapping[str, Array]


def read_checkpoint(path: Path) -> Checkpoint:
    """Reads a checkpoint wholly, with its checksums.

    Raises:
        DataError: Not a checkpoint of this version, or damaged.
    """
    arrays = read_arrays(path)
    meta = arrays.pop(META, None)
    if meta is None or meta.dtype != np.uint8:
        raise DataError(f"{path}: not a cloudgan checkpoint: it has no {META}")
    try:
        state = State.model_validate_json(meta.tobytes())
    except (ValidationError, CloudganError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise DataError(
            f"{path}: damaged, or written by another version of cloudgan ({reason})"
        ) from error
    if checkpoint_steps([path.name]) not in ([], [state.step]):
        raise DataError(f"{path}: damaged (it holds step {state.step})")
    return Checkpoint(path, state, arrays)


def not_finite(arrays: Mapping[str, Array]) -> str:
    """Returns the first weights of a network that are no numbers, NaN or infinite; else empty."""
    for name, array in arrays.items():
        if name.partition("/")[0] not in _NETWORKS:
            continue
        if not np.issubdtype(array.dtype, np.number):
            return f"{name} has type {array.dtype}, not numbers"
        if not np.isfinite(array).all():
            count = array.size - int(np.isfinite(array).sum())
            return f"{count} of {array.size} values of {name} are NaN or infinite"
    return ""


def restore(
    checkpoint: Checkpoint, variables: Mapping[str, Any], *, any_precision: bool = False
) -> None:
    """Assigns every array of a checkpoint to the Keras variable of its name.

    With `any_precision` floating-point arrays are converted to the type of their variables.

    Raises:
        DataError: Names, shapes or types do not match, or weights of a network are not finite;
            nothing was assigned.
    """
    path, arrays = checkpoint.path, checkpoint.arrays
    if set(arrays) != set(variables):
        odd = sorted(set(arrays) ^ set(variables))[:3]
        raise DataError(f"{path}: variables do not match this model, such as {odd}")
    for name, variable in variables.items():
        array, wanted = arrays[name], str(variable.dtype)
        if tuple(variable.shape) != array.shape:
            raise DataError(
                f"{path}: {name} has shape {array.shape}, this model {tuple(variable.shape)}"
            )
        # Keras counts updates in 64 bits under TensorFlow, in 32 under JAX.
        is_same = wanted == array.dtype.name or {wanted, array.dtype.name} == {"int32", "int64"}
        if not is_same and not (any_precision and np.issubdtype(array.dtype, np.floating)):
            raise DataError(f"{path}: {name} has type {array.dtype}, this model {wanted}")
        if problem := not_finite({name: array}):
            raise DataError(
                f"{path}: layer {getattr(variable, 'path', name)}: {problem}; this training diverged."
                " Use an earlier step, or train again with a smaller model.learning_rate"
            )
    for name, variable in variables.items():
        is_count = np.issubdtype(arrays[name].dtype, np.integer)
        variable.assign(arrays[name].astype(str(variable.dtype)) if is_count else arrays[name])


def restore_part(checkpoint: Checkpoint, part: str, weights: Sequence[Any]) -> None:
    """Assigns one network of a checkpoint to `weights`, in Keras order, in the precision of `weights`."""
    names = sorted(name for name in checkpoint.arrays if name.startswith(f"{part}/"))
    if len(names) != len(weights):
        raise DataError(
            f"{checkpoint.path}: {part} has {len(names)} arrays, in this model {len(weights)}"
        )
    arrays = {name: checkpoint.arrays[name] for name in names}
    variables = dict(zip(names, weights, strict=True))
    restore(replace(checkpoint, arrays=arrays), variables, any_precision=True)


class Damaged(NamedTuple):
    """A checkpoint that cannot be used, and why; `is_copy`: nor can the copy in the bucket."""

    step: int
    path: Path
    reason: str
    is_copy: bool = False


class Checkpoints:
    """The checkpoints of one run: a folder, with an optional copy in a bucket.

    Attributes:
        may_rename: Whether damaged ones are renamed, as the process does that writes checkpoints.
        copy_problem: Why the newest checkpoint is not in the bucket; None if it is, or without a bucket.
    """

    def __init__(
        self,
        folder: Path,
        *,
        keep: int = 1,
        url: str = "",
        may_rename: bool = False,
        copier: Executor | None = None,
    ) -> None:
        """Opens the checkpoints in `folder`, of which `keep` are kept, and their copies at `url`.

        A thread makes the copies, so that a slow store does not hold up the training: that of
        `copier` where several folders are copied in order.
        """
        self._folder, self._keep, self.may_rename = folder, keep, may_rename
        self._copy = open_store(url) if url else None
        self._copier = (copier or ThreadPoolExecutor(1, "copy")) if url else None
        self._copying: Future[None] | None = None
        self._not_copied: set[Path] = set()
        self.copy_problem: str | None = None

    @classmethod
    def of_run(
        cls,
        config: RunConfig,
        folder: RunFolder,
        cluster: Cluster | None = None,
        copier: Executor | None = None,
    ) -> Checkpoints:
        """Returns the checkpoints of a run, as one of its workers opens them to train."""
        is_chief = cluster is None or cluster.is_chief
        keep, url = config.checkpoint.keep, config.checkpoint.url
        return cls(folder.checkpoints, keep=keep, url=url, may_rename=is_chief, copier=copier)

    def path_of(self, step: int) -> Path:
        """Returns the path of the checkpoint of `step`."""
        return self._folder / checkpoint_name(step)

    def steps(self) -> list[int]:
        """Returns the steps of the checkpoints in the folder, ascending."""
        return checkpoint_steps(path.name for path in self._folder.glob("step-*.npz"))

    def all_steps(self) -> list[int]:
        """Returns the steps in the folder or the bucket, ascending; raises StoreError if it cannot be read."""
        names = self._copy.list("step-") if self._copy else ()
        return sorted({*self.steps(), *checkpoint_steps(names)})

    def save(self, state: State, arrays: Mapping[str, Any]) -> tuple[Path, int]:
        """Writes one checkpoint; removes old ones, except the best one and that of step 0.

        The copy in the bucket is made meanwhile; see `is_copied`. The next call waits for it. Returns
        the path and the size in bytes.
        """
        if problem := not_finite(arrays):
            raise CloudganError(
                f"checkpoint of step {state.step} not saved: {problem}; the last checkpoint is older."
                " Rerun with a smaller model.learning_rate"
            )
        meta = np.frombuffer(state.model_dump_json().encode(), np.uint8)
        content = as_archive({**arrays, META: meta})
        self.is_copied(within=None)
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

    def is_copied(self, *, within: float | None = 0.0) -> bool:
        """Whether the thread that copies has done what it could for the newest checkpoint.

        Waits for it at most `within` seconds; None: without a limit.
        """
        if self._copying and wait([self._copying], within).done:
            self._copying.result()
            self._copying = None
        return self._copying is None

    def _copy_and_prune(self, path: Path, best: int | None) -> None:
        """Copies to the bucket; a failure does not stop the run, because the local file is complete.

        Of earlier failed copies only that of the best checkpoint is retried.
        """
        self.copy_problem = None
        if self._copy:
            self._not_copied.add(path)
            wanted = {path} if best is None else {path, self.path_of(best)}
            for each in sorted(self._not_copied & wanted):
                try:
                    self._copy.put(each.name, each)
                    self._not_copied.discard(each)
                except StoreError as error:
                    self.copy_problem = str(error)
        for step in [step for step in self.steps() if step][: -self._keep]:
            if step == best:
                continue
            self.path_of(step).unlink(missing_ok=True)
            self._not_copied.discard(self.path_of(step))
            if self._copy and not self.copy_problem:
                with suppress(StoreError):  # a copy more than wanted
                    self._copy.delete(self.path_of(step).name)

    def remove_later(self, step: int) -> None:
        """Removes the checkpoints after `step`, here and in the bucket; raises StoreError if it fails there."""
        for later in self.all_steps():
            if later > step:
                self.path_of(later).unlink(missing_ok=True)
                if self._copy:
                    self._copy.delete(self.path_of(later).name)

    def fetch(self, step: int) -> Path:
        """Returns the path of a step's checkpoint; downloads it if only the bucket has it."""
        path = self.path_of(step)
        if self._copy and not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            with suppress(ObjectMissingError):
                self._copy.get(path.name, path)
        return path

    def newest(self, *, below: int | None = None) -> tuple[Checkpoint | None, list[Damaged]]:
        """Reads the newest checkpoint, of the folder or the bucket, that is not damaged.

        Returns it, None if there is none, and the damaged ones that are newer, which are renamed.
        Checkpoints of the step `below` and later are skipped.

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

    def read(self, step: int) -> tuple[Checkpoint | None, list[Damaged]]:
        """Reads the checkpoint of a step from the folder, else from the bucket.

        Returns it, None if it is missing or damaged, and the damaged ones, which are renamed.
        """
        damaged: list[Damaged] = []
        found = self._read(step, damaged, has_copy=True)
        return found, [self.set_aside(each) for each in damaged]

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
        """Renames a damaged file, here and in the bucket, in the process that writes checkpoints.

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

    def resume_point(
        self,
        folder: RunFolder,
        say: Callable[[str], None],
        *,
        refused: tuple[Checkpoint, str] | None = None,
    ) -> Checkpoint | None:
        """Returns the checkpoint to resume from, None for a new run; records and shows damaged ones.

        A `refused` one, which does not fit the networks for the reason given, is set aside. The process
        that may rename checkpoints writes the record of the run in `folder`.

        Raises:
            DataError: All checkpoints are damaged.
        """
        found, damaged = self.newest(below=refused[0].state.step if refused else None)
        if refused:
            checkpoint, reason = refused
            if found is None:
                raise DataError(f"no usable checkpoint is left: {reason}")
            first = Damaged(checkpoint.state.step, checkpoint.path, reason, is_copy=True)
            damaged = [self.set_aside(first), *damaged]
        for _, path, reason, _ in damaged:
            say(f"checkpoint not used: {reason}; kept as {path.name}")
        if self.may_rename:
            record_damaged(folder, damaged)
        return found


def record_damaged(folder: RunFolder, damaged: Sequence[Damaged]) -> None:
    """Adds checkpoints that were not used to the record of a run."""
    for step, path, reason, _ in damaged:
        line = record.DamagedCheckpoint(time=utc_now(), step=step, path=str(path), reason=reason)
        record.append(folder.record_file, line)


def find_checkpoint(folder: RunFolder, step: Step, progress: Progress | None = None) -> Checkpoint:
    """Reads the checkpoint of a step, the best validated one, or (None) the newest that is not damaged."""
    config = folder.read_config()
    checkpoints = Checkpoints(folder.checkpoints, url=config.checkpoint.url if config else "")
    which = ""
    if step in (None, "best"):
        newest, damaged = checkpoints.newest()
        for each in damaged:
            (progress or Silent()).say(f"checkpoint not used: {each.reason}")
        if newest and step is None:
            return newest
        if newest and newest.state.best is None:
            raise DataError(
                f"{folder.path} has no best checkpoint: no epoch was validated. Resume it with"
                " --validate-every=1, or give the number of a step"
            )
        step = newest.state.best.step if newest and newest.state.best else None
    if step is not None:
        path, which = checkpoints.fetch(int(step)), f" of step {step}"
        if path.exists():
            return read_checkpoint(path)
    have = ", ".join(map(str, checkpoints.steps())) or "none"
    raise DataError(
        f"{folder.path} has no checkpoint{which}; available: {have}. Train first:"
        f" cloudgan train --run={folder.path} --data=FILE"
    )


def find_warm_start(
    config: RunConfig, say: Callable[[str], None] = lambda _: None
) -> Checkpoint | None:
    """Returns the newest checkpoint of the run in `training.init_from`; None if it is not set."""
    if not config.training.init_from:
        return None
    flag = f"--init-from={config.training.init_from}"
    folder = find_run_folder(config.training.init_from)
    found, damaged = Checkpoints(folder.checkpoints).newest()
    for each in damaged:
        say(f"--init-from: checkpoint not used: {each.reason}")
    if found is None:
        raise DataError(
            f"{flag}: no checkpoint in {folder.checkpoints}; name the folder of a trained run"
        )
    theirs, ours = found.state.config.model, config.model
    differ = [name for name in _AS_BEFORE if getattr(theirs, name) != getattr(ours, name)]
    if bool(theirs.ema_decay) != bool(ours.ema_decay):
        differ.append("ema_decay")
    if differ:
        listed = "; ".join(
            f"{name} is {getattr(theirs, name)}, here {getattr(ours, name)}" for name in differ
        )
        raise ConfigError(
            f"{flag}: its networks differ ({listed}); use the same preset, or omit --init-from"
        )
    if problem := not_finite(found.arrays):
        raise DataError(
            f"{flag}: {found.path}: {problem}; that training diverged. Name another run"
        )
    return found
