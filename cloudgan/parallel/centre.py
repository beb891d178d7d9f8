"""The centre: the weights that a master keeps, their average, and the points at which all ranks save.

A point is complete when every worker has saved; then the centre is written as the run's ordinary
checkpoint, with the steps of each worker, so that a run resumes where all ranks can.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.core.errors import DataError
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.checkpoint import Checkpoints, State, read_checkpoint, run_checkpoints

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from cloudgan.data.summary import TrainingSummary
    from cloudgan.parallel.child import Child
    from cloudgan.parallel.flat_weights import FlatLayout
    from cloudgan.parallel.update_rules import Floats, UpdateRule
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.record import Numerics
    from cloudgan.training.checkpoint import Checkpoint

_AVERAGED = "ema_generator/"
KEPT = 3
"""Checkpoints of a rank: of the complete point, of the one that is not yet complete, and the last."""


def rank_folder(folder: RunFolder, rank: int) -> RunFolder:
    """Returns the folder of what only one rank knows: its record and its checkpoints."""
    return RunFolder(folder.path / "ranks" / f"{rank:03d}")


def rank_url(config: RunConfig, rank: int) -> str:
    """Returns the URL of the copies of a rank's checkpoints; empty: the run has none."""
    url = config.checkpoint.url.rstrip("/")
    return f"{url}/ranks/{rank:03d}" if url else ""


def rank_checkpoints(
    config: RunConfig, folder: RunFolder, rank: int, copier: Executor | None = None
) -> Checkpoints:
    """Returns the checkpoints of what only one rank knows."""
    own, url = rank_folder(folder, rank).checkpoints, rank_url(config, rank)
    return Checkpoints(own, keep=KEPT, url=url, may_rename=True, copier=copier)


class Centre:
    """Weights of a master, and their exponential average for presets with an averaged generator.

    Attributes:
        weights: One flat buffer.
        average: Of the weights; None without averaging.
        clock: Updates applied so far by this process.
    """

    def __init__(
        self, flat: FlatLayout, weights: Floats, average: Floats | None, *, decay: float
    ) -> None:
        self._flat, self.weights, self._decay = flat, weights, decay
        self.average = average
        self._trainable = flat.trainable_size
        self._scratch = np.empty(self._trainable if decay else 0, np.float32)
        self.clock = 0

    def move(self, rule: UpdateRule, sent: Floats, staleness: int, steps: int) -> None:
        """Applies what a worker sent after `steps` steps."""
        rule.at_master(self.weights, sent, staleness)
        self.clock += not rule.pending
        if self.average is None:
            return
        k = self._trainable
        np.subtract(self.weights[:k], self.average[:k], out=self._scratch)
        self._scratch *= np.float32(1 - self._decay**steps)
        self.average[:k] += self._scratch
        self.average[k:] = self.weights[k:]  # statistics are averages already


@dataclass
class Point:
    """The centre at one moment, until all workers have saved.

    Attributes:
        step: Steps of all workers together.
        weights: Of the centre.
        average: Of the centre; None without averaging.
        rule: Arrays of the master's update rule.
        epoch: Epoch to validate with this point; None: none.
        recalibrates: Whether the first worker fits statistics of the average.
        asked: Ranks that were asked to save.
        saved: Ranks that have saved.
        worker_steps: Own steps of the workers that have saved, by number.
        master_steps: Steps of the masters below that have saved, by rank.
        inference: Arrays of the averaged generator with fitted statistics, in Keras order; None until
            the first worker has sent them.
        written: Path and size of the run's checkpoint, and seconds of writing it; None until it was
            written. The point stays open until it is copied.
    """

    step: int
    weights: Floats
    average: Floats | None
    rule: dict[str, Floats]
    epoch: int | None = None
    recalibrates: bool = False
    asked: set[int] = field(default_factory=set)
    saved: set[int] = field(default_factory=set)
    worker_steps: dict[int, int] = field(default_factory=dict)
    master_steps: dict[int, int] = field(default_factory=dict)
    inference: Floats | None = None
    written: tuple[Path, int, float] | None = None

    @classmethod
    def of(cls, centre: Centre, rule: UpdateRule, step: int, epoch: int | None) -> Point:
        """Copies the present centre."""
        average = None if centre.average is None else centre.average.copy()
        state = {name: array.copy() for name, array in rule.state().items()}
        return cls(step, centre.weights.copy(), average, state, epoch)

    def save(self, child: Child, steps: Iterable[float]) -> None:
        """Notes that a child has saved.

        Args:
            child: A worker, or a master.
            steps: Of the worker; or of the master, then of each of its workers.
        """
        found = [int(step) for step in steps]
        if len(found) > len(child.workers):
            self.master_steps[child.rank] = found.pop(0)
        self.worker_steps |= zip(child.workers, found, strict=True)
        self.saved.add(child.rank)


