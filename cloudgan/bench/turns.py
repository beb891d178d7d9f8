"""Rounds in which each variant has its turn, so that each meets the same noise of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloudgan.core.progress import Progress

Measured = TypeVar("Measured")


class Turns(Generic[Measured]):
    """What was measured so far, by variant, in the order of the rounds.

    Attributes:
        taken: By variant; of two lists the same place is the same round.
        interrupted: Whether Ctrl-C ended the rounds early.
    """

    def __init__(self, measures: Mapping[str, Callable[[], Measured]]) -> None:
        """Prepares to call each of `measures` in each round."""
        self._measures = dict(measures)
        self.taken: dict[str, list[Measured]] = {name: [] for name in self._measures}
        self.interrupted = False

    @property
    def rounds(self) -> int:
        """Rounds in which every variant had its turn."""
        return min(len(taken) for taken in self.taken.values())

    def take(self, rounds: int, progress: Progress) -> None:
        """Takes `rounds` rounds: A B, A B, ...; Ctrl-C ends them, and what was measured stays."""
        progress.start("measuring in turns", rounds * len(self._measures), "turns")
        try:
            for number in range(rounds):
                for name, measure in self._measures.items():
                    self.taken[name].append(measure())
                    progress.advance(1, f"round {number + 1}/{rounds}, {name}")
        except KeyboardInterrupt:
            self.interrupted = True
