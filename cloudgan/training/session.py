"""One process' way through the steps of a run: what both loops call, block by block.

The inner loop runs steps inside one compiled function; between two blocks the session counts,
notes losses, saves, and stops where all workers agreed to.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from cloudgan.core.errors import CloudganError
from cloudgan.core.pulse import PulseFile
from cloudgan.training.step import COLUMNS, PASSES
from cloudgan.training.stopping import StopTraining

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.core.config import TrainingConfig
    from cloudgan.core.progress import Progress
    from cloudgan.data.order import Order
    from cloudgan.training.step import GanStep
    from cloudgan.training.stopping import Reason, StopFlag

REASONS: tuple[Reason, ...] = ("interrupted", "terminated", "max_seconds", "reached")
"""Why a worker may ask all to stop, in the order in which they are told where several do."""


def compile_steps(strategy: tf.distribute.Strategy, step: GanStep) -> Callable[..., Any]:
    """Compiles `steps` steps for all replicas into one call.

    Returns:
        A function of (iterator, steps, votes) that returns the sum over steps of the global mean
        losses, (PASSES, COLUMNS), and the sum over replicas of `votes`, so that every worker sees
        the same of both after the same step.
    """

    # Without autograph: no branch of a step depends on a tensor, and to translate delays the start.
    @tf.function(autograph=False)
    def run(iterator: Any, steps: tf.Tensor, votes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def one_more(done: tf.Tensor, losses: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            shares = strategy.run(step, args=(iterator.get_next(),))
            return done + 1, losses + strategy.reduce(tf.distribute.ReduceOp.SUM, shares, axis=None)

        none = tf.zeros((len(PASSES), len(COLUMNS)), step.loss_dtype)
        _, losses = tf.while_loop(
            lambda done, _: done < steps, one_more, (tf.zeros_like(steps), none)
        )
        agreed = strategy.run(tf.identity, args=(votes,))
        return losses, strategy.reduce(tf.distribute.ReduceOp.SUM, agreed, axis=None)

    return run


def no_votes() -> tf.Tensor:
    """Votes of nobody, as a compiled function takes them."""
    return tf.zeros(len(REASONS), tf.int32)


class Session:
    """Counts steps and epochs; `advance` runs a block of steps."""

    def __init__(
        self,
        run_steps: Callable[..., Any],
        order: Order,
        training: TrainingConfig,
        *,
        flag: StopFlag,
        progress: Progress,
        step: int,
        train_seconds: float,
        steps_per_loop: int,
        save: Callable[[Session], float],
        save_due: Callable[[Session], bool],
        idle: Callable[[], Any] = lambda: None,
        pulse: PulseFile | None = None,
    ) -> None:
        """Starts at `step`, after `train_seconds` of training by earlier processes.

        `idle` makes an iterator for `stop_if_asked`: like that of the batches, and never read.
        """
        self._run_steps, self._order, self._training = run_steps, order, training
        self._flag, self._progress = flag, progress
        self.step, self.train_seconds = step, train_seconds
        self._steps_per_loop = steps_per_loop
        self._save, self._save_due, self._idle = save, save_due, idle
        self._pulse = pulse or PulseFile(None)
        self.first = True
        self.begin_epoch()

    @property
    def epoch(self) -> int:
        """The epoch of the next step, counted from 0."""
        return self._order.epoch_of(self.step)

    @property
    def steps_left_in_epoch(self) -> int:
        """Steps until the epoch that `begin_epoch` saw is over."""
        return max(0, self._order.steps_through(self.begun_epoch) - self.step)

    @property
    def blocks_per_epoch(self) -> int:
        """The most calls of `advance` that an epoch can need."""
        return -(-self._order.most_steps_per_epoch // self._steps_per_loop)

    def begin_epoch(self) -> None:
        """Clears what is counted per epoch."""
        self.begun_epoch, self.begun_step = self.epoch, self.step
        self.begun_cold = self.first
        self._sums = np.zeros((len(PASSES), len(COLUMNS)))
        self.epoch_seconds = self.trace_seconds = self.checkpoint_seconds = 0.0
        self._traced_steps = 0

    def advance(self, iterator: Any) -> None:
        """Runs the next block of steps, at most to the end of the epoch.

        Raises:
            StopTraining: All workers agreed to stop here.
            CloudganError: A loss is no number any more.
        """
        steps = min(self._steps_per_loop, self.steps_left_in_epoch, self._steps_allowed())
        if not steps:
            return
        began = time.perf_counter()
        losses, votes = self._run_steps(
            iterator, tf.constant(steps, tf.int32), tf.constant(self._votes())
        )
        sums, agreed = np.asarray(losses), np.asarray(votes)  # waits for the device
        self._count(steps, sums, time.perf_counter() - began)
        self._flag.stepped = True
        self._pulse.beat(self.step, self.epoch)
        if not np.isfinite(sums).all():
            raise CloudganError(
                f"a loss is no number any more in the steps up to {self.step}: {self.losses()};"
                " the last checkpoint is from before. A smaller model.learning_rate helps"
            )
        self._stop_if(agreed)
        if self._save_due(self):
            self.checkpoint_seconds += self._save(self)
            self._pulse.beat(self.step, self.epoch)

    def stop_if_asked(self) -> None:
        """Runs no step; every worker calls it after the same one, to stop there if one asked.

        Raises:
            StopTraining: One did.
        """
        none, votes = tf.constant(0, tf.int32), tf.constant(self._votes())
        _, agreed = self._run_steps(self._idle(), none, votes)
        self._stop_if(np.asarray(agreed))

    def losses(self) -> dict[str, dict[str, float]]:
        """Mean losses of the epoch so far, by pass and term."""
        steps = max(1, self.step - self.begun_step)
        return loss_table(self._sums / steps)

    def samples_per_second(self) -> float:
        """Throughput of this epoch without its first call; 0 while there was only that one."""
        steps = self.step - self.begun_step - self._traced_steps
        seconds = self.epoch_seconds - self.trace_seconds
        return steps * self._order.global_batch_size / seconds if steps and seconds > 0 else 0.0

    def _steps_allowed(self) -> int:
        end = self._order.steps_through(self._training.epochs - 1)
        return max(0, min(end, self._training.max_steps or end) - self.step)

    def _votes(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        limit = self._training.max_seconds
        if limit is not None and self.train_seconds >= limit:
            self._flag.ask("max_seconds")
        return np.array([self._flag.reason == reason for reason in REASONS], np.int32)

    def _count(self, steps: int, sums: np.ndarray[Any, Any], seconds: float) -> None:
        self.step += steps
        self._sums += sums
        self.epoch_seconds += seconds
        self.train_seconds += seconds
        if self.first:
            self.first, self.trace_seconds, self._traced_steps = False, seconds, steps
        total = sums[PASSES.index("generator"), COLUMNS.index("total")] / steps
        self._progress.advance(
            steps * self._order.global_batch_size, f"step {self.step}, generator loss {total:.2f}"
        )

    def _stop_if(self, agreed: np.ndarray[Any, Any]) -> None:
        limit = self._training.max_steps
        if limit is not None and self.step >= limit:
            raise StopTraining("max_steps")
        for reason, votes in zip(REASONS, agreed, strict=True):
            if votes:
                raise StopTraining(reason)


def loss_table(matrix: np.ndarray[Any, Any]) -> dict[str, dict[str, float]]:
    """Names the numbers of a (PASSES, COLUMNS) matrix."""
    return {
        name: {column: _plain(value) for column, value in zip(COLUMNS, row, strict=True)}
        for name, row in zip(PASSES, matrix, strict=True)
    }


def _plain(value: float) -> float:
    return float(f"{value:.6g}") if math.isfinite(value) else float(value)
