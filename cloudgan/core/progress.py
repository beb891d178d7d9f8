"""Progress of long work, independent of how it is displayed."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Displays one task at a time; the command line shows a bar, a test collects a list."""

    def start(self, task: str, total: float | None = None, unit: str = "") -> None:
        """Starts `task` and ends the previous one; `total` is None if unknown."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Advances the current task; `note` is a short text beside the bar."""

    def say(self, line: str) -> None:
        """Displays a permanent line."""


class Silent:
    """Displays nothing."""

    def start(self, task: str, total: float | None = None, unit: str = "") -> None:
        """Does nothing."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Does nothing."""

    def say(self, line: str) -> None:
        """Does nothing."""