@dataclass(frozen=True)
class ResumedSteps:
    """The point from which all ranks resume.

    Attributes:
        workers: Own steps of each worker, by number.
        masters: Steps of each master below rank 0, in order of rank.
    """

    workers: Sequence[int]
    masters: Sequence[int]


class PointFiles:
    """Writes complete points: the run's checkpoint, and the arrays of the update rule."""

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        flat: FlatLayout,
        template: Mapping[str, Any],
        *,
        numerics: Numerics,
        summary: TrainingSummary,
    ) -> None:
        """Prepares the files.

        Args:
            config: Of the run.
            folder: Of the run.
            flat: Order of the centre's arrays.
            template: All arrays of a checkpoint; those of the optimizers are written as they are,
                because each worker has its own.
            numerics: Of the first worker.
            summary: Of the training set.
        """
        self._config, self._flat, self._template = config, flat, template
        self._numerics, self._summary = numerics, summary
        copier = ThreadPoolExecutor(1, "copy")  # of the rule first: the run's has all that it needs
        self._centre = run_checkpoints(config, folder, None, copier)
        self._own = rank_checkpoints(config, folder, 0, copier)
        self._averaged = sorted(name for name in template if name.startswith(_AVERAGED))

    @property
    def copy_problem(self) -> str | None:
        """Why the newest checkpoint is not in the bucket."""
        return self._own.copy_problem or self._centre.copy_problem

    def are_copied(self) -> bool:
        """Whether the copies of the newest point have been made, or have failed."""
        return self._own.is_copied() and self._centre.is_copied()

    def path_of(self, step: int) -> Path:
        """Returns the path of the centre's checkpoint of `step`."""
        return self._centre.path_of(step)

    def inference_weights(self, point: Point) -> list[Any]:
        """Returns the weights that generate showers, in Keras order."""
        if not self._averaged or point.average is None:
            return list(self._flat.generator(point.weights))
        if point.inference is None:
            return list(self._flat.generator(point.average))
        found, start = [], 0
        for name in self._averaged:
            shape = self._template[name].shape
            end = start + int(np.prod(shape))
            found.append(point.inference[start:end].reshape(shape))
            start = end
        return found

    def save(
        self,
        point: Point,
        *,
        train_seconds: float,
        quality: Mapping[str, Any],
    ) -> tuple[Path, int]:
        """Writes a complete point; returns path and size of the run's checkpoint.

        Args:
            point: Complete.
            train_seconds: Of the run so far.
            quality: `QualityHistory.state`.

        Raises:
            CloudganError: Weights are not finite, or a file could not be written.
        """
        state = State(
            step=point.step,
            train_seconds=train_seconds,
            config_hash=self._config.config_hash(),
            config=self._config,
            numerics=self._numerics,
            summary=self._summary,
            **quality,
            worker_steps=tuple(steps for _, steps in sorted(point.worker_steps.items())),
            master_steps=tuple(steps for _, steps in sorted(point.master_steps.items())),
        )
        self._own.save(state, {**point.rule, **_average_arrays(point)})
        arrays = {**self._template, **self._flat.views(point.weights)}
        if self._averaged:
            arrays |= zip(self._averaged, self.inference_weights(point), strict=True)
        return self._centre.save(state, arrays)


def _average_arrays(point: Point) -> dict[str, Floats]:
    return {} if point.average is None else {AVERAGE: point.average}


AVERAGE = "average"
"""Name of the centre's average, without fitted statistics, among the arrays of the update rule."""


def find_point(
    config: RunConfig,
    folder: RunFolder,
    worker_steps: Sequence[Sequence[int]],
    master_steps: Sequence[Sequence[int]] = (),
) -> tuple[Checkpoint, dict[str, Floats]] | None:
    """Returns the newest checkpoint of the centre that every rank saved, with the rule's arrays.

    Args:
        config: Of the run.
        folder: Of the run.
        worker_steps: Steps of the checkpoints that each worker has.
        master_steps: Steps of those that each master below rank 0 has.

    Returns:
        None for a new run.

    Raises:
        DataError: There are checkpoints, and none that every rank has.
    """
    centre = run_checkpoints(config, folder, None)
    below: int | None = None
    while True:
        found, _ = centre.newest(below=below)
        if found is None and below is not None:
            raise DataError(
                f"{folder.checkpoints}: no checkpoint has its part in every folder below"
                f" {folder.path / 'ranks'}; restore them, or start again with another --run"
            )
        if found is None:
            return None
        own = rank_checkpoints(config, folder, 0).fetch(found.state.step)
        # A master begins from the run's centre and saves no step 0.
        have = [*worker_steps, *({0, *steps} for steps in master_steps)]
        steps = (*found.state.worker_steps, *found.state.master_steps)
        is_whole = len(steps) == len(have) and all(
            step in there for step, there in zip(steps, have, strict=True)
        )
        if is_whole and own.exists():
            return found, dict(read_checkpoint(own).arrays)
        below = found.state.step
