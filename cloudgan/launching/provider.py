"""What every provider can do; launching knows no other thing about one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.core.launch import Cluster, Node
    from cloudgan.core.plan import Plan, Step
    from cloudgan.core.run_state import LogLine, RunState


class Provider(Protocol):
    """A place where runs live. What exists is what the provider says, never what we remember."""

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Raises where the plan cannot be done; returns what could not be looked at."""

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        """Returns the steps of the plan as this very place takes them."""

    def intent(self, run: str) -> Plan | None:
        """Returns the plan a run was started with, from any machine."""

    def ensure(self, step: Step, plan: Plan) -> bool:
        """Does a step unless what it wants is there; whether something was done."""

    def mark(self, run: str, state: str) -> None:
        """Notes on the intent what is wanted of the run."""

    def state(self, run: str) -> RunState:
        """Returns how a run is doing."""

    def wait_for_change(self, run: str, seconds: float) -> None:
        """Returns when something changed since `state`, at the latest in `seconds`."""

    def log_sources(self, run: str) -> dict[str, Callable[[bool], Iterator[LogLine]]]:
        """Returns, by a name of its own, what yields a worker's lines; True follows it."""

    def stop(self, run: str) -> None:
        """Ends the job, which saves first; the intent stays. Returns when nothing computes."""

    def release(self, run: str, state: str) -> Iterator[str]:
        """Gives back what bills by the hour once a run is over; yields each name when it is gone.

        On machines that somebody has already there is nothing to give back.
        """

    def nodes(self, run: str) -> tuple[Node, ...]:
        """Returns the machines that were made for a run; none where they were there already."""

    def cluster(self, run: str) -> Cluster | None:
        """Returns the cluster that a run uses until now; None where it is nobody's cost."""

    def remove(self, run: str) -> Iterator[str]:
        """Removes all that is the run's, yields each name when it is gone. Twice is fine."""

    def runs(self) -> tuple[str, ...]:
        """Returns the names of all runs there."""
