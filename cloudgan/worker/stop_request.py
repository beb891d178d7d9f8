"""Whether somebody told this worker to stop."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from cloudgan.core.errors import TryAgain

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class StopRequest:
    """SIGTERM, Ctrl-C or a cloud's notice asks; a second signal ends everything at once.

    A notice is no signal: the SIGTERM that follows it is the first one.
    """

    def __init__(self) -> None:
        self.asked = False
        self._was_signalled = False
        self._ends_seconds = float("inf")
        self._at_once: Callable[[], None] = _nothing

    def ask(self, within_seconds: float | None = None) -> None:
        """Asks to stop; `within_seconds` is when the machine will be gone, where that is known."""
        if within_seconds is not None:
            self._ends_seconds = time.monotonic() + within_seconds
        self.asked = True

    @property
    def left_seconds(self) -> float:
        """Until the machine is gone, as it was told; infinity where nobody told."""
        return max(0.0, self._ends_seconds - time.monotonic())

    def take_signals(self, at_once: Callable[[], None]) -> None:
        """Takes both signals; a second one calls `at_once` and ends the process."""
        self._at_once = at_once
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take)

    def _take(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._was_signalled:
            self._at_once()
            os._exit(TryAgain.exit_code)
        self._was_signalled = True
        self.ask()


def _nothing() -> None:
    """There is nothing to end yet."""
