"""Whether somebody told this worker to stop."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from cloudgan.core.errors import TryAgain

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class StopRequest:
    """SIGTERM or Ctrl-C: the first asks, the second ends everything at once."""

    def __init__(self) -> None:
        self.asked = False
        self._at_once: Callable[[], None] = _nothing

    def ask(self) -> None:
        """Asks to stop."""
        self.asked = True

    def take_signals(self, at_once: Callable[[], None]) -> None:
        """Takes both signals; a second one calls `at_once` and ends the process."""
        self._at_once = at_once
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take)

    def _take(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.asked:
            self._at_once()
            os._exit(TryAgain.exit_code)
        self.ask()


def _nothing() -> None:
    """There is nothing to end yet."""
