"""Nodes of a run: waits until they are ready and tracks when each was up."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable
from typing import Any

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import StockOutError
from cloudgan.core.labels import RUN
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.schema.launch import Attempt, Node
from cloudgan.schema.plan import Plan, Step

_NODES = "/api/v1/nodes"


def wait_step(plan: Plan) -> Step:
    """Returns the step that waits until all nodes are ready; the job's deadline starts after it."""
    workers = plan.workers
    what = f" with {workers.accelerators_per_node} {workers.resource}" if _has_any(plan) else ""
    return Step(
        ensure=f"{workers.nodes} {'node' if workers.nodes == 1 else 'nodes'} ready{what}",
        method="WAIT",
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


def wait_for_nodes(
    api: ClusterApi, plan: Plan, say: Callable[[str], None], poll_seconds: float
) -> None:
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
            say(why)
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
        return f"{ready} of {wanted} nodes are ready"
    resource = plan.workers.resource
    return f"{able} of {wanted} ready nodes show {resource}: the driver or its device plugin is not ready"


_NOTED_EVERY = dt.timedelta(minutes=1)
_AGAIN = " #"


def observe_nodes(
    attempts: tuple[Attempt, ...], there: Iterable[Node], now: dt.datetime
) -> tuple[Attempt, ...]:
    """Returns the attempts with observed nodes: new nodes are added, missing nodes terminated.

    A node belongs to the attempt in which it started, so no time counts twice. A replacement node
    may reuse a name; the start time distinguishes the two.

    Args:
        attempts: At least one.
        there: Current nodes of the run.
        now: Time of the observation.
    """
    found = {_key(node): node for node in there}
    known = {_key(node) for attempt in attempts for node in attempt.nodes}
    changed = [
        _with(attempt, [_after(n, found, now) for n in attempt.nodes]) for attempt in attempts
    ]
    new = [node for key, node in found.items() if key not in known]
    return (*changed[:-1], add_nodes(changed[-1], new, now))


def add_nodes(attempt: Attempt, nodes: Iterable[Node], now: dt.datetime) -> Attempt:
    """Returns an attempt with new nodes added."""
    held = list(attempt.nodes)
    keys = {_key(node) for node in held}
    for node in nodes:
        if _key(node) not in keys:
            names = {other.name for other in held}
            held.append(
                node.model_copy(update={"name": _free(node.name, names), "last_seen_at": now})
            )
    return _with(attempt, held)


def terminate_nodes(attempts: tuple[Attempt, ...], now: dt.datetime) -> tuple[Attempt, ...]:
    """Returns the attempts with all nodes terminated."""
    return observe_nodes(attempts, (), now) if attempts else attempts


def has_running_nodes(attempts: Iterable[Attempt]) -> bool:
    """Whether a node has no termination time."""
    return any(
        node.started_at and not node.terminated_at for attempt in attempts for node in attempt.nodes
    )


def _after(node: Node, there: dict[tuple[str, object], Node], now: dt.datetime) -> Node:
    if node.terminated_at or not node.started_at:
        return node
    if _key(node) not in there:
        return node.model_copy(update={"terminated_at": max(now, node.started_at)})
    if node.last_seen_at and now - node.last_seen_at < _NOTED_EVERY:
        return node
    return node.model_copy(update={"last_seen_at": now})


def _with(attempt: Attempt, nodes: Iterable[Node]) -> Attempt:
    return attempt.model_copy(update={"nodes": tuple(nodes)})


def _key(node: Node) -> tuple[str, object]:
    return node.name.partition(_AGAIN)[0], node.started_at


def _free(name: str, taken: set[str]) -> str:
    number = 1
    while (free := name if number == 1 else f"{name}{_AGAIN}{number}") in taken:
        number += 1
    return free
