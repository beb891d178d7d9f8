"""Brings the lines of all workers into one stream; a stream that is cut is taken up again."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Final

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CloudganError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.core.run_state import LogLine
    from cloudgan.launching.provider import Provider

_LOOK_EVERY_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 1.5


def merged(provider: Provider, run: str, *, follow: bool) -> Iterator[LogLine]:
    """Yields lines as they come, or, without `follow`, those that are there, in their order.

    Args:
        provider: Where the run is.
        run: Its name.
        follow: Until the run is over, with workers that take another's place.
    """
    if not follow:
        found = [line for source in provider.log_sources(run).values() for line in source(False)]
        yield from sorted(found, key=lambda line: line.time) if _are_timed(found) else found
        return
    yield from _followed(provider, run)


def _followed(provider: Provider, run: str) -> Iterator[LogLine]:
    lines: queue.SimpleQueue[LogLine] = queue.SimpleQueue()
    readers: dict[str, _Reader] = {}
    over_at: float | None = None
    looked = 0.0
    while True:
        try:
            yield lines.get(timeout=0.2)
            continue
        except queue.Empty:
            pass
        now = monotonic_seconds()
        if now - looked < _LOOK_EVERY_SECONDS:
            continue
        looked = now
        for name, source in provider.log_sources(run).items():
            if name not in readers:
                readers[name] = _Reader(source, lines)
                readers[name].start()
            elif not readers[name].is_alive() and over_at is None:
                readers[name] = readers[name].again()
        if not provider.state(run).is_over:
            over_at = None
        elif over_at is None:
            over_at = now
        elif now - over_at > _QUIET_SECONDS and lines.empty():
            return


class _Reader(threading.Thread):
    """Reads one source into the queue, without what was read before it was cut."""

    def __init__(
        self,
        source: Callable[[bool], Iterator[LogLine]],
        lines: queue.SimpleQueue[LogLine],
        skip: int = 0,
    ) -> None:
        super().__init__(name="log reader", daemon=True)
        self._source, self._lines, self._skip, self._read = source, lines, skip, 0

    def run(self) -> None:
        try:
            for line in self._source(True):
                self._read += 1
                if self._read > self._skip:
                    self._lines.put(line)
        except CloudganError:
            time.sleep(_LOOK_EVERY_SECONDS)

    def again(self) -> _Reader:
        """Starts over where this one was cut: a pod's log begins at its beginning again."""
        new = _Reader(self._source, self._lines, max(self._read, self._skip))
        new.start()
        return new


def _are_timed(lines: list[LogLine]) -> bool:
    return all(line.time for line in lines)
