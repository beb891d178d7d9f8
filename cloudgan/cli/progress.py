"""Progress of long tasks on standard error: one live line on a terminal, a line a minute elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from cloudgan.cli.table_text import width_of, wrapped
from cloudgan.core import settings
from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.exit_at_once import LiveLine
from cloudgan.core.progress import Progress
from cloudgan.core.user_text import printable

_LINE_EVERY_SECONDS = 60.0
_SHORTEST_BAR, _LONGEST_BAR = 8, 24
_SHORTEST_SECONDS = 1.0  # of a task that leaves a line on a terminal
_SLOWEST_RATE = 0.1  # per second; a rate of trials or epochs says nothing


class ProgressBars(Progress):
    """Progress as a context manager that restores the terminal at its end.

    A finished task leaves one line. On a terminal, and not in a CI, the current one is a line beneath
    that never takes a second row.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        bars: bool | None = None,
        now: Callable[[], float] = monotonic_seconds,
    ) -> None:
        """Shows a live line as `stream` can, or as `bars` says."""
        self._now, self._last_line = now, now()
        self._task: _Task | None = None
        self._run: _Task | None = None
        self._console = Console(
            file=stream or sys.stderr, highlight=False, markup=False, emoji=False
        )
        can = self._console.is_terminal and not self._console.is_dumb_terminal
        self._live: Live | None = None
        if can and not settings.is_on("CI") if bars is None else bars:
            self._live = Live(
                console=self._console,
                get_renderable=self._live_line,
                transient=True,
                redirect_stdout=sys.stdout.isatty(),
            )

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restores the terminal, also after Ctrl-C and SIGTERM."""
        is_exit = isinstance(error, SystemExit) and not error.code  # of the master of ranks
        self._end(failed=error is not None and not is_exit)

    def start(
        self,
        task: str,
        total: float | None = None,
        unit: str = "",
        *,
        done: float = 0,
        count: str = "",
    ) -> None:
        """Starts `task` and ends the previous one."""
        self._leave_task(failed=False)
        name, now = printable(task), self._now()
        if self._run and count and self._run.name == name:
            self._task = self._run
            self._task.active_from = now
        else:
            self._task = _Task(name, began=now)
            self._run = self._task if count else self._run
            self._last_line = now
        self._task.total, self._task.unit, self._task.count = total, unit, count
        self._task.done = self._task.before = done
        if self._live:
            LiveLine.is_shown = True
            self._live.start()
        elif total is None and not self._run:
            self.say(name)

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Advances the current task; `note` has short texts, with two spaces between them."""
        if self._task is None:
            return
        self._task.advance(amount, printable(note), self._now())
        if not self._live and self._now() - self._last_line >= _LINE_EVERY_SECONDS:
            name, *parts = (text for _, text in self._task.parts(self._now()))
            self.say(f"{name}: {', '.join(parts)}")
        if self._task.total is not None and self._task.done >= self._task.total and not self._run:
            self._leave_task(failed=False)

    def say(self, line: str) -> None:
        """Prints a permanent line; a terminal wraps it at spaces only."""
        self._last_line = self._now()
        for row in wrapped(line, width_of(self._console), indent="  "):
            self._console.print(Text(row), soft_wrap=True)

    def end(self) -> None:
        """Ends the current task and its run, so that others can write to the terminal."""
        self._end(failed=False)

    def _end(self, *, failed: bool) -> None:
        self._leave_task(failed=failed)
        self._run = None
        if self._live:
            self._live.stop()
            LiveLine.is_shown = False

    def _leave_task(self, *, failed: bool) -> None:
        """Prints the line of the task, unless it is a run or within one."""
        task, self._task = self._task, None
        if task is None:
            return
        seconds = self._now() - task.began
        if self._live:
            is_told = seconds < _SHORTEST_SECONDS
        else:
            is_told = task.total is None and not task.done  # by its first line
        if self._live:
            self._live.refresh()
        if not self._run and (failed or not is_told):
            self.say(task.last_line(seconds, failed=failed))

    def _live_line(self) -> Text:
        if self._task is None:
            return Text("")
        return _fitted(self._task, self._now(), self._console.width - 1)


