"""Validates the centre in a thread of the master, while it goes on answering the workers."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.core.clock import utc_now
from cloudgan.schema.record import Validated
from cloudgan.training.checkpoint import BestCheckpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from cloudgan.schema.config import TrainingConfig


@dataclass(frozen=True)
class Measured:
    """Quality of one centre.

    Attributes:
        checkpoint: Step, epoch and metrics.
        showers: Compared.
        seconds: Of the validation.
        program_seconds: Of the program until now.
    """

    checkpoint: BestCheckpoint
    showers: int
    seconds: float
    program_seconds: float

    def line(self, best: BestCheckpoint | None, training: TrainingConfig) -> Validated:
        """Returns the record's line; `best` is the best checkpoint before."""
        found, ranking = self.checkpoint, training.ranking
        return Validated(
            time=utc_now(),
            step=found.step,
            epoch=found.epoch,
            showers=self.showers,
            metrics=found.metrics,
            seconds=self.seconds,
            ranked_by=ranking.name,
            best=found.is_better_than(best, ranking),
            until=training.until,
            reached=bool(training.until) and ranking.holds(found.metrics),
            program_seconds=self.program_seconds,
        )

    def describe(self, best: BestCheckpoint | None, training: TrainingConfig) -> str:
        """Returns the validation as one line."""
        name = training.ranking.name
        value = self.checkpoint.value(training.ranking)
        most = best.value(training.ranking) if best else value
        return f"epoch {self.checkpoint.epoch + 1}: {name} {value:.4g} (best {most:.4g})"


class Validator:
    """Measures one centre at a time."""

    def __init__(
        self,
        prepare: Callable[[], Callable[[Sequence[Any]], tuple[dict[str, float], int]]],
        training: TrainingConfig,
        *,
        start_time: float,
    ) -> None:
        """Prepares the validator; nothing is imported before the first validation.

        Args:
            prepare: Imports TensorFlow and opens the data; returns the function from the weights of a
                generator, in Keras order, to its metrics and the number of showers.
            training: Stop criterion and ranking.
            start_time: `time.perf_counter()` at the start of the program.
        """
        self._prepare, self._training, self._start_time = prepare, training, start_time
        self._thread = ThreadPoolExecutor(1, "validation")
        self._measure: Callable[[Sequence[Any]], tuple[dict[str, float], int]] | None = None
        self._running: Future[Measured] | None = None

    def result(self, step: int, epoch: int, weights: Sequence[Any]) -> Measured | None:
        """Returns the quality of a centre; None until it is known. The first call starts it."""
        if self._running is None:
            self._running = self._thread.submit(self._validate, step, epoch, weights)
        if not self._running.done():
            return None
        found = self._running.result()
        self._running = None
        return found

    def stop_message(self, best: BestCheckpoint | None) -> str:
        """Returns how close the run came to its stop criterion; empty without one."""
        training = self._training
        if not training.until:
            return ""
        if best is None:
            return f"{training.ranking} not reached: no epoch was validated"
        holds = training.ranking.holds(best.metrics)
        value = best.value(training.ranking)
        return (
            f"{training.ranking} {'reached' if holds else 'not reached'}: the best is {value:.4g}"
            f" after epoch {best.epoch + 1} (step {best.step})"
        )

    def _validate(self, step: int, epoch: int, weights: Sequence[Any]) -> Measured:
        began = time.perf_counter()
        if self._measure is None:
            self._measure = self._prepare()
        metrics, showers = self._measure(weights)
        now = time.perf_counter()
        found = BestCheckpoint(step=step, epoch=epoch, metrics=metrics)
        return Measured(found, showers, now - began, now - self._start_time)
