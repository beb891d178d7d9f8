"""Where a worker is in its world: its role, its group, its master. Imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloudgan.parallel.communicator import Communicator
    from cloudgan.parallel.layout import Layout, Role

PREFIX = "exchange/"
"""Of the arrays of the update rule in a worker's checkpoint."""


@dataclass(frozen=True)
class Place:
    """Position of a rank that trains.

    Attributes:
        world: All ranks.
        group: Ranks of this worker.
        layout: Of all ranks.
        role: Of this rank.
    """

    world: Communicator
    group: Communicator
    layout: Layout
    role: Role

    @property
    def is_leader(self) -> bool:
        """Whether this rank speaks with the master."""
        return self.role.kind == "leader"

    @property
    def number(self) -> int:
        """Number of the worker."""
        return self.role.worker or 0

    @property
    def leader(self) -> int:
        """Rank of the leader of this worker."""
        return self.layout.group_of(self.number)[0]

    @property
    def master(self) -> int:
        """Rank of the master of this worker."""
        return self.layout.roles[self.leader].parent or 0

    @property
    def is_first_of_master(self) -> bool:
        """Whether this rank describes the run to its master when it joins."""
        return self.layout.children(self.master)[0] == self.role.rank
