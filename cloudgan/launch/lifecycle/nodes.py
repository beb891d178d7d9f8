"""History of a run's nodes: when each was up."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from cloudgan.schema.launch import Attempt, Node

_NOTED_EVERY = dt.timedelta(minutes=1)
_AGAIN = " #"


def observe_nodes(
    attempts: tuple[Attempt, ...], there: Iterable[Node], now: dt.datetime
) -> tuple[Attempt, ...]:
    """Returns the attempts (at least one) with observed nodes: new nodes are added, missing nodes terminated.

    A node belongs to the attempt in which it started, so no time counts twice. A replacement node
    may reuse a name; the start time distinguishes the two.
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
