"""Merges the logs of all workers into one stream and reconnects interrupted streams."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Final

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CloudganError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.launch.backends.job_backend import JobBackend
    from cloudgan.schema.run_state import LogLine

_LOOK_EVERY_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 1.5
_LONGEST_PAUSE_SECONDS: Final = 30.0


def merge_logs(backend: JobBackend, run: str, *, follow: bool) -> Iterator[LogLine]:
    """Yields log lines: live with `follow`, else the stored lines sorted by time.

    Args:
        backend: Of the run.
        run: Name of the run.
        follow: Stream until the run is over, including replacement workers.
    """
    if not follow:
        found = [line for source in backend.log_sources(run).values() for line in source(False)]
        yield from sorted(found, key=lambda line: line.time) if _are_timed(found) else found
        return
    yield from _followed(backend, run)


def _followed(backend: JobBackend, run: str) -> Iterator[LogLine]:
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
        for name, source in backend.log_sources(run).items():
            if name not in readers:
                readers[name] = _Reader(source, lines)
                readers[name].start()
            elif readers[name].is_due(now):
                readers[name] = readers[name].again(now)
        if not backend.state(run).is_over:
            over_at = None
        elif over_at is None:
            over_at = now
            for reader in readers.values():
                reader.read_once_more()
        elif now - over_at > _QUIET_SECONDS and lines.empty():
            return


class _Reader(threading.Thread):
    """Reads one source into the queue and skips lines read before an interruption."""

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
        """Whether the reader ended and its backoff has passed."""
        return not self.is_alive() and now - self._begun >= self._pause_seconds

    def read_once_more(self) -> None:
        """Resets the backoff for a last read at the end of the run."""
        self._pause_seconds = 0.0

    def again(self, now: float) -> _Reader:
        """Starts a new reader; a pod log restarts at its first line, so known lines are skipped."""
        pause = 0.0
        if self._read <= self._skip:
            pause = min(2 * self._pause_seconds + _LOOK_EVERY_SECONDS, _LONGEST_PAUSE_SECONDS)
        new = _Reader(self._source, self._lines, max(self._read, self._skip), pause, now)
        new.start()
        return new


def _are_timed(lines: list[LogLine]) -> bool:
    return all(line.time for line in lines)
