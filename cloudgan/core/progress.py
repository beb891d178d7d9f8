"""How long work tells how far it is, without knowing who looks."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Something that shows one task at a time; the command line has a bar, tests a list."""

    def start(self, task: str, total: float | None = None, unit: str = "") -> None:
        """Begins `task`, which ends the one before; `total` is None when nobody knows it."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Moves the present task forward; `note` is a short text beside the bar."""

    def say(self, line: str) -> None:
        """Shows one line that stays."""


class Silent:
    """Shows nothing."""

    def start(self, task: str, total: float | None = None, unit: str = "") -> None:
        """Does nothing."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Does nothing."""

    def say(self, line: str) -> None:
        """Does nothing."""
