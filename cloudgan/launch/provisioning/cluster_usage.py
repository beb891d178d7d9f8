"""Cluster usage of a run: control plane and system nodes, split between the runs that used them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cloudgan.core.clock import parse_time_or_none
from cloudgan.launch.provisioning.kept_nodes import kept_until
from cloudgan.schema.launch import Cluster

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Sequence

    from cloudgan.launch.provisioning.run_registry import DesiredState
    from cloudgan.schema.plan import Plan
    from cloudgan.schema.resource import Resource

CLUSTER: Final = "cluster"
"""Value of the shared label of a cluster, and the engine of runs in a cluster."""
_USES = frozenset({"starting", "started"})


def cluster_usage(
    plan: Plan,
    resources: Iterable[Resource],
    histories: Iterable[Sequence[DesiredState]],
    now: dt.datetime,
) -> Cluster | None:
    """Returns the cluster of a run with its usage; None if the run uses no cluster.

    Args:
        plan: Of the run.
        resources: Of the account; a cluster outside this list was not created by cloudgan.
        histories: Desired states of each run in the store, oldest first.
        now: End of the usage.
    """
    if plan.target.cluster is None or plan.node_pool is None or not is_in_cluster(plan):
        return None
    resources = tuple(resources)
    found = next((resource for resource in resources if is_own_cluster(resource, plan)), None)
    if found is None:
        return Cluster(name=plan.target.cluster)
    up = parse_time_or_none(found.created_at)
    own, everybody, histories = 0.0, 0.0, tuple(histories)
    taken = {
        pool.reused.previous: pool.reused.since
        for history in histories
        if history and (pool := history[-1].plan.node_pool) and pool.reused
    }
    for history in histories:
        seconds = used_seconds(history, plan, up, now)
        if history and _is_same(history[-1].plan, plan) and (until := kept_until(history[-1])):
            ends = min(until, taken.get(history[-1].plan.run, now), now)
            seconds += max(0.0, (ends - history[-1].created_at).total_seconds())
        everybody += seconds
        own += seconds if history and history[-1].plan.run == plan.run else 0.0
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
        own_run_seconds=own,
        all_runs_seconds=everybody or None,
    )


def used_seconds(
    history: Sequence[DesiredState], plan: Plan, since: dt.datetime | None, now: dt.datetime
) -> float:
    """Returns how long a run used the cluster of `plan`, in seconds, since the cluster was created."""
    total = 0.0
    for number, desired_state in enumerate(history):
        if desired_state.state not in _USES or not _is_same(desired_state.plan, plan):
            continue
        ends = history[number + 1].created_at if number + 1 < len(history) else now
        begins = max(desired_state.created_at, since) if since else desired_state.created_at
        total += max(0.0, (ends - begins).total_seconds())
    return total


def is_own_cluster(resource: Resource, plan: Plan) -> bool:
    """Whether a resource is the cluster of a plan and was created by cloudgan."""
    is_here = resource.region in (plan.target.region, plan.target.zone)
    is_named = resource.name.rpartition("/")[2] == plan.target.cluster
    return resource.shared == CLUSTER and is_here and is_named


def is_in_cluster(plan: Plan) -> bool:
    """Whether a run uses a Kubernetes cluster rather than Cloud TPU machines."""
    return plan.node_pool is None or plan.node_pool.engine == CLUSTER


def uses_cluster_of(plan: Plan, other: DesiredState | None) -> bool:
    """Whether another run uses the cluster of a plan."""
    return other is not None and other.state in _USES and _is_same(other.plan, plan)


def _is_same(plan: Plan, other: Plan) -> bool:
    """Whether two runs use the same cluster."""
    one, two = plan.target, other.target
    is_there = (one.cluster, one.region) == (two.cluster, two.region)
    return is_there and is_in_cluster(plan) and is_in_cluster(other)
