"""Job backend on nodes that are provisioned for a run and deleted after it, on any cloud.

The cloud client creates cluster and nodes; an inner backend runs the job there. The desired state is
in the store before the first resource is created.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

from cloudgan.core.clock import monotonic_seconds, utc_moment
from cloudgan.core.errors import CloudganError, CredentialsError, LaunchError, PlanError
from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.launch.backends.kubernetes.backend import KubernetesBackend
from cloudgan.launch.backends.remote_command import CommandStreams
from cloudgan.launch.clouds.client import CloudClient
from cloudgan.launch.clouds.engine import Engine, check_gone
from cloudgan.launch.clouds.planner import cloud_planner
from cloudgan.launch.clouds.resource import Resource, is_cluster
from cloudgan.launch.lifecycle.ownership import (
    kept_until,
    on_kept_nodes,
    own_resources,
    since_reuse,
    state_without_job,
    unused_cluster,
    usage_of,
)
from cloudgan.launch.lifecycle.run_registry import PHASES, DesiredState, RunRegistry
from cloudgan.schema.launch import Cluster, Node
from cloudgan.schema.plan import Plan, Step
from cloudgan.schema.run_state import LogLine, RunState
from cloudgan.storage.store import StoreError

_POLL_SECONDS: Final = 5.0
_NEW_CLUSTER_SECONDS: Final = 300.0
"""How long the API of a new cluster may be unreachable, or deny the login of its creator.

