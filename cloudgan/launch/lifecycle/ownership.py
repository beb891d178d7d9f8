"""Whose resources: those of one run, nodes that wait for the next one, and the cluster of several runs.

Nodes that wait (`deploy --keep-nodes`) keep the labels of the run that created them. The newest run that used them
decides how long they wait, and pays for it. The runs that use a cluster share its cost.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from cloudgan.core.clock import parse_time_or_none, utc_moment
from cloudgan.core.errors import CloudganError, LaunchError
from cloudgan.core.labels import OWNER, RUN, SPEC
from cloudgan.launch.backends.run_document import read_plan
from cloudgan.launch.clouds.engine import Engine, no_answer
from cloudgan.launch.clouds.planner import pool_of
from cloudgan.launch.clouds.resource import Listing, Resource
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.run_registry import PHASES, DesiredState, RunRegistry
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.launch import Cluster, Node
from cloudgan.schema.plan import Plan, ReusedNodes
from cloudgan.schema.run_folder import RUNS, RunFolder
from cloudgan.schema.run_state import RunState

CLUSTER: Final = "cluster"
"""Value of the shared label of a cluster."""
_SPARE: Final = dt.timedelta(minutes=2)
"""Nodes that end sooner are not used: the job would come too late."""


def own_resources(
    engine: Engine, registry: RunRegistry, run: str, found: DesiredState | None
) -> Listing:
    """Returns what a run alone has: with its label, or nodes that it reuses; not what another run uses.

    Args:
        found: Its newest desired state; None: unknown, the labels decide.
    """
    try:  # since its first start: they may be in several regions
        known = [state.plan for state in registry.history(run)]
    except CloudganError:
        known = []
    listed = engine.list(run, {plan.target.region or "" for plan in known} or None)
    silent, own = list(listed.silent), []
    for resource in listed:
        if found and _is_of_namesake(resource, found.plan):
            owner = resource.labels[OWNER]
            engine.say(f"kept: {resource.kind} {resource.name} is of a run {run} of {owner}")
        else:
            own.append(resource)
    reused = found.plan.node_pool.reused if found and found.plan.node_pool else None
    if found and reused:
        others = engine.list(reused.run, (found.plan.target.region or "",))
        silent += others.silent
        own += [one for one in others if is_pool_of(one, found) or one.ends_run]
    # Only nodes that were kept have other users: else the states of other runs are not read, which takes time.
    users: list[DesiredState] = []
    pools = [plan.node_pool for plan in known]  # none: unknown
    may_be_shared = not pools or any(one and (one.keep_seconds or one.reused) for one in pools)
    if may_be_shared and any(one.node_type for one in own):
        try:
            runs = (name for name in registry.list_runs() if name != run)
            users = [one for one in _newest(registry, runs) if one.uses_nodes]
        except CloudganError:
            users = []  # without its store, the labels decide
    for resource in [one for one in own if one.node_type]:
        user = next((one for one in users if is_pool_of(resource, one)), None)
        if user is not None:
            engine.say(f"kept: {resource.kind} {resource.name} is used by run {user.plan.run}")
            own.remove(resource)
    return Listing(own, silent)


def unused_cluster(
    engine: Engine, registry: RunRegistry, found: DesiredState | None, parents: Collection[str]
) -> Listing:
    """Returns the cluster created by cloudgan, if a run used it and none does: not this one, started again, either.

    Args:
        parents: The clusters that had nodes of the run; empty: unknown.
    """
    plan = found.plan if found else None
    pool = plan.node_pool if plan else None
    if plan is None or pool is None or pool.keep_cluster or plan.cluster_place is None:
        return Listing()
    try:
        states = _newest(registry, registry.list_runs())
    except CloudganError as error:
        engine.say(f"the cluster stays, because another run may use it: {error}")
        return Listing()
    if any(one.uses_nodes and one.plan.cluster_place == plan.cluster_place for one in states):
        return Listing()
    resources = engine.list(None, (plan.target.region or "",))
    if resources.silent:
        return Listing(silent=resources.silent)  # another run may use it
    busy = {resource.parent for resource in resources if resource.run not in (None, plan.run)}
    return Listing(
        resource
        for resource in resources
        if is_cluster_of(resource, plan)
        and resource.name not in busy
        and (not parents or resource.name in parents)
    )


def usage_of(engine: Engine, registry: RunRegistry, found: DesiredState) -> Cluster | None:
    """Returns a run's cluster and what the run pays of it, by the histories of all runs in the store."""
    histories = [registry.history(name) for name in registry.list_runs()]
    there = engine.list(None, (found.plan.target.region or "",))
    if there.silent:
        raise LaunchError(no_answer(there.silent))
    return cluster_usage(found.plan, there, histories, utc_moment())


def _is_of_namesake(resource: Resource, plan: Plan) -> bool:
    """Whether a resource is of a run with this name of another user."""
    labels = plan.labels().as_dict()
    return OWNER in resource.labels and all(
        labels.get(name) != resource.labels.get(name, "") for name in (OWNER, SPEC)
    )


