"""Progress in a notebook: one line below the cell, updated in place."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any

from cloudgan.core.durations import format_duration
from cloudgan.core.progress import Progress, Silent

_SECONDS_BETWEEN = 0.2
_SHORTEST_SECONDS = 2.0
"""A task has no time left before this time, which a first block of work would falsify."""


def usual_progress() -> Progress:
    """Returns the progress of a function without the argument: a line in a notebook, else nothing.

    Source: IPython's shell of a kernel has the attribute `kernel`
    (https://ipykernel.readthedocs.io/en/stable/api/ipykernel.html, 2026-11-25).
    """
    loaded = sys.modules.get("IPython")  # a kernel has imported it
    shell = loaded.get_ipython() if loaded else None
    return NotebookProgress() if hasattr(shell, "kernel") else Silent()


class Line:
    """What the line shows."""

    def __init__(self, text: str, share: float | None) -> None:
        """Takes the text, and the share that is done; None: unknown."""
        self._text, self._share = text, share

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        bar = "" if self._share is None else f'<progress value="{self._share:.3f}"></progress> '
        return f"<span>{bar}{escape(self._text)}</span>"


class NotebookProgress(Progress):
    """Shows the current task, its share, rate and time left."""

    def __init__(self) -> None:
        """Shows nothing before the first task."""
        self._handle: Any = None
        self._task, self._unit, self._note = "", "", ""
        self._total: float | None = None
        self._done, self._before, self._began, self._shown = 0.0, 0.0, 0.0, 0.0

    def start(
        self,
        task: str,
        total: float | None = None,
        unit: str = "",
        *,
        done: float = 0,
        count: str = "",
    ) -> None:
        """Starts a task, whose line replaces that of the previous one."""
        self._task = f"{task} {count}".rstrip()
        self._total, self._unit, self._note = total, unit, ""
        self._done, self._before, self._began = done, done, time.monotonic()
        self._show()

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Advances the task; the line is updated a few times per second, and at the end."""
        self._done += amount
        self._note = note or self._note
        ends = self._total is not None and self._done >= self._total
        if ends or time.monotonic() - self._shown > _SECONDS_BETWEEN:
            self._show()

    def say(self, line: str) -> None:
        """Displays a line that stays."""
        from IPython.display import display

        display(Line(line, None))

    def _show(self) -> None:
        from IPython.display import display

        self._shown = time.monotonic()
        share = min(self._done / self._total, 1.0) if self._total else None
        line = Line(self._text(share), share)
        if self._handle is None:
            self._handle = display(line, display_id=True)
        else:
            self._handle.update(line)

    def _text(self, share: float | None) -> str:
        parts = [self._task]
        seconds = self._shown - self._began
        if self._done:
            total = "" if self._total is None else f"/{self._total:,.0f}"
            parts.append(f"{self._done:,.0f}{total} {self._unit}".rstrip())
        if share == 1.0:
            parts.append(format_duration(seconds))
        elif self._total and self._done > self._before and seconds > _SHORTEST_SECONDS:
            left = seconds * (self._total - self._done) / (self._done - self._before)
            parts.append(f"{format_duration(left)} left")
        return ", ".join([*parts, *filter(None, [self._note])])
