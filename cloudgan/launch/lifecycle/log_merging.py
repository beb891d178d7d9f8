"""Merges the logs of all workers into one stream and reconnects interrupted streams."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from cloudgan.core.clock import monotonic_seconds, parse_time_or_none
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.schema.run_state import LogLine

LogSource = Callable[[bool], Iterator[LogLine]]
"""Yields the lines of one worker; the argument means follow."""
_LOOK_EVERY_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 1.5
_LONGEST_PAUSE_SECONDS: Final = 30.0


def merge_logs(
    sources: Callable[[], Mapping[str, LogSource]],
    is_over: Callable[[], bool],
    *,
    follow: bool,
    since: datetime | None = None,
    last: int | None = None,
) -> Iterator[LogLine]:
    """Yields log lines: the stored ones sorted by time, with `follow` the new ones after them.

    Args:
        sources: Returns by worker the function that yields its lines; the argument means follow.
        follow: Stream until the run is over, including replacement workers.
        last: Of the stored lines only this many.
    """
    if follow and since is None and last is None:
        yield from _followed(sources, is_over, {})
        return
    stored = {name: list(source(False)) for name, source in sources().items()}
    timed = [one for lines in stored.values() for one in _timed(lines, since)]
    if all(time for time, _ in timed):
        timed.sort(key=lambda one: one[0])
    first = 0 if last is None else max(0, len(timed) - last)
    yield from (line for _, line in timed[first:])
    if follow:
        yield from _followed(sources, is_over, {name: len(each) for name, each in stored.items()})


def _timed(lines: Sequence[LogLine], since: datetime | None) -> Iterator[tuple[str, LogLine]]:
    """Yields the lines since a moment with their times; one without a time has that of the line before."""
    if since and lines and not any(line.time for line in lines):
        raise ConfigError(
            "--since needs lines with times, and this log has none; give --lines=N for the last ones"
        )
    time = ""
    for line in lines:
        time = line.time or time
        moment = parse_time_or_none(time)
        if since is None or (moment is not None and moment >= since):
            yield time, line


def _followed(
    sources: Callable[[], Mapping[str, LogSource]],
    is_over: Callable[[], bool],
    known: Mapping[str, int],
) -> Iterator[LogLine]:
    """Yields new lines; of each source the first `known` ones are not new."""
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
        for name, source in sources().items():
            if name not in readers:
                readers[name] = _Reader(source, lines, known.get(name, 0))
                readers[name].start()
            elif readers[name].is_due(now):
                readers[name] = readers[name].again(now)
        if not is_over():
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
        source: LogSource,
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
        except (CloudganError, OSError):  # OSError: a log file that was deleted with its run
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
