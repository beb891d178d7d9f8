"""A request to stop what child processes do: by a signal, or because the process that supervises this one has ended."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TextIO

from cloudgan.core import settings
from cloudgan.core.errors import Interrupted, TryAgain


def at_its_end(lifeline: TextIO, call: Callable[[], object]) -> None:
    """Calls a function, in a thread, when a pipe from the parent process is closed: by it, or because it died."""

    def wait() -> None:
        lifeline.read()
        call()

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


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
