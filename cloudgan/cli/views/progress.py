"""Progress of long tasks on standard error: bars on a terminal, periodic lines elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from cloudgan.core import settings
from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from rich.progress import Task, TaskID

_LINE_EVERY_SECONDS = 15.0


class ProgressBars:
    """A `core.progress.Progress` as a context manager that restores the terminal at its end.

    Shows bars if standard error is a terminal and not of a CI; else plain lines.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        bars: bool | None = None,
        now: Callable[[], float] = monotonic_seconds,
    ) -> None:
        """Selects bars or lines by `stream`, or by `bars`."""
        stream = stream or sys.stderr
        wanted = stream.isatty() and not settings.is_ci() if bars is None else bars
        self._shown: _Terminal | _Lines = _Terminal(stream) if wanted else _Lines(stream, now)

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restores the terminal, also after Ctrl-C."""
        is_exit = isinstance(error, SystemExit) and not error.code  # of the master of ranks
        self._shown.stop(failed=error is not None and not is_exit)

    def start(self, task: str, total: float | None = None, unit: str = "") -> None:
        """Starts `task` and ends the previous one; `total` is None if it is unknown."""
        self._shown.start(task, total, unit)

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Advances the current task; `note` is a short text beside the bar."""
        self._shown.advance(amount, note)

    def say(self, line: str) -> None:
        """Prints one permanent line."""
        self._shown.say(printable(line))


class _Terminal:
    """Rich progress bars, one per task; finished ones stay."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            _Amount(),
            _Remaining(),
            TextColumn("{task.fields[note]}"),
            console=self._console,
        )
        self._task: TaskID | None = None

    def start(self, task: str, total: float | None, unit: str) -> None:
        self._end_task(failed=False)
        self._bars.start()
        self._task = self._bars.add_task(_plain(task), total=total, unit=unit, note="")

    def advance(self, amount: float, note: str) -> None:
        if self._task is None:
            return
        self._bars.advance(self._task, amount)
        if note:
            self._bars.update(self._task, note=_plain(note))

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)

    def stop(self, *, failed: bool) -> None:
        self._end_task(failed=failed)
        self._bars.stop()

    def _end_task(self, *, failed: bool) -> None:
        if self._task is None:
            return
        (task,) = (one for one in self._bars.tasks if one.id == self._task)
        if not failed and task.total is None:
            self._bars.update(self._task, total=task.completed or 1, completed=task.completed or 1)
        self._bars.stop_task(self._task)
        self._task = None


class _Amount(ProgressColumn):
    """Completed amount, total and rate."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(_amount(task.completed, task.total, str(task.fields["unit"]), speed))


class _Remaining(TimeRemainingColumn):
    """Remaining time; empty if it is unknown."""

    def render(self, task: Task) -> Text:
        if task.total is None or task.finished or task.time_remaining is None:
            return Text("")
        return Text(f"{_duration(task.time_remaining)} left")


class _Lines:
    """One line at the start of a task, every 15 seconds, and at its end."""

    def __init__(self, stream: TextIO, now: Callable[[], float]) -> None:
        self._stream, self._now = stream, now
        self._task: str | None = None
        self._total: float | None = None
        self._unit, self._done = "", 0.0
        self._started = self._last_line = now()

    def start(self, task: str, total: float | None, unit: str) -> None:
        self._end_task()
        self._task, self._total, self._unit, self._done = task, total, unit, 0.0
        self._started = self._last_line = self._now()
        self.say(f"{task} ...")

    def advance(self, amount: float, note: str) -> None:
        self._done += amount
        now = self._now()
        if self._task is None or now - self._last_line < _LINE_EVERY_SECONDS:
            return
        self._last_line, seconds = now, now - self._started
        speed = self._done / seconds
        parts = [_amount(self._done, self._total, self._unit, speed)]
        if self._total and speed > 0:
            parts.append(f"{_duration(max(0.0, self._total - self._done) / speed)} left")
        self.say(f"{self._task}: {', '.join([*parts, note] if note else parts)}")

    def say(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()

    def stop(self, *, failed: bool) -> None:
        self._end_task(how="stopped" if failed else "done")

    def _end_task(self, how: str = "done") -> None:
        if self._task is None:
            return
        seconds = self._now() - self._started
        speed = self._done / seconds if seconds > 0 else None
        amount = _amount(self._done, None, self._unit, speed) if self._done else ""
        self.say(f"{self._task}: {how}{', ' if amount else ''}{amount}, {_duration(seconds)}")
        self._task = None


def _amount(done: float, total: float | None, unit: str, per_second: float | None) -> str:
    """Such as ``120/2,000 steps, 12.5 steps/s``; empty without a count."""
    if not done and total is None:
        return ""
    count = f"{done:,.0f}" if total is None else f"{done:,.0f}/{total:,.0f}"
    named = f"{count} {unit}".rstrip()
    if not per_second:
        return named
    rate = f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.3g}"  # noqa: PLR2004
    return f"{named}, {rate} {unit}/s" if unit else f"{named}, {rate}/s"


def _duration(seconds: float) -> str:
    """Such as ``42 s``, ``3 min 05 s``, ``2 h 10 min``."""
    whole = round(seconds)
    minutes, hours = whole // 60, whole // 3600
    if hours:
        return f"{hours} h {minutes % 60:02d} min"
    return f"{minutes} min {whole % 60:02d} s" if minutes else f"{whole} s"


def _plain(text: str) -> str:
    """Escapes rich markup in text such as ``a[0].h5``."""
    return text.replace("[", r"\[")
