"""Rounds in which each variant has its turn, so that each meets the same noise of the machine."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from cloudgan.core.errors import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cloudgan.core.progress import Progress

Measured = TypeVar("Measured")


class Turns(Generic[Measured]):
    """What was measured so far, by variant, in the order of the rounds.

    Attributes:
        interrupted: Whether Ctrl-C ended the rounds early.
    """

    def __init__(self, measures: Mapping[str, Callable[[], Measured]]) -> None:
        """Prepares to call each of `measures` in each round."""
        self._measures = dict(measures)
        self._taken: dict[str, list[Measured]] = {name: [] for name in self._measures}
        self.interrupted = False

    def take(self, rounds: int, progress: Progress) -> None:
        """Takes `rounds` rounds: A B, A B, ...

        Ctrl-C or SIGTERM ends them, and what was measured stays.

        Raises:
            Interrupted: Nothing was measured until then.
        """
        progress.start("measuring in turns", rounds * len(self._measures), "turns")
        try:
            with _sigterm_interrupts():
                for number in range(rounds):
                    for name, measure in self._measures.items():
                        self._taken[name].append(measure())
                        progress.advance(1, f"round {number + 1}/{rounds}, {name}")
        except KeyboardInterrupt:
            self.interrupted = True
            if not any(self._taken.values()):
                raise Interrupted("stopped before anything was measured") from None

    @property
    def taken(self) -> dict[str, list[Measured]]:
        """By variant; at the same place of two lists is the same round.

        Left out are variants that had no turn before the rounds ended early.
        """
        return {name: found for name, found in self._taken.items() if found}


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
