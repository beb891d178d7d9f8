"""Runs on machines that are made for them and removed after them, on any cloud.

A cloud makes nodes and a cluster; what runs there is a Job like on every other cluster, so a
cluster's provider does that part. What is meant stands in the store from before the first machine.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from cloudgan.core.clock import monotonic_seconds, utc_moment
from cloudgan.core.errors import CloudganError, LaunchError
from cloudgan.core.run_state import RunState
from cloudgan.launching.cluster_use import (
    cluster_of,
    is_in_cluster,
    is_own_cluster,
    uses_cluster_of,
)
from cloudgan.launching.findings import error_of
from cloudgan.launching.making import Maker
from cloudgan.launching.nodes import nodes_of, wait_for_nodes
from cloudgan.launching.removing import Remover

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.core.launch import Cluster, Node
    from cloudgan.core.plan import Plan, Step
    from cloudgan.core.run_state import LogLine, Phase
    from cloudgan.kubernetes.api import ClusterApi
    from cloudgan.launching.cloud import Cloud, Thing
    from cloudgan.launching.intents import Intent, Intents
    from cloudgan.launching.provider import Provider

_POLL_SECONDS: Final = 5.0
_PHASES: Final[dict[str, Phase]] = {
    "stopped": "stopped",
    "finished": "finished",
    "failed": "failed",
    "removing": "absent",
    "removed": "absent",
    "starting": "absent",
    "started": "absent",
}


class RentedProvider:
    """One account of one cloud, and one store.

    Args:
        cloud: That makes and removes things.
        intents: Of the store.
        inner: Opens what runs a plan's job; None: its cluster is not there.
        all_steps: Turns a resolved plan into its steps.
        say: Is told what is waited for.
        poll_seconds: Between two looks at what is made or removed.
    """

    def __init__(
        self,
        cloud: Cloud,
        intents: Intents,
        *,
        inner: Callable[[Plan], Provider | None],
        all_steps: Callable[[Plan], tuple[Step, ...]],
        say: Callable[[str], None] = lambda _: None,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        self._cloud, self._intents, self._inner = cloud, intents, inner
        self._all_steps, self._say, self._poll_seconds = all_steps, say, poll_seconds
        self._maker = Maker(cloud, say, poll_seconds)
        self._remover = Remover(cloud, say, poll_seconds)
        self._opened: dict[str, Provider] = {}
        self._apis: dict[str, ClusterApi] = {}
        self._began: set[str] = set()

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Asks the cloud for login, APIs, rights and quota before anything is made.

        Returns:
            What could not be looked at.

        Raises:
            CloudganError: Something is missing; says all of it.
        """
        found = self._cloud.check(plan)
        missing = [one for one in found if one.verdict == "missing"]
        if missing:
            raise error_of(missing)
        return tuple(f"{one.subject}: {one.says}" for one in found if one.verdict == "unknown")

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        """Returns the steps of a resolved plan."""
        return self._all_steps(plan)

    def intent(self, run: str) -> Plan | None:
        """Returns the plan that a run was started with, from any machine."""
        found = self._intents.read(run)
        return found.plan if found and found.is_open else None

    def ensure(self, step: Step, plan: Plan) -> bool:
        """Does a step unless what it wants is there; whether something was done."""
        if step.at == "store":
            return self._ensure_intent(plan)
        if step.at == "cloud":
            self._refuse_removed(plan)
            return self._maker.ensure(step, plan)
        if step.method == "WAIT":
            api = self._cloud.cluster(plan)
            if api is not None:
                wait_for_nodes(api, plan, self._say, self._poll_seconds)
            return False
        return self._of(plan).ensure(step, plan)

    def mark(self, run: str, state: str) -> None:
        """Notes on the intent what is wanted of the run."""
        found = self._intents.read(run)
        if found and state in _PHASES:
            self._intents.write(found.plan, state)  # type: ignore[arg-type]

    def state(self, run: str) -> RunState:
        """Returns how a run is doing: as its cluster says, or as it was meant when that is gone."""
        found = self._intents.read(run)
        if found is None:
            return RunState("absent")
        if found.state in ("finished", "removed"):
            left = () if found.state == "removed" else self._seen_nodes(run)
            return _as_meant(found, left)
        inner = self._reached(found.plan)
        state = inner.state(run) if inner else RunState("absent")
        there = self._seen_nodes(run)
        if state.phase == "absent":
            return _as_meant(found, there)
        return replace(state, nodes=there)

    def wait_for_change(self, run: str, seconds: float) -> None:
        """Returns when something changed since `state`, at the latest in `seconds`."""
        began = monotonic_seconds()
        found = self._intents.read(run)
        inner = self._reached(found.plan) if found else None
        if inner:
            inner.wait_for_change(run, seconds)
        if monotonic_seconds() - began < min(seconds, 0.2):
            time.sleep(min(seconds, self._poll_seconds))

    def log_sources(self, run: str) -> dict[str, Callable[[bool], Iterator[LogLine]]]:
        """Returns what yields each worker's lines while its pod is there."""
        found = self._intents.read(run)
        inner = self._reached(found.plan) if found and found.state != "finished" else None
        return inner.log_sources(run) if inner else {}

    def stop(self, run: str) -> None:
        """Ends the job, which saves first, and gives the nodes back; the intent stays."""
        for _ in self._give_back(run, "stopped", close=False):
            pass

    def release(self, run: str, state: str) -> Iterator[str]:
        """Gives back what bills by the hour once a run is over; yields each name when it is gone.

        Args:
            run: Its name.
            state: In which it is: finished, failed or stopped.
        """
        yield from self._give_back(run, state, close=False)

    def remove(self, run: str) -> Iterator[str]:
        """Removes all that is the run's but its folder in the store. Twice is fine."""
        yield from self._give_back(run, "removing", close=True)

    def nodes(self, run: str) -> tuple[Node, ...]:
        """Returns the run's machines, each with when it was up by the cluster's clock."""
        found = self._intents.read(run)
        if found and not is_in_cluster(found.plan):
            inner = self._reached(found.plan)
            return inner.nodes(run) if inner else ()
        if found is None or found.plan.rental is None:
            return ()
        if run not in self._apis and (opened := self._cloud.cluster(found.plan)):
            self._apis[run] = opened
        return nodes_of(self._apis[run], run) if run in self._apis else ()

    def cluster(self, run: str) -> Cluster | None:
        """Returns the cluster that a run uses until now, and its share in it."""
        found = self._intents.read(run)
        if found is None:
            return None
        histories = [self._intents.history(name) for name in self._intents.runs()]
        return cluster_of(found.plan, self._cloud.things(), histories, utc_moment())

    def runs(self) -> tuple[str, ...]:
        """Returns the names of all runs there, those too of which only things are left."""
        meant = [
            run for run in self._intents.runs() if (i := self._intents.read(run)) and i.is_open
        ]
        left = [thing.run for thing in self._cloud.things() if thing.run]
        return tuple(sorted({*meant, *left}))

    def _give_back(self, run: str, state: str, *, close: bool) -> Iterator[str]:
        found = self._intents.read(run)
        if found and found.is_open and found.state != state:
            found = self._intents.write(found.plan, state, force=True)  # type: ignore[arg-type]
        silent = None
        try:
            yield from self._end_job(found, state, close=close)
        except CloudganError as error:
            silent = error
            self._say(f"{error}. The machines are given back all the same")
        yield from self._remover.remove(self._cloud.things(run))
        unused = self._unused(run, found)
        yield from self._remover.remove(unused)
        self._opened.pop(run, None)
        self._apis.pop(run, None)
        if silent and close and not unused:
            raise silent  # the cluster stays, and so does what the run has in it
        if close and found and found.is_open:
            self._intents.write(found.plan, "removed", force=True)

    def _end_job(self, found: Intent | None, state: str, *, close: bool) -> Iterator[str]:
        inner = self._reached(found.plan) if found else None
        if inner is None or found is None:
            return
        if close:
            yield from inner.remove(found.plan.run)
        elif state == "stopped":
            inner.stop(found.plan.run)

    def _seen_nodes(self, run: str) -> tuple[Node, ...] | None:
        """The machines that are there; None where nobody can say just now."""
        try:
            return self.nodes(run)
        except CloudganError:
            self._apis.pop(run, None)
            return None

    def _unused(self, run: str, found: Intent | None) -> tuple[Thing, ...]:
        """The cluster that cloudgan made for the run's place, when no run uses it any more."""
        plan = found.plan if found else None
        if plan is None or plan.rental is None or plan.rental.keep_cluster:
            return ()
        if not is_in_cluster(plan):
            return ()
        if any(uses_cluster_of(plan, self._intents.read(name)) for name in self._others(run)):
            return ()
        things = self._cloud.things()
        busy = {thing.parent for thing in things if thing.run not in (None, run)}
        return tuple(
            thing for thing in things if is_own_cluster(thing, plan) and thing.name not in busy
        )

    def _others(self, run: str) -> list[str]:
        return [name for name in self._intents.runs() if name != run]

    def _refuse_removed(self, plan: Plan) -> None:
        """Somebody may have typed `down` elsewhere since the intent was written."""
        found = self._intents.read(plan.run)
        if found and plan.run in self._began and found.state != "starting":
            raise LaunchError(
                f"run {plan.run} was {found.state} by {found.holder} while it was started here; look"
                f" what is left: cloudgan status {plan.run}, cloudgan down {plan.run}"
            )

    def _ensure_intent(self, plan: Plan) -> bool:
        self._began.add(plan.run)
        found = self._intents.read(plan.run)
        if found and found.is_open and found.plan.spec == plan.spec and found.state == "starting":
            return False
        self._intents.write(plan, "starting", leased=True)
        return True

    def _of(self, plan: Plan) -> Provider:
        found = self._reached(plan)
        if found is None:
            raise LaunchError(
                f"cluster {plan.place.cluster} is gone while run {plan.run} needs it; the same"
                f" command makes it again, `cloudgan down {plan.run}` removes the rest"
            )
        return found

    def _reached(self, plan: Plan) -> Provider | None:
        """The run's cluster as a provider; None where there is none, not yet or any more."""
        if plan.run not in self._opened:
            found = self._inner(plan)
            if found is None:
                return None
            self._opened[plan.run] = found
        return self._opened[plan.run]


def _as_meant(found: Intent, nodes: tuple[Node, ...] | None) -> RunState:
    """The state of a run without a job; when it began is no time at which it ended."""
    is_over = found.state in ("finished", "failed", "stopped", "removed")
    ended = found.at.isoformat() if is_over else None
    return RunState(_PHASES[found.state], ended=ended, nodes=nodes)