def _newest(registry: RunRegistry, runs: Iterable[str]) -> list[DesiredState]:
    return [found for name in runs if (found := registry.read(name))]


def cluster_usage(
    plan: Plan,
    resources: Iterable[Resource],
    histories: Iterable[Sequence[DesiredState]],
    now: dt.datetime,
) -> Cluster | None:
    """Returns the cluster of a run with its usage; None if the run uses no cluster.

    Args:
        resources: Of the account; a cluster outside this list was not created by cloudgan.
        histories: Desired states of each run in the store, oldest first.
    """
    if plan.node_pool is None or plan.cluster_place is None or plan.target.cluster is None:
        return None
    resources = tuple(resources)
    found = next((resource for resource in resources if is_cluster_of(resource, plan)), None)
    if found is None:
        return Cluster(name=plan.target.cluster)
    up = parse_time_or_none(found.created_at)
    histories = tuple(history for history in histories if history)
    spans = [span for history in histories for span in _spans(history, plan, histories, now)]
    is_taken = any(span.run != plan.run and span.ends >= now for span in spans)
    waits = plan.node_pool.keep_cluster and not is_taken  # for another run, at the cost of this one
    system = [
        one for one in resources if one.parent == found.name and one.run is None and one.nodes
    ]
    node = system[0] if len(system) == 1 else found if found.nodes else None
    return Cluster(
        name=plan.target.cluster,
        control_plane=found.fee,
        system_node=node.node_type if node else None,
        system_nodes=node.nodes if node else None,
        created_at=up,
        deleted_at=now if up is None or now >= up else up,
        run_seconds=_paid_seconds(plan.run, spans, up, now) if up and spans else None,
        idle_since=now if waits else None,
    )


class _Span(NamedTuple):
    """A time in which a run uses a cluster."""

    run: str
    begins: dt.datetime
    ends: dt.datetime


def _spans(
    history: Sequence[DesiredState],
    plan: Plan,
    histories: Sequence[Sequence[DesiredState]],
    now: dt.datetime,
) -> Iterator[_Span]:
    """Yields when a run used the cluster of `plan`, with the time in which its nodes waited for another."""
    for number, found in enumerate(history):
        if found.plan.cluster_place != plan.cluster_place:
            continue
        ends = history[number + 1].created_at if number + 1 < len(history) else now
        if found.uses_nodes:
            yield _Span(found.plan.run, found.created_at, min(ends, now))
        elif number + 1 == len(history) and (until := kept_until(found)):
            pools = (one[-1].plan.node_pool for one in histories)
            reused = (pool.reused for pool in pools if pool and pool.reused)
            taken = [one.since for one in reused if one.previous == found.plan.run]
            yield _Span(found.plan.run, found.created_at, min(until, now, *taken))


def _paid_seconds(run: str, spans: Sequence[_Span], since: dt.datetime, now: dt.datetime) -> float:
    """Returns what a run pays of the time from `since` to `now`; the runs together pay all of it.

    Runs that use the cluster at the same time share it equally. While none does, it waits at the cost of
    the run that used it last; before the first use, of the first run.
    """
    edges = {since, now, *(at for span in spans for at in (span.begins, span.ends))}
    moments = sorted(at for at in edges if since <= at <= now)
    total = 0.0
    for begins, ends in pairwise(moments):
        users = {span.run for span in spans if span.begins <= begins < span.ends}
        if not users:
            before = [span for span in spans if span.ends <= begins]
            last = max(before, key=lambda span: span.ends, default=None)
            users = {(last or min(spans, key=lambda span: span.begins)).run}
        if run in users:
            total += (ends - begins).total_seconds() / len(users)
    return total


def is_cluster_of(resource: Resource, plan: Plan) -> bool:
    """Whether a resource is the cluster of a plan and was created by cloudgan."""
    place = resource.region, resource.name.rpartition("/")[2]
    return resource.shared == CLUSTER and place == plan.cluster_place


def kept_until(found: DesiredState) -> dt.datetime | None:
    """Returns when the nodes of a run end by themselves; None: they do not wait for another run."""
    pool = found.plan.node_pool
    if pool is None or not pool.keep_seconds or found.state != "finished":
        return None
    return found.created_at + dt.timedelta(seconds=pool.keep_seconds)


def user_of(resource: Resource, states: Iterable[DesiredState]) -> DesiredState | None:
    """Returns the newest run whose nodes a node pool has; None: no run in this store."""
    own = [found for found in states if is_pool_of(resource, found)]
    return max(own, key=lambda found: found.created_at, default=None)


def is_pool_of(resource: Resource, found: DesiredState) -> bool:
    """Whether a resource is the node pool of a run, which may have another run's labels."""
    plan = found.plan
    pool = plan.node_pool
    return (
        pool is not None
        and resource.name.rpartition("/")[2] == pool.name
        and resource.labels.get(RUN) == plan.node_run
    )


