"""Nodes of a run in its cluster: lists them, and waits until they are ready."""

from __future__ import annotations

import time
from typing import Any, Final

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import StockOutError, counted
from cloudgan.core.labels import RUN
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.schema.launch import Node
from cloudgan.schema.plan import Plan, Step

WAIT: Final = "WAIT"
"""Method of the step that waits for the nodes."""
_NODES: Final = "/api/v1/nodes"


def wait_step(plan: Plan) -> Step:
    """Returns the step that waits until all nodes are ready; the job's deadline starts after it."""
    workers = plan.workers
    what = f" with {workers.accelerators_per_node} {workers.resource}" if _has_any(plan) else ""
    return Step(
        ensure=f"{workers.nodes} {'node' if workers.nodes == 1 else 'nodes'} ready{what}",
        method=WAIT,
        path=f"{_NODES}?labelSelector={RUN}={plan.node_run}",
        at="cluster",
    )


def list_nodes(api: ClusterApi, run: str) -> tuple[Node, ...]:
    """Returns the nodes with the run's label, started when they joined the cluster."""
    found = api.list(_NODES, f"{RUN}={run}")["items"]
    return tuple(
        Node(name=one["metadata"]["name"], started_at=one["metadata"].get("creationTimestamp"))
        for one in found
    )


def wait_for_nodes(api: ClusterApi, plan: Plan, poll_seconds: float) -> None:
    """Waits until one node per worker is ready and shows its accelerators.

    Raises:
        StockOutError: The nodes are not ready within the gang timeout.
    """
    began, reported = monotonic_seconds(), ""
    while True:
        found = api.list(_NODES, f"{RUN}={plan.node_run}")["items"]
        ready = [one for one in found if _is_ready(one)]
        able = [one for one in ready if _allocatable(one, plan)]
        if len(able) >= plan.workers.nodes:
            return
        why = _why(len(found), len(ready), len(able), plan)
        if why != reported:
            reported = why
            api.say(why)
        if monotonic_seconds() - began > plan.limits.gang_timeout_seconds:
            raise StockOutError(
                f"{why} after {plan.limits.gang_timeout_seconds:.0f} s",
                hint="reduce --nodes, change --region or increase --gang-timeout. Delete the rest:"
                f" cloudgan down {plan.run}",
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
        return f"{ready} of {counted(wanted, 'node')} ready"
    resource = plan.workers.resource
    return f"{able} of {wanted} ready nodes show {resource}: the driver or its device plugin is not ready"
