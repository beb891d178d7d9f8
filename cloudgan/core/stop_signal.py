"""A request to stop what child processes do: by a signal, or because the process that supervises this one has ended."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from functools import partial

from cloudgan.core import settings
from cloudgan.core.errors import Interrupted, TryAgain
from cloudgan.core.lifeline import at_its_end


class StopSignal:
    """Which signal asked to stop, the newest; None: none did."""

    number: int | None = None

    def __call__(self, number: int, frame: object = None) -> None:
        """Notes a signal, as its handler."""
        del frame
        self.number = number

    @contextlib.contextmanager
    def by_signals(self, message: str) -> Iterator[None]:
        """Handles SIGINT and SIGTERM; raises `Interrupted` or `TryAgain` at the end of a block that one ended."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self) for number in numbers}
        if settings.is_supervised():  # by a block of a search
            at_its_end(sys.stdin, partial(self, signal.SIGTERM))
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self.number is not None:
            raise (Interrupted if self.number == signal.SIGINT else TryAgain)(message)


RESUMES = "stopped; rerun the command to resume from the last checkpoint"
