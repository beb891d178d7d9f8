"""Nodes that wait for the next run (`deploy --keep-nodes`): until when, and which run may use them.

The nodes keep the labels of the run that created them. The newest run that used them decides how long
they wait, and pays for it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import CloudganError
from cloudgan.core.labels import RUN
from cloudgan.launch.clouds.planner import pool_of
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.run_registry import PHASES, DesiredState
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.launch import Node
from cloudgan.schema.plan import Plan, ReusedNodes
from cloudgan.schema.resource import Resource
from cloudgan.schema.run_document import read_plan
from cloudgan.schema.run_folder import RUNS, RunFolder
from cloudgan.schema.run_state import RunState

_SPARE: Final = dt.timedelta(minutes=2)
"""Nodes that end sooner are not used: the job would come too late."""


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


def may_be_shared(plans: Sequence[Plan]) -> bool:
    """Whether another run may use the nodes of a run, by its plans since its first start; none: unknown."""
    pools = [plan.node_pool for plan in plans]
    return not plans or any(pool and (pool.keep_seconds or pool.reused) for pool in pools)


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
