"""The training loop of one process, block by block; any engine.

An engine runs a block of steps; between two blocks the loop counts, records losses, saves, and stops where
all workers agreed to.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cloudgan.core.errors import CloudganError
from cloudgan.schema.liveness import LivenessFile
from cloudgan.schema.losses import PASSES, loss_columns, loss_note, loss_table
from cloudgan.training.stopping import StopTraining

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloudgan.core.progress import Progress
    from cloudgan.data.pipeline.epoch_sampler import EpochSampler
    from cloudgan.schema.record_line import StopReason
    from cloudgan.schema.training_config import TrainingConfig
    from cloudgan.training.stopping import StopFlag

STOP_REASONS: tuple[StopReason, ...] = (
    "interrupted",
    "terminated",
    "max_seconds",
    "reached",
    "plateau",
)
"""Reasons for which a worker may stop all workers, in order of precedence."""


class Exchange(Protocol):
    """Exchanges weights with other workers between two blocks of steps (`cloudgan.parallel`)."""

    def begin(self, step: int) -> None:
        """Joins, before the first step of this process."""

    def steps_until(self, step: int) -> int:
        """Returns the steps from `step` to the next exchange, at least 1."""

    def after_block(self, train_loop: TrainLoop) -> None:
        """Exchanges if it is due.

        Raises:
            StopTraining: The run ends.
        """

    def before_last_save(self, train_loop: TrainLoop) -> None:
        """Exchanges what was trained since the last exchange."""

    def leave(self, step: int, reason: StopReason) -> None:
        """Waits until all workers have ended; `step` is saved."""

    def arrays(self) -> Mapping[str, Any]:
        """Returns what a checkpoint of this worker needs besides the networks."""


class TrainLoop:
    """Counts steps and epochs; `advance` runs a block of steps."""

    def __init__(
        self,
        run_steps: Callable[..., Any],
        sampler: EpochSampler,
        training: TrainingConfig,
        *,
        flag: StopFlag,
        progress: Progress,
        step: int,
        train_seconds: float,
        steps_per_loop: int,
        save: Callable[[TrainLoop], float],
        save_due: Callable[[TrainLoop], bool],
        dummy_iterator: Callable[[], Any] = lambda: None,
        liveness: LivenessFile | None = None,
        exchange: Exchange | None = None,
        notice: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Starts at `step`, after `train_seconds` of training by earlier processes.

        `dummy_iterator` returns an iterator for `stop_if_requested`, with the element type of the
        batches; it is never read. `notice` receives the expected seconds to the end after each block
        whose speed is known.
        """
        self._run_steps, self._sampler, self._training = run_steps, sampler, training
        self._flag, self._progress = flag, progress
        self.step, self.train_seconds = step, train_seconds
        self._steps_per_loop = steps_per_loop
        self._save, self._save_due, self._dummy_iterator = save, save_due, dummy_iterator
        self._liveness = liveness or LivenessFile(None)
        self._exchange, self._notice = exchange, notice
        self.first = True
        self._sums = self._earlier_sums = np.zeros((len(PASSES), len(loss_columns())))
        self.begin_epoch()

    @property
    def epoch(self) -> int:
        """The epoch of the next step, counted from 0."""
        return self._sampler.epoch_of(self.step)

    @property
    def steps_left_in_epoch(self) -> int:
        """Steps until the end of the epoch that `begin_epoch` started."""
        return max(0, self._sampler.steps_through(self.start_epoch) - self.step)

    @property
    def blocks_per_epoch(self) -> int:
        """Maximum number of calls of `advance` per epoch."""
        return -(-self._sampler.most_steps_per_epoch // self._steps_per_loop)

    def begin_epoch(self) -> None:
        """Resets the counters of the epoch."""
        self.start_epoch, self.start_step = self.epoch, self.step
        self.includes_tracing = self.first
        self._earlier_sums = self._earlier_sums + self._sums
        self._sums = np.zeros((len(PASSES), len(loss_columns())))
        self.epoch_seconds = self.trace_seconds = self.checkpoint_seconds = 0.0
        self._traced_steps = 0

    def advance(self, iterator: Any) -> None:
        """Runs the next block of steps, at most to the end of the epoch.

        Raises:
            StopTraining: All workers agreed to stop here.
            CloudganError: A loss is NaN or infinite.
        """
        steps = min(self._steps_per_loop, self.steps_left_in_epoch, self._steps_allowed())
        if not steps:
            return
        if self._exchange:
            steps = min(steps, self._exchange.steps_until(self.step))
        began = time.perf_counter()
        losses, votes = self._run_steps(iterator, steps, self._votes())
        sums, agreed = np.asarray(losses), np.asarray(votes)  # waits for the device
        self._count(steps, sums, time.perf_counter() - began)
        self._flag.stepped = True
        self._liveness.update(self.step, self.epoch)
        if not np.isfinite(sums).all():
            raise CloudganError(
                f"a loss is NaN or infinite up to step {self.step}: {self.losses()}; the last"
                " checkpoint is older. Rerun with a smaller model.learning_rate"
            )
        if rate := self.samples_per_second():
            self._notice(self._seconds_left(rate))
        self._stop_if(agreed)
        if self._exchange:
            self._exchange.after_block(self)
        if self._save_due(self):
            self.save()

    def save(self) -> None:
        """Saves a checkpoint of this step."""
        self.checkpoint_seconds += self._save(self)
        self._liveness.update(self.step, self.epoch)

    def end_exchanges(self) -> None:
        """Exchanges what was trained since the last exchange with other workers."""
        if self._exchange:
            self._exchange.before_last_save(self)

    def stop_if_requested(self) -> None:
        """Stops all workers if one requested it; every worker calls this after the same step.

        Raises:
            StopTraining: A worker requested it.
        """
        _, agreed = self._run_steps(self._dummy_iterator(), 0, self._votes())
        self._stop_if(np.asarray(agreed))

    @property
    def loss_sums(self) -> np.ndarray[Any, Any]:
        """Sums of the losses over all steps of this process, (passes, columns)."""
        return self._earlier_sums + self._sums

    def losses(self) -> dict[str, dict[str, float]]:
        """Returns the mean losses of the epoch so far, by pass and term."""
        steps = max(1, self.step - self.start_step)
        return loss_table(self._sums / steps)

    def samples_per_second(self) -> float:
        """Returns the throughput of this epoch without its first call; 0 after the first call only."""
        steps = self.step - self.start_step - self._traced_steps
        seconds = self.epoch_seconds - self.trace_seconds
        return steps * self._sampler.global_batch_size / seconds if steps and seconds > 0 else 0.0

    def _steps_allowed(self) -> int:
        end = self._sampler.steps_through(self._training.epochs - 1)
        return max(0, min(end, self._training.max_steps or end) - self.step)

    def _seconds_left(self, showers_per_second: float) -> float:
        seconds = self._steps_allowed() * self._sampler.global_batch_size / showers_per_second
        limit = self._training.max_seconds
        return seconds if limit is None else min(seconds, max(0.0, limit - self.train_seconds))

    def _votes(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        limit = self._training.max_seconds
        if limit is not None and self.train_seconds >= limit:
            self._flag.request("max_seconds")
        return np.array([self._flag.reason == reason for reason in STOP_REASONS], np.int32)

    def _count(self, steps: int, sums: np.ndarray[Any, Any], seconds: float) -> None:
        self.step += steps
        self._sums += sums
        self.epoch_seconds += seconds
        self.train_seconds += seconds
        if self.first:
            self.first, self.trace_seconds, self._traced_steps = False, seconds, steps
        self._progress.advance(steps * self._sampler.global_batch_size, loss_note(sums / steps))

    def _stop_if(self, agreed: np.ndarray[Any, Any]) -> None:
        limit = self._training.max_steps
        if limit is not None and self.step >= limit:
            raise StopTraining("max_steps")
        for reason, votes in zip(STOP_REASONS, agreed, strict=True):
            if votes:
                raise StopTraining(reason)


def run_custom(
    train_loop: TrainLoop, dataset: Any, *, epochs: int, finish_epoch: Callable[[TrainLoop], None]
) -> None:
    """Trains until `epochs` epochs are complete; calls `finish_epoch` after each."""
    iterator = iter(dataset)
    while train_loop.epoch < epochs:
        train_loop.begin_epoch()
        while train_loop.steps_left_in_epoch:
            train_loop.advance(iterator)
        finish_epoch(train_loop)
