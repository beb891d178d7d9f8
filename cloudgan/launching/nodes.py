"""The machines of a run as its cluster sees them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CapacityError
from cloudgan.core.labels import RUN
from cloudgan.core.launch import Node
from cloudgan.core.plan import Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.core.plan import Plan
    from cloudgan.kubernetes.api import ClusterApi

_NODES = "/api/v1/nodes"


def waiting_step(plan: Plan) -> Step:
    """Returns the step that waits until all nodes can take a worker: a deadline counts from the Job."""
    workers = plan.workers
    what = f" with {workers.accelerators_per_node} {workers.resource}" if _has_any(plan) else ""
    return Step(
        ensure=f"{workers.nodes} {'node' if workers.nodes == 1 else 'nodes'} ready{what}",
        method="WAIT",
        path=f"{_NODES}?labelSelector={RUN}={plan.run}",
        at="cluster",
    )


def nodes_of(api: ClusterApi, run: str) -> tuple[Node, ...]:
    """Returns the nodes that carry the run's label, up since they joined the cluster."""
    found = api.list(_NODES, f"{RUN}={run}")["items"]
    return tuple(
        Node(name=one["metadata"]["name"], up=one["metadata"].get("creationTimestamp"))
        for one in found
    )


def wait_for_nodes(
    api: ClusterApi, plan: Plan, say: Callable[[str], None], poll_seconds: float
) -> None:
    """Returns when as many nodes as the plan has workers are ready and show their accelerators.

    Raises:
        CapacityError: They are not within the plan's gang timeout.
    """
    began, told = monotonic_seconds(), ""
    while True:
        found = api.list(_NODES, f"{RUN}={plan.run}")["items"]
        ready = [one for one in found if _is_ready(one)]
        able = [one for one in ready if _allocatable(one, plan)]
        if len(able) >= plan.workers.nodes:
            return
        why = _why(len(found), len(ready), len(able), plan)
        if why != told:
            told = why
            say(why)
        if monotonic_seconds() - began > plan.limits.gang_timeout_seconds:
            raise CapacityError(
                f"{why} after {plan.limits.gang_timeout_seconds:.0f} s; a smaller --nodes, another"
                f" --region or a longer --gang_timeout may help. Remove the rest: cloudgan down"
                f" {plan.run}"
            )
        time.sleep(poll_seconds)


def _has_any(plan: Plan) -> bool:
    return plan.workers.accelerators_per_node > 0


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _allocatable(node: dict[str, Any], plan: Plan) -> bool:
    if not _has_any(plan):
        return True
    shown = ((node.get("status") or {}).get("allocatable") or {}).get(plan.workers.resource, "0")
    return int(shown) >= plan.workers.accelerators_per_node


def _why(found: int, ready: int, able: int, plan: Plan) -> str:
    wanted = plan.workers.nodes
    if found < wanted or ready < wanted:
        return f"{ready} of {wanted} nodes are ready"
    resource = plan.workers.resource
    return f"{able} of {wanted} ready nodes show {resource}: the driver or its plugin is not up yet"
