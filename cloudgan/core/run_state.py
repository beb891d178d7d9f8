"""How a launched run is doing, in the same words wherever it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from cloudgan.core.launch import Node

Phase = Literal["absent", "waiting", "starting", "running", "finished", "failed", "stopped"]
"""absent: nothing runs and nothing is meant to; waiting: for nodes or a queue; starting: not all
workers are up; stopped: on request, and can go on."""

ENDED: frozenset[Phase] = frozenset({"absent", "finished", "failed", "stopped"})

WorkerPhase = Literal["waiting", "starting", "running", "done", "failed", "stopping", "stopped"]

Cause = Literal[
    "", "image", "memory", "deadline", "no progress", "program", "placement", "configuration"
]


@dataclass(frozen=True, slots=True)
class WorkerState:
    """One worker.

    Attributes:
        index: Its rank.
        phase: How far it is.
        node: Where it runs, or ran.
        replaced: How often another took its place.
        why: What it waits for, or died of.
        cause: The kind of `why`.
        seconds: For how long it is like this; None is unknown.
    """

    index: int
    phase: WorkerPhase
    node: str = ""
    replaced: int = 0
    why: str = ""
    cause: Cause = ""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class RunState:
    """A run as its provider sees it.

    Attributes:
        phase: How far it is.
        workers: By rank.
        why: One sentence where something is wrong, or to be waited for.
        cause: The kind of `why`.
        began: When the provider says its job began, ISO 8601; None: not yet, or unknown.
        ended: When it says that it ended.
        nodes: Machines that were made for it and are there now; None: nobody could say, or none
            is ever made there.
    """

    phase: Phase
    workers: tuple[WorkerState, ...] = ()
    why: str = ""
    cause: Cause = ""
    began: str | None = None
    ended: str | None = None
    nodes: tuple[Node, ...] | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing of it computes any more."""
        return self.phase in ENDED

    def count(self, *phases: WorkerPhase) -> int:
        """How many workers are in one of these phases."""
        return sum(worker.phase in phases for worker in self.workers)


@dataclass(frozen=True, slots=True)
class LogLine:
    """What a worker printed.

    Attributes:
        index: Its rank.
        time: ISO 8601; empty where nobody noted it.
        text: Without its end of line.
    """

    index: int
    time: str
    text: str