@dataclass
class _Task:
    """A task, and when it advanced.

    Attributes:
        before: What earlier processes had done of it.
        timed: When it first advanced, which includes a compilation, and what was done then.
        advanced: When it last advanced.
        active_from: When it last advanced, or went on after a task within it.
        active: Seconds from `timed` to `advanced` without such tasks.
    """

    name: str
    began: float
    total: float | None = None
    unit: str = ""
    count: str = ""
    done: float = 0.0
    before: float = 0.0
    note: str = ""
    timed: tuple[float, float] | None = None
    advanced: float = 0.0
    active_from: float = 0.0
    active: float = 0.0

    def advance(self, amount: float, note: str, now: float) -> None:
        self.done += amount
        self.note = note or self.note
        if self.timed:
            self.active += now - self.active_from
        self.timed = self.timed or (now, self.done)
        self.advanced = self.active_from = now

    def parts(self, now: float) -> Iterator[tuple[int, str]]:
        """Yields the texts from left to right, each with its rank when there is no room for all."""
        yield 0, self.name
        count = f"{self.done:,.0f}"
        if self.total is not None:
            count += f"/{self.total:,.0f}"
        if self.count or self.done or self.total:
            yield 2, self.count or f"{count} {self.unit}".rstrip()
        if self.total:
            yield 3, f"{min(1.0, self.done / self.total):.0%}"
        since, before = self.timed or (now, self.done)
        fresh = self.done - before
        rate = fresh / self.active if self.active > 0 else 0.0
        if rate >= _SLOWEST_RATE:
            number = f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"  # noqa: PLR2004
            yield 5, f"{number} {self.unit}/s" if self.unit else f"{number}/s"
        for part in filter(None, self.note.split("  ")):
            yield 4, part
        if self.total and fresh > 0:
            left = (self.total - self.done) * (self.advanced - since) / fresh
            yield 1, f"{_duration(max(0.0, left + self.advanced - now))} left"
        else:
            yield 1, _duration(now - self.began)

    def last_line(self, seconds: float, *, failed: bool) -> str:
        """Such as ``converting: 600 showers in 12 s``: what took this time, of a failed task how far it is."""
        duration = _duration(seconds, tenths=True)
        done = self.done if failed else self.done - self.before
        of = f"/{self.total:,.0f}" if failed and self.total else ""
        unit = self.unit if of or done != 1 else self.unit.removesuffix("s")
        amount = f"{done:,.0f}{of} {unit}".rstrip() if done else ""
        if failed:
            return f"{self.name}: stopped after {amount + ', ' if amount else ''}{duration}"
        return f"{self.name}: {amount + ' in ' if amount else ''}{duration}"


def _fitted(task: _Task, now: float, width: int) -> Text:
    """One row: the parts that fit, in the order of their ranks, and a bar in the rest of it."""
    parts = list(task.parts(now))
    left, shown = width, list[int]()
    for index, (_, text) in sorted(enumerate(parts), key=lambda each: each[1][0]):
        if len(text) + (2 if shown else 0) <= left:
            left -= len(text) + (2 if shown else 0)
            shown.append(index)
    row = Text(no_wrap=True, overflow="crop", end="")
    for index in sorted(shown):
        rank, text = parts[index]
        if rank == _PERCENT and task.total and left > _SHORTEST_BAR:
            row.append("  ").append_text(
                _bar(min(1.0, task.done / task.total), min(left - 2, _LONGEST_BAR))
            )
            row.append(" ")
            left = 0
        elif len(row):
            row.append("  ")
        row.append(text)
    return row


_PERCENT = 3


def _bar(share: float, width: int) -> Text:
    halves = int(share * width * 2)
    bar = Text("━" * (halves // 2) + "╸" * (halves % 2), style="cyan")
    return bar.append("─" * (width - len(bar)), style="dim")


def _duration(seconds: float, *, tenths: bool = False) -> str:
    """Such as ``42 s``, ``3 min 05 s``, ``2 h 10 min``; below 10 s with `tenths`."""
    if tenths and seconds < 10:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    whole = round(seconds)
    minutes, hours = whole // 60, whole // 3600
    if hours:
        return f"{hours} h {minutes % 60:02d} min"
    return f"{minutes} min {whole % 60:02d} s" if minutes else f"{whole} s"
