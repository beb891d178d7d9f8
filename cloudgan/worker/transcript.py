"""What a worker and its training process say: shown at once, and kept to be shipped."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Transcript:
    """One log, in the order in which the lines came; several threads may write."""

    def __init__(self, path: Path, show: Callable[[str], None]) -> None:
        """Keeps lines in `path` and gives each to `show`."""
        self.path = path
        self._show = show
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)

    def line(self, text: str) -> None:
        """Takes a line. Neither a full disk nor a reader who left ends a training."""
        with self._lock:
            with contextlib.suppress(OSError), self.path.open("a", encoding="utf-8") as file:
                file.write(text + "\n")
            with contextlib.suppress(OSError, ValueError):
                self._show(text)

    def say(self, text: str) -> None:
        """Takes a sentence of the worker itself."""
        self.line(f"cloudgan worker: {text}")


class SaidProgress:
    """A `core.progress.Progress` of sentences: what begins, and what stays."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript

    def start(self, task: str, total: float | None = None, unit: str = "") -> None:
        """Says what begins."""
        self._transcript.say(task if total is None else f"{task}, {total:,.0f} {unit}".rstrip())

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Says nothing: a log needs no bar."""

    def say(self, line: str) -> None:
        """Says a line."""
        self._transcript.say(line)
