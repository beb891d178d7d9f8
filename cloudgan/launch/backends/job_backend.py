"""Interface of the backends that run a plan, and the parts that several of them share."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from cloudgan.core.children import tail_lines
from cloudgan.core.clock import monotonic_seconds
from cloudgan.launch.backends.remote_command import CommandStreams
from cloudgan.schema.launch import Cluster, Node
from cloudgan.schema.plan import Plan, Step
from cloudgan.schema.run_state import LogLine, RunState


class JobBackend(ABC):
    """Runs of one cluster, machine or cloud. Its state is what the provider reports, not a cache.

    The methods that are not abstract are those of a backend that is asked for a state again and again, and
    that provisions and deletes no nodes itself.
    """

    _poll_seconds: float

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Raises if the plan cannot run here; returns a warning for each check that was not possible."""
        del plan
        return ()

    @abstractmethod
    def steps(self, plan: Plan) -> tuple[Step, ...]:
        """Returns the steps of the plan for this backend."""

    @abstractmethod
    def desired_state(self, run: str) -> Plan | None:
        """Returns the stored plan of a run, started from any machine; None if there is no such run."""

    @abstractmethod
    def ensure(self, step: Step, plan: Plan) -> bool:
        """Applies a step unless its object exists; returns whether a request was sent."""

    def annotate(self, run: str, state: str) -> None:
        """Stores the desired phase, such as ``stopped``, unless files of the run or its desired state have it."""
        del run, state

    @abstractmethod
    def state(self, run: str) -> RunState:
        """Returns the state of a run and its workers."""

    def wait_for_change(self, run: str, seconds: float) -> None:
        """Waits until the state changes, at most `seconds`."""
        before, end = self.state(run), monotonic_seconds() + seconds
        while monotonic_seconds() < end:
            time.sleep(min(self._poll_seconds, max(0.0, end - monotonic_seconds())))
            if self.state(run) != before:
                return

    @abstractmethod
    def log_sources(self, run: str) -> dict[str, Callable[[bool], Iterator[LogLine]]]:
        """Returns by worker name a function that yields log lines; the argument means follow."""

    @abstractmethod
    def execute(
        self, run: str, worker: int, command: Sequence[str], streams: CommandStreams
    ) -> int:
        """Runs a command beside a running worker; returns its exit code."""

    @abstractmethod
    def stop(self, run: str) -> None:
        """Terminates the job after a last checkpoint and waits for its end; keeps the plan."""

    @abstractmethod
    def destroy(self, run: str) -> Iterator[str]:
        """Deletes all resources of a run; yields each name when it is deleted. Idempotent."""

    @abstractmethod
    def list_runs(self) -> tuple[str, ...]:
        """Returns the names of all runs."""

    def clear(self, run: str) -> None:
        """Deletes the job of a run that has ended; one that another launcher started since stays."""
        if self.state(run).is_over:
            self.stop(run)

    def on_kept_nodes(self, plan: Plan) -> Plan:
        """Returns the plan on nodes that an earlier run kept; the same plan if none wait."""
        return plan

    def deprovision(self, run: str, state: str) -> Iterator[str]:
        """Deletes what bills by the hour after a run; yields each name when it is deleted."""
        del run, state
        yield from ()

    def nodes(self, run: str) -> tuple[Node, ...]:
        """Returns the nodes provisioned for a run, whose plan has a node pool."""
        del run
        return ()

    def cluster(self, run: str) -> Cluster | None:
        """Returns the cluster that is billed to a run; None for a preexisting one."""
        del run
        return None

    def deleted(self, run: str) -> Mapping[str, datetime]:
        """Returns when this object saw each billed resource of a run go, by its name."""
        del run
        return {}

    def _log_of(self, run: str, rank: int, path: Path) -> Callable[[bool], Iterator[LogLine]]:
        def lines(follow: bool) -> Iterator[LogLine]:
            is_over = (lambda: self.state(run).is_over) if follow else None
            for line in tail_lines(path, is_over):
                yield LogLine.stamped(rank, line)

        return lines
