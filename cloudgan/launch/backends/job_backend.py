"""Interface of the backends that run a plan, and the parts that several of them share."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.tail import tail_lines
from cloudgan.launch.backends.remote_command import CommandStreams
from cloudgan.schema.launch import Cluster, Node
from cloudgan.schema.plan import Plan, Step
from cloudgan.schema.run_state import LogLine, RunState


class JobBackend(Protocol):
    """Runs of one cluster, machine or cloud. Its state is what the provider reports, not a cache."""

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Raises if the plan cannot run here; returns a warning for each check that was not possible."""

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        """Returns the steps of the plan for this backend."""

    def on_kept_nodes(self, plan: Plan) -> Plan:
        """Returns the plan on nodes that an earlier run kept; the same plan if none wait."""

    def desired_state(self, run: str) -> Plan | None:
        """Returns the stored plan of a run, started from any machine; None if there is no such run."""

    def ensure(self, step: Step, plan: Plan) -> bool:
        """Applies a step unless its object exists; returns whether a request was sent."""

    def annotate(self, run: str, state: str) -> None:
        """Stores the desired phase, such as ``stopped``, with the run's plan."""

    def state(self, run: str) -> RunState:
        """Returns the state of a run and its workers."""

    def wait_for_change(self, run: str, seconds: float) -> None:
        """Waits until the state differs from the last `state`, at most `seconds`."""

    def log_sources(self, run: str) -> dict[str, Callable[[bool], Iterator[LogLine]]]:
        """Returns by worker name a function that yields log lines; the argument means follow."""

    def execute(
        self, run: str, worker: int, command: Sequence[str], streams: CommandStreams
    ) -> int:
        """Runs a command beside a running worker; returns its exit code."""

    def stop(self, run: str) -> None:
        """Terminates the job after a last checkpoint and waits for its end; keeps the plan."""

    def deprovision(self, run: str, state: str) -> Iterator[str]:
        """Deletes what bills by the hour after a run; yields each name when it is deleted."""

    def nodes(self, run: str) -> tuple[Node, ...]:
        """Returns the nodes provisioned for a run; none on preexisting nodes."""

    def cluster(self, run: str) -> Cluster | None:
        """Returns the cluster that is billed to a run; None for a preexisting one."""

    def deleted(self, run: str) -> Mapping[str, datetime]:
        """Returns when this object saw each billed resource of a run go, by its name."""

    def destroy(self, run: str) -> Iterator[str]:
        """Deletes all resources of a run; yields each name when it is deleted. Idempotent."""

    def list_runs(self) -> tuple[str, ...]:
        """Returns the names of all runs."""


class PreexistingNodes:
    """The methods of a `JobBackend` that provisions and deletes no nodes itself."""

    def on_kept_nodes(self, plan: Plan) -> Plan:
        """Returns the plan: no nodes wait."""
        return plan

    def deprovision(self, run: str, state: str) -> Iterator[str]:
        """Yields nothing: the run owns no nodes."""
        del run, state
        yield from ()

    def nodes(self, run: str) -> tuple[Node, ...]:
        """Returns no nodes: none were provisioned."""
        del run
        return ()

    def deleted(self, run: str) -> Mapping[str, datetime]:
        """Returns nothing: no resource is billed to the run."""
        del run
        return {}

    def cluster(self, run: str) -> None:
        """Returns None: the run does not pay for the cluster."""
        del run


class PolledBackend(PreexistingNodes, ABC):
    """The methods of a `JobBackend` that is asked for a state again and again, and stores no phase."""

    _poll_seconds: float

    @abstractmethod
    def state(self, run: str) -> RunState:
        """Returns the state of a run and its workers."""

    def annotate(self, run: str, state: str) -> None:
        """Does nothing: files of the run, or its desired state, have the phase."""

    def wait_for_change(self, run: str, seconds: float) -> None:
        """Returns when the state changes, after `seconds` at the latest."""
        before, end = self.state(run), monotonic_seconds() + seconds
        while monotonic_seconds() < end:
            time.sleep(min(self._poll_seconds, max(0.0, end - monotonic_seconds())))
            if self.state(run) != before:
                return

    def _log_of(self, run: str, rank: int, path: Path) -> Callable[[bool], Iterator[LogLine]]:
        def lines(follow: bool) -> Iterator[LogLine]:
            is_over = (lambda: self.state(run).is_over) if follow else None
            for line in tail_lines(path, is_over):
                yield LogLine.stamped(rank, line)

        return lines
