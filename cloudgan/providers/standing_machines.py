"""Machines that somebody has already: nothing is made for a run, so nothing is given back after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.launch import Node


class StandingMachines:
    """What launching asks of machines, where they stay."""

    def release(self, run: str, state: str) -> Iterator[str]:
        """Yields nothing: these machines are somebody's, and stay."""
        del run, state
        yield from ()

    def nodes(self, run: str) -> tuple[Node, ...]:
        """Returns none: no machine was made for the run."""
        del run
        return ()

    def cluster(self, run: str) -> None:
        """Returns none: what was there before is not paid for by the run."""
        del run
