"""Counts how often a run lost its spot nodes, and says when on demand costs less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.core.errors import CapacityError

if TYPE_CHECKING:
    from cloudgan.core.run_state import RunState

LEAST_LOSSES = 3
"""Fewer are bad luck."""
_HOUR_SECONDS = 3600


@dataclass
class SpotLosses:
    """Sees every state of a run.

    Attributes:
        most_per_node_hour: Losses of one node per hour at which on demand costs the same.
        nodes: Of the run.
    """

    most_per_node_hour: float
    nodes: int

    def __post_init__(self) -> None:
        self._first_seconds: float | None = None

    def see(self, state: RunState, now_seconds: float) -> None:
        """Takes the newest state and when it was seen.

        One lost node restarts the whole group, so the losses are those of the worker that was
        replaced most often.

        Raises:
            CapacityError: On demand costs less by now.
        """
        if state.is_over or not state.workers:
            return
        if self._first_seconds is None:
            self._first_seconds = now_seconds
        losses = max(worker.replaced for worker in state.workers)
        hours = max(now_seconds - self._first_seconds, 1.0) / _HOUR_SECONDS
        rate = losses / (self.nodes * hours)
        if losses >= LEAST_LOSSES and rate > self.most_per_node_hour:
            raise CapacityError(
                f"spot nodes were lost {losses} times in {hours:.2g} h: on demand costs less when a"
                f" node is lost more often than once in {1 / self.most_per_node_hour:.2g} h"
                if self.most_per_node_hour > 0
                else f"spot nodes were lost {losses} times in {hours:.2g} h, and on demand costs less"
            )