def on_kept_nodes(
    plan: Plan,
    resources: Iterable[Resource],
    histories: Iterable[Sequence[DesiredState]],
    now: dt.datetime,
) -> Plan:
    """Returns the plan on nodes that wait for it; the same plan if there are none.

    Args:
        histories: Desired states of all runs in the store, oldest first.
    """
    pool = plan.node_pool
    known = {history[-1].plan.run: history for history in histories if history}
    states = [history[-1] for history in known.values()]
    mine = known.get(plan.run)
    for resource in resources:
        last = user_of(resource, states)
        if pool is None or last is None or resource.state != "ready":
            continue
        if mine and mine[-1].uses_nodes and last is mine[-1] and last.plan.node_pool:
            return _with(plan, last.plan.node_pool.name, last.plan.node_pool.reused)
        first = known.get(last.plan.node_run)
        if last.plan.run != plan.run and first and _fits(plan, last, first[0], resource, now):
            reused = ReusedNodes(run=last.plan.node_run, previous=last.plan.run, since=now)
            return _with(plan, resource.name.rpartition("/")[2], reused)
    return plan


def _with(plan: Plan, name: str, reused: ReusedNodes | None) -> Plan:
    pool = pool_of(plan).model_copy(update={"name": name, "reused": reused})
    return plan.model_copy(update={"node_pool": pool})


def _fits(
    plan: Plan, last: DesiredState, first: DesiredState, resource: Resource, now: dt.datetime
) -> bool:
    """Whether the nodes of `resource` wait, are those of the plan, and live long enough for it."""
    until, wanted, kept = kept_until(last), plan.node_pool, last.plan.node_pool
    if until is None or wanted is None or kept is None or until - now < _SPARE:
        return False
    own = ("name", "reused", "keep_seconds", "served_runs", "notes")
    is_same = kept.model_copy(update={name: getattr(wanted, name) for name in own}) == wanted
    one, two = plan.target, last.plan.target
    is_there = (one.account, one.zone) == (two.account, two.zone)
    is_there &= plan.cluster_place == last.plan.cluster_place
    served_runs = first.plan.node_pool.served_runs if first.plan.node_pool else 1
    served = served_runs * first.plan.limits.deadline_seconds
    needed = (now - first.created_at).total_seconds() + plan.limits.deadline_seconds
    return (
        is_same
        and is_there
        and plan.owner == last.plan.owner
        and plan.workers.nodes <= resource.nodes
        and plan.workers.accelerators_per_node == last.plan.workers.accelerators_per_node
        and needed <= served
    )


def since_reuse(nodes: Iterable[Node], plan: Plan) -> tuple[Node, ...]:
    """Returns the nodes of a run; reused ones start when the run began to use them."""
    reused = plan.node_pool.reused if plan.node_pool else None
    if reused is None:
        return tuple(nodes)
    return tuple(
        node.model_copy(update={"started_at": max(node.started_at, reused.since)})
        if node.started_at
        else node
        for node in nodes
    )


def state_without_job(found: DesiredState, nodes: tuple[Node, ...] | None) -> RunState:
    """Returns the state of a run without a job, from its desired state."""
    is_over = not (found.uses_nodes or found.state == "removing")
    ended = found.created_at.isoformat() if is_over else None
    until = kept_until(found)
    waits = until is not None and until > utc_moment()
    why = f"its nodes wait for the next run until {until:%H:%M} UTC" if waits else ""
    return RunState(PHASES[found.state], ended_at=ended, nodes=nodes, reason=why)


def end_waiting(plan: Plan, say: Callable[[str], None]) -> None:
    """Records that nodes and cluster of a plan no longer wait, in the folders of the runs that kept them.

    Without such a folder on this machine, the cost report there counts the whole waiting time. Errors are
    reported only: the run has started.
    """
    own, pool = RunFolder(RUNS / plan.run).launch_file, plan.node_pool
    if pool is None:
        return
    sent = launch.read(own).attempts[-1].requests if own.exists() else ()
    taken_at = min((one.sent_at for one in sent), default=utc_moment())
    for file in sorted(RUNS.glob(f"*/{own.name}")):
        folder = RunFolder(file.parent)
        run = folder.path.name
        try:
            last = launch.read(file).attempts[-1:]
            has_nodes = pool.reused is not None and pool.reused.previous == run
            waits = run != plan.run and any(one.cluster and one.cluster.idle_since for one in last)
            if not (has_nodes or waits):
                continue
            previous = read_plan(folder.path / plans.FILE_NAME, run)
            is_same = previous.target.provider == plan.target.provider
            has_cluster = waits and is_same and previous.cluster_place == plan.cluster_place
            log = LaunchLog.of(previous)
            if has_cluster:
                log.record_cluster_end(taken_at)
            if has_nodes and pool.reused:
                log.record_kept_end(pool.reused.since)
        except CloudganError as error:
            say(f"run {run}: the end of its waiting could not be recorded: {error}")
