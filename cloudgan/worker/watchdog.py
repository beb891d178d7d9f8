"""Whether a training still moves: judged by its pulses and by how long its steps usually take."""

from __future__ import annotations

import statistics
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloudgan.worker.limits import Limits

_REMEMBERED = 100


class Watchdog:
    """Watches one training process."""

    def __init__(self, limits: Limits, now_seconds: float) -> None:
        """Begins when the process begins."""
        self._limits = limits
        self._step: int | None = None
        self._lines = 0
        self._moved = now_seconds
        self._intervals: deque[float] = deque(maxlen=_REMEMBERED)

    def heard(self, lines: int, now_seconds: float) -> None:
        """Notes how many lines it said: before its first step, as it reads the data, it tells that."""
        if self._step is None and lines != self._lines:
            self._lines, self._moved = lines, now_seconds

    def saw(self, step: int, now_seconds: float) -> None:
        """Notes that `step` is finished."""
        if step == self._step:
            return
        if self._step is not None:
            self._intervals.append(now_seconds - self._moved)
        self._step, self._moved = step, now_seconds

    @property
    def limit_seconds(self) -> float:
        """How long the next step may take; until two were seen, tracing is part of it."""
        if not self._intervals:
            return self._limits.first_step_seconds
        usual = statistics.median(self._intervals)
        return max(self._limits.stall_seconds, self._limits.stall_medians * usual)

    def is_late(self, now_seconds: float) -> bool:
        """Whether nothing moved for longer than that."""
        return now_seconds - self._moved > self.limit_seconds