EKS reports ACTIVE before the name of the endpoint resolves and before it processes requests
(https://github.com/aws/containers-roadmap/issues/654; a load test waits 120 s after ACTIVE for
"no such host": https://github.com/awslabs/eks-perf-tests/pull/599, 2026-08-11). Access entries are
eventually consistent (https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html, read
2026-11-22).
"""


class ProvisionedBackend(JobBackend):
    """Provisioned runs of one cloud account and one store."""

    def __init__(
        self,
        cloud: CloudClient,
        run_registry: RunRegistry,
        *,
        all_steps: Callable[[Plan], tuple[Step, ...]],
        say: Callable[[str], None] = lambda _: None,
        poll_seconds: float | None = None,
    ) -> None:
        self._cloud, self._registry = cloud, run_registry
        self._all_steps, self._say = all_steps, say
        self._poll_seconds = _POLL_SECONDS if poll_seconds is None else poll_seconds
        self._engine = Engine(cloud, say, self._poll_seconds, became_ready=self._note_ready)
        self._opened: dict[str, JobBackend] = {}
        self._began: dict[str, Plan] = {}
        self._usages: dict[str, Cluster | None] = {}
        self._deleted: dict[str, dict[str, datetime]] = {}
        self._new_until = 0.0
        """Until when a cluster that became ready here may deny requests, by `monotonic_seconds`."""

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Checks login, APIs, permissions and quota; returns what could not be checked.

        Raises:
            PlanError: Only quota is missing; the message lists all of it.
        """
        found = self._cloud.check(plan)
        missing = [one for one in found if one.status == "missing"]
        if missing:
            text = "; ".join(f"{one.subject}: {one.message}" for one in missing)
            raise (PlanError if all(one.is_quota for one in missing) else CredentialsError)(text)
        return tuple(f"{one.subject}: {one.message}" for one in found if one.status == "unknown")

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        """Returns the steps of a resolved plan."""
        return self._all_steps(plan)

    def on_kept_nodes(self, plan: Plan) -> Plan:
        """Returns the plan on nodes that an earlier run kept; the same plan if none wait."""
        if plan.node_pool is None or plan.node_pool.served_runs == 1:
            return plan
        histories = [self._registry.history(name) for name in self._registry.list_runs()]
        return on_kept_nodes(plan, self._cloud.list_resources(), histories, utc_moment())

    def desired_state(self, run: str) -> Plan | None:
        """Returns the plan of an open run; None if there is none."""
        found = self._registry.read(run)
        return found.plan if found and found.is_open else None

    def ensure(self, step: Step, plan: Plan) -> bool:
        """Ensures a step; returns whether a request was sent."""
        if step.at == "store":
            return self._ensure_desired_state(plan)
        if step.at == "cloud":
            self._refuse_removed(plan)
            return self._engine.ensure(step, plan)
        return self._of(plan).ensure(step, plan)

    def annotate(self, run: str, state: str) -> None:
        """Writes a new state to the run registry."""
        found = self._registry.read(run)
        if found and state in PHASES:
            self._registry.write(found.plan, state)

    def state(self, run: str) -> RunState:
        """Returns the state reported by the cluster, or the desired state without a cluster."""
        found = self._registry.read(run)
        if found is None:
            return RunState("absent")
        if found.state in ("finished", "removed"):
            left = () if found.state == "removed" else self._seen_nodes(run)
            return state_without_job(found, left)
        inner = self._reached(found.plan)
        state = inner.state(run) if inner else RunState("absent")
        there = self._seen_nodes(run)
        if state.phase == "absent":
            return state_without_job(found, there)
        return replace(state, nodes=there)

    def wait_for_change(self, run: str, seconds: float) -> None:
        """Waits for a change of the run's state, at most `seconds`."""
        began = monotonic_seconds()
        if inner := self._cluster_of(self._registry.read(run)):
            inner.wait_for_change(run, seconds)
        if monotonic_seconds() - began < min(seconds, 0.2):
            time.sleep(min(seconds, self._poll_seconds))

    def log_sources(self, run: str) -> dict[str, Callable[[bool], Iterator[LogLine]]]:
        """Returns the log source of each worker whose pod exists."""
        found = self._registry.read(run)
        inner = None if found and found.state == "finished" else self._cluster_of(found)
        return inner.log_sources(run) if inner else {}

    def execute(
        self, run: str, worker: int, command: Sequence[str], streams: CommandStreams
    ) -> int:
        """Runs a command beside a worker; returns its exit code."""
        inner = self._cluster_of(self._registry.read(run))
        if inner is None:
            raise LaunchError(f"run {run} has no cluster; see `cloudgan status {run}`")
        return inner.execute(run, worker, command, streams)

    def stop(self, run: str) -> None:
        """Stops the job, which saves a checkpoint, and deletes the nodes; the run stays registered."""
        for _ in self._release(run, "stopped", close=False):
            pass

    def clear(self, run: str) -> None:
        """Deletes the job that has ended and its nodes; what another launcher started since stays.

        Raises:
            ConfigError: Another launcher starts the run just now.
        """
        if found := self._registry.read(run):
            self._registry.write(found.plan, found.state, leased=True)
        super().clear(run)

    def deprovision(self, run: str, state: str) -> Iterator[str]:
        """Deletes billed resources of a finished run; yields each name when it is deleted."""
        yield from self._release(run, state, close=False)

    def destroy(self, run: str) -> Iterator[str]:
        """Deletes all resources of the run except its folder in the store. Idempotent."""
        yield from self._release(run, "removing", close=True)

    def nodes(self, run: str) -> tuple[Node, ...]:
        """Returns the run's nodes with their start times by the cluster's clock."""
        found = self._registry.read(run)
        if found is None or found.plan.node_pool is None or kept_until(found):
            return ()  # kept nodes are recorded as such, and may be another run's by now
        inner = self._reached(found.plan)
        return since_reuse(inner.nodes(found.plan.node_run), found.plan) if inner else ()

    def cluster(self, run: str) -> Cluster | None:
        """Returns the cluster of a run and the run's share of its usage."""
        return self._usages[run] if run in self._usages else self._usage(self._registry.read(run))

    def deleted(self, run: str) -> Mapping[str, datetime]:
        """Returns when node pools and clusters of a run were seen to go, by their names."""
        return self._deleted.get(run, {})

    def list_runs(self) -> tuple[str, ...]:
        """Returns the names of open runs and of runs with orphaned resources."""
        states = (self._registry.read(run) for run in self._registry.list_runs())
        meant = {one.plan.run for one in states if one and one.is_open}
        left = {resource.run for resource in self._cloud.list_resources() if resource.run}
        return tuple(sorted(meant | left))

    def _release(self, run: str, state: str, *, close: bool) -> Iterator[str]:
        self._usages.pop(run, None)
        try:
            found = self._registry.read(run)
            is_over = found is None or found.state == state
            if found and found.is_open and found.state != state:
                found = self._registry.write(found.plan, state, force=True)  # type: ignore[arg-type]
            if found and not close and self._keep(found, is_kept=is_over):
                return
        except StoreError as error:
            if run not in self._began:
                raise
            self._say(f"{error}. The nodes are deleted anyway")
            found = DesiredState(
                number=1,
                state="starting",
                plan=self._began[run],
                lease_owner=self._registry.lease_owner,
                created_at=utc_moment(),
            )
        unreachable = None
        try:
            inner = self._cluster_of(found)
            if inner and close:
                yield from inner.destroy(run)
            elif inner and state == "stopped":
                inner.stop(run)
        except CloudganError as error:
            unreachable = error
            self._say(f"{error}. The nodes are deleted anyway")
        resources = own_resources(self._engine, self._registry, run, found)
        left: list[str] = []
        gone = partial(self._note_gone, run)
        nodes = (one for one in resources if not one.ends_run)
        yield from self._engine.destroy(nodes, left, gone)
        with suppress(Exception):  # now: no billed node waits for the histories of other runs
            self._usages[run] = self._usage(found)
        parents = {resource.parent for resource in resources} - {""}
        unused = unused_cluster(self._engine, self._registry, found, parents)
        stays: list[str] = []
        yield from self._engine.destroy(unused, stays, gone)
        if left:  # a cluster takes with it what this login may not delete
            again = own_resources(self._engine, self._registry, run, found)
            left = left if again.silent or not all(one.ends_run for one in again) else []
        check_gone(run, [*left, *stays], (*resources.silent, *unused.silent))
        yield from self._engine.destroy(one for one in resources if one.ends_run)
        self._opened.pop(run, None)
        if unreachable and close and not unused:
            raise unreachable  # the cluster stays, with the run's objects in it
        if close and found and found.is_open:
            self._registry.write(found.plan, "removed", force=True, after=found)

    def _note_gone(self, run: str, resource: Resource) -> None:
        self._deleted.setdefault(run, {})[resource.name.rpartition("/")[2]] = utc_moment()

    def _usage(self, found: DesiredState | None) -> Cluster | None:
        return usage_of(self._engine, self._registry, found) if found else None

    def _keep(self, found: DesiredState, *, is_kept: bool) -> bool:
        """Lets the nodes of a finished run wait for the next one; returns whether they do."""
        until, plan = kept_until(found), found.plan
        if until is None or until <= utc_moment():
            return False
        if is_kept:
            return True
        try:
            for step in cloud_planner(plan.target.provider).keep_steps(plan):
                if step.at == "cloud":
                    self._cloud.create(step)
                else:
                    self._of(plan).ensure(step, plan)
        except CloudganError as error:
            self._say(f"the nodes cannot wait for the next run: {error}. They are deleted")
            return False
        self._say(
            f"the nodes wait for the next run with --keep-nodes until {until:%H:%M} UTC, and end then;"
            f" `cloudgan down {plan.run}` deletes them, and the cluster, which bills until then"
        )
        return True

    def _seen_nodes(self, run: str) -> tuple[Node, ...] | None:
        """The current nodes; None if the cluster does not answer."""
        try:
            return self.nodes(run)
        except CloudganError:
            return None

    def _note_ready(self, resource: Resource) -> None:
        if is_cluster(resource.kind):
            self._new_until = monotonic_seconds() + _NEW_CLUSTER_SECONDS
            self._opened.clear()

    def _refuse_removed(self, plan: Plan) -> None:
        """Raises if another launcher changed the run since its start."""
        found = self._registry.read(plan.run)
        if found and plan.run in self._began and found.state != "starting":
            raise LaunchError(
                f"run {plan.run} was {found.state} by {found.lease_owner} while it was started here; run"
                f" `cloudgan status {plan.run}`, then `cloudgan down {plan.run}`"
            )

    def _ensure_desired_state(self, plan: Plan) -> bool:
        self._began[plan.run] = plan
        found = self._registry.read(plan.run)
        if (
            found
            and found.is_open
            and found.plan.spec_hash == plan.spec_hash
            and found.plan.target.zone == plan.target.zone
            and found.plan.node_run == plan.node_run
            and found.state == "starting"
        ):
            return False
        self._registry.write(plan, "starting", leased=True)
        return True

    def _of(self, plan: Plan) -> JobBackend:
        found = self._reached(plan)
        if found is None:
            raise LaunchError(
                f"cluster {plan.target.cluster} of run {plan.run} does not exist; rerun the command to"
                f" create it, or `cloudgan down {plan.run}` to delete the rest"
            )
        return found

    def _cluster_of(self, found: DesiredState | None) -> JobBackend | None:
        return self._reached(found.plan) if found else None

    def _reached(self, plan: Plan) -> JobBackend | None:
        """The backend of the run's cluster; None if the cluster does not exist."""
        if plan.run not in self._opened:
            found = self._cloud.job_backend(plan)
            if found is None and (api := self._cloud.cluster_api(plan.target)):
                api.new_until = self._new_until
                pause = self._poll_seconds
                found = KubernetesBackend(api, plan.target.namespace, poll_seconds=pause)
            if found is None:
                return None
            self._opened[plan.run] = found
        return self._opened[plan.run]
