"""From looks at a run's machines to when each was up: also those that came and went between."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudgan.core.launch import Attempt, Node

_NOTED_EVERY = dt.timedelta(minutes=1)
_AGAIN = " #"


def looked(
    attempts: tuple[Attempt, ...], there: Iterable[Node], now: dt.datetime
) -> tuple[Attempt, ...]:
    """Returns the attempts after a look: new machines are the newest attempt's, others are gone.

    A machine stays with the attempt in which it came up, so that no time of it counts twice. A
    cloud gives a lost machine's name to the next one: they differ by when they came up.

    Args:
        attempts: As they are known; one at least.
        there: All machines of the run that are there now.
        now: When that was seen.
    """
    found = {_key(node): node for node in there}
    known = {_key(node) for attempt in attempts for node in attempt.nodes}
    changed = [
        _with(attempt, [_after(n, found, now) for n in attempt.nodes]) for attempt in attempts
    ]
    new = [node for key, node in found.items() if key not in known]
    return (*changed[:-1], with_new(changed[-1], new, now))


def with_new(attempt: Attempt, nodes: Iterable[Node], now: dt.datetime) -> Attempt:
    """Returns an attempt with machines that it does not know yet."""
    held = list(attempt.nodes)
    keys = {_key(node) for node in held}
    for node in nodes:
        if _key(node) not in keys:
            names = {other.name for other in held}
            held.append(node.model_copy(update={"name": _free(node.name, names), "seen": now}))
    return _with(attempt, held)


def gone(attempts: tuple[Attempt, ...], now: dt.datetime) -> tuple[Attempt, ...]:
    """Returns the attempts with all machines gone."""
    return looked(attempts, (), now) if attempts else attempts


def without_end(attempts: Iterable[Attempt]) -> bool:
    """Whether a machine is not known to be gone."""
    return any(node.up and not node.down for attempt in attempts for node in attempt.nodes)


def _after(node: Node, there: dict[tuple[str, object], Node], now: dt.datetime) -> Node:
    if node.down or not node.up:
        return node
    if _key(node) not in there:
        return node.model_copy(update={"down": max(now, node.up)})
    if node.seen and now - node.seen < _NOTED_EVERY:
        return node
    return node.model_copy(update={"seen": now})


def _with(attempt: Attempt, nodes: Iterable[Node]) -> Attempt:
    return attempt.model_copy(update={"nodes": tuple(nodes)})


def _key(node: Node) -> tuple[str, object]:
    return node.name.partition(_AGAIN)[0], node.up


def _free(name: str, taken: set[str]) -> str:
    number = 1
    while (free := name if number == 1 else f"{name}{_AGAIN}{number}") in taken:
        number += 1
    return free
