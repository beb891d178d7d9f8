"""Validates the centre in a thread of the master, while it goes on answering the workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from cloudgan.training.checkpoint import BestCheckpoint


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


class Validator:
    """Measures one centre at a time."""

    def __init__(
        self,
        prepare: Callable[[], Callable[[Sequence[Any]], tuple[dict[str, float], int]]],
        *,
        start_time: float,
    ) -> None:
        """Prepares the validator; nothing is imported before the first validation.

        Args:
            prepare: Imports TensorFlow and opens the data; returns the function from the weights of a
                generator, in Keras order, to its metrics and the number of showers.
            start_time: `time.perf_counter()` at the start of the program.
        """
        self._prepare, self._start_time = prepare, start_time
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

    def _validate(self, step: int, epoch: int, weights: Sequence[Any]) -> Measured:
        began = time.perf_counter()
        if self._measure is None:
            self._measure = self._prepare()
        metrics, showers = self._measure(weights)
        now = time.perf_counter()
        found = BestCheckpoint(step=step, epoch=epoch, metrics=metrics)
        return Measured(found, showers, now - began, now - self._start_time)
