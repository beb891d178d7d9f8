"""One rule of who is lost: a process of a world that has sent nothing for too long.

A process that exchanges seldom teaches its limit by its own intervals; one that sends signs of life at a fixed
interval has a fixed limit. Before either has begun it imports, traces and compiles, and may be silent for longer.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from cloudgan.core.errors import TryAgain

ANSWER_SECONDS = 300.0
"""Longest wait for an answer that takes milliseconds."""

ROUND_SECONDS = 1800.0
"""Longest wait for an answer that needs the work of all others; each of them may compile first."""

_LONGEST_LOOK = 1.0
_SILENT_INTERVALS = 20.0


class SilenceClock:
    """Seconds in which this process itself could listen.

    A process that was suspended, or whose machine was, would otherwise take its own pause for the
    silence of all others.
    """

    def __init__(self) -> None:
        self._seconds, self._looked_at = 0.0, time.monotonic()

    def look(self) -> float:
        """Returns the time; between two looks it passes by one second at most."""
        now = time.monotonic()
        self._seconds += min(now - self._looked_at, _LONGEST_LOOK)
        self._looked_at = now
        return self._seconds


@dataclass
class Silence:
    """How long another process has sent nothing, by the clock of the one that listens.

    `least_seconds` is its limit, or `first_seconds` before it has begun; `longest` is its longest interval in
    its work, twenty times of which are its limit if that is more.
    """

    clock: SilenceClock
    least_seconds: float
    first_seconds: float
    longest: float = 0.0
    heard_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.heard()

    def heard(self, *, at_work: bool = False) -> None:
        """Notes a message, or that this process owed it an answer until now; `at_work`: it ends an interval."""
        now = self.clock.look()
        if at_work:
            self.longest = max(self.longest, now - self.heard_at)
        self.heard_at = now

    @property
    def seconds(self) -> float:
        """Seconds since the last message."""
        return self.clock.look() - self.heard_at

    def is_lost(self, *, has_begun: bool) -> bool:
        """Whether it has been silent for longer than its limit."""
        learnt = max(self.least_seconds, _SILENT_INTERVALS * self.longest)
        return self.seconds > (learnt if has_begun else self.first_seconds)

    def error(self, name: str) -> TryAgain:
        """Returns why all ranks start again."""
        return silent_error(name, self.seconds)


def silent_error(name: str, seconds: float) -> TryAgain:
    """Returns the error of a rank for which another one, of this name, is lost."""
    return TryAgain(
        f"{name} has sent nothing for {seconds:.0f} s and may be frozen; start all ranks again to resume from the"
        " last checkpoint"
    )
