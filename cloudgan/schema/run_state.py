"""State of a launched run, in the same terms on every backend."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from cloudgan.schema.launch import Node

Phase = Literal[
    "absent", "waiting", "starting", "running", "stopping", "finished", "failed", "stopped"
]
"""absent: no run exists; waiting: for nodes or a queue; starting: not all workers are ready; stopping: its workers
save a checkpoint and end; stopped: on request, resumable."""

_STAMPED = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) (.*)", re.ASCII | re.DOTALL)
PREEMPTS = "preempts this node"
"""In the log of a worker whose cloud announced the preemption of its node."""

STOPPING = "it is being stopped: its workers save a checkpoint and end"

ENDED: frozenset[Phase] = frozenset({"absent", "finished", "failed", "stopped"})

WorkerPhase = Literal["waiting", "starting", "running", "done", "failed", "stopping", "stopped"]

Cause = Literal[
    "",
    "image",
    "registry",
    "runtime",
    "memory",
    "eviction",
    "deadline",
    "no progress",
    "program",
    "placement",
    "configuration",
    "capacity",
]
"""image: does not exist or may not be pulled; registry: its pull fails otherwise; runtime: the node's container
runtime cannot create a container; eviction: nodes of one size lack the same resource again and again."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """State of a worker.

    Attributes:
        preemptions: Number of its pods or nodes that were taken away.
        cause: Category of `reason`.
        seconds: Time in this state; None: unknown.
    """

    index: int
    phase: WorkerPhase
    node: str = ""
    restarts: int = 0
    reason: str = ""
    cause: Cause = ""
    seconds: float | None = None
    preemptions: int = 0


@dataclass(frozen=True, slots=True)
class RunState:
    """State of a run as its backend reports it.

    Attributes:
        workers: By index.
        reason: Sentence about a problem or a delay.
        cause: Category of `reason`.
        started_at: Start of the job by the provider's clock, ISO 8601; None: not started, or unknown.
        ended_at: End of the job by the provider's clock.
        nodes: Existing provisioned nodes; None: unknown, or the backend provisions none.
        image: Image of the workers with the digest that a node pulled; None: unknown.
    """

    phase: Phase
    workers: tuple[WorkerState, ...] = ()
    reason: str = ""
    cause: Cause = ""
    started_at: str | None = None
    ended_at: str | None = None
    nodes: tuple[Node, ...] | None = None
    image: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.phase in ENDED

    def count(self, *phases: WorkerPhase) -> int:
        """Returns the number of workers in these phases."""
        return sum(worker.phase in phases for worker in self.workers)


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a worker's log.

    Attributes:
        time: ISO 8601; empty: unknown.
    """

    index: int
    time: str
    text: str

    @classmethod
    def stamped(cls, index: int, line: str) -> LogLine:
        """Returns a line of a file, in which a worker writes its time first; another program does not."""
        found = _STAMPED.fullmatch(line)
        return cls(index, found[1], found[2]) if found else cls(index, "", line)
