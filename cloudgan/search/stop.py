"""A request to end a search by Ctrl-C, by SIGTERM, or by the process that watches this one."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from cloudgan.core.errors import Interrupted, TryAgain


class StopRequest:
    """Whether a signal asked to end."""

    number: int | None = None

    def __call__(self, number: int, frame: object = None) -> None:
        """Notes a signal, as its handler."""
        del frame
        self.number = number

    @contextlib.contextmanager
    def by_signals(self, hint: str) -> Iterator[None]:
        """Handles SIGINT and SIGTERM; raises `Interrupted` or `TryAgain` at the end of a block that one ended."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self.number is not None:
            kind = Interrupted if self.number == signal.SIGINT else TryAgain
            raise kind(f"the search stopped; {hint}")
