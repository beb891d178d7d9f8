"""A rank that exchanges with a master, as the master knows it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

FIRST_SILENCE_SECONDS = 1800.0
"""A worker traces and compiles before its first update."""

LEAST_SILENCE_SECONDS = 60.0
_SILENT_INTERVALS = 20.0


@dataclass
class Child:
    """The leader of a worker, or a master below rank 0.

    Attributes:
        rank: Of the child.
        workers: Numbers of the workers below it, or its own.
        clock: Of the centre that it fetched last.
        heard_at: `time.monotonic` of its last message.
        longest: Seconds between two of its updates.
        updates: Received from it.
        ended_with: The steps that it saved at its end, as in `Tag.DONE`; empty while it trains.
    """

    rank: int
    workers: tuple[int, ...]
    clock: int = 0
    heard_at: float = 0.0
    longest: float = 0.0
    updates: int = 0
    ended_with: list[int] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return bool(self.ended_with)

    @property
    def name(self) -> str:
        """What it is, for messages."""
        if len(self.workers) == 1:
            return f"worker {self.workers[0]} (rank {self.rank})"
        return f"the master of workers {self.workers[0]} to {self.workers[-1]} (rank {self.rank})"

    def heard(self) -> None:
        """Notes a message."""
        now = time.monotonic()
        if self.updates > 1:
            self.longest = max(self.longest, now - self.heard_at)
        self.heard_at = now

    def is_silent(self, now: float) -> bool:
        """Whether it has frozen: twenty times its longest interval without a message."""
        limit = max(LEAST_SILENCE_SECONDS, _SILENT_INTERVALS * self.longest)
        return now - self.heard_at > (limit if self.updates > 1 else FIRST_SILENCE_SECONDS)
