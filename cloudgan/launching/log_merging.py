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
_LONGEST_PAUSE_SECONDS: Final = 30.0


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
            elif readers[name].is_due(now):
                readers[name] = readers[name].again(now)
        if not provider.state(run).is_over:
            over_at = None
        elif over_at is None:
            over_at = now
            for reader in readers.values():
                reader.read_once_more()
        elif now - over_at > _QUIET_SECONDS and lines.empty():
            return


class _Reader(threading.Thread):
    """Reads one source into the queue, without what was read before it was cut."""

    def __init__(
        self,
        source: Callable[[bool], Iterator[LogLine]],
        lines: queue.SimpleQueue[LogLine],
        skip: int = 0,
        pause_seconds: float = 0.0,
        begun: float = 0.0,
    ) -> None:
        super().__init__(name="log reader", daemon=True)
        self._source, self._lines, self._skip, self._read = source, lines, skip, 0
        self._pause_seconds, self._begun = pause_seconds, begun

    def run(self) -> None:
        try:
            for line in self._source(True):
                self._read += 1
                if self._read > self._skip:
                    self._lines.put(line)
        except CloudganError:
            time.sleep(_LOOK_EVERY_SECONDS)

    def is_due(self, now: float) -> bool:
        """Whether it has ended and may have been cut: asked less and less while nothing comes."""
        return not self.is_alive() and now - self._begun >= self._pause_seconds

    def read_once_more(self) -> None:
        """What was cut before the run's end is worth a last look, now."""
        self._pause_seconds = 0.0

    def again(self, now: float) -> _Reader:
        """Starts over where this one was cut: a pod's log begins at its beginning again."""
        pause = 0.0
        if self._read <= self._skip:
            pause = min(2 * self._pause_seconds + _LOOK_EVERY_SECONDS, _LONGEST_PAUSE_SECONDS)
        new = _Reader(self._source, self._lines, max(self._read, self._skip), pause, now)
        new.start()
        return new


def _are_timed(lines: list[LogLine]) -> bool:
    return all(line.time for line in lines)
