"""What a cluster costs a run: its control plane and own nodes, split between the runs that used it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from cloudgan.core.launch import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cloudgan.core.plan import Plan
    from cloudgan.core.thing import Thing
    from cloudgan.launching.intents import Intent

CLUSTER: Final = "cluster"
"""What a cluster's label of what all runs share says, and the engine of runs in one."""
_USES = frozenset({"starting", "started"})


def cluster_of(
    plan: Plan,
    things: Iterable[Thing],
    histories: Iterable[Sequence[Intent]],
    now: dt.datetime,
) -> Cluster | None:
    """Returns the cluster of a run as it is now; None where the run is in none.

    Args:
        plan: Of the run.
        things: Of the account; a cluster that is not among them is none that cloudgan made.
        histories: All intents of each run of the store, oldest first.
        now: When the run stops using it.
    """
    if plan.place.cluster is None or plan.rental is None or not is_in_cluster(plan):
        return None
    things = tuple(things)
    found = next((thing for thing in things if is_own_cluster(thing, plan)), None)
    if found is None:
        return Cluster(name=plan.place.cluster)
    up = _moment(found.made)
    own, everybody = 0.0, 0.0
    for history in histories:
        seconds = used_seconds(history, plan, up, now)
        everybody += seconds
        own += seconds if history and history[-1].plan.run == plan.run else 0.0
    system = [one for one in things if one.parent == found.name and one.run is None and one.nodes]
    node = system[0] if len(system) == 1 else found if found.nodes else None
    return Cluster(
        name=plan.place.cluster,
        control_plane=found.fee,
        system_node=node.node_type if node else None,
        system_nodes=node.nodes if node else None,
        up=up,
        down=now if up is None or now >= up else up,
        own_run_seconds=own,
        all_runs_seconds=everybody or None,
    )


def used_seconds(
    history: Sequence[Intent], plan: Plan, since: dt.datetime | None, now: dt.datetime
) -> float:
    """Returns how long a run was meant to use the cluster of `plan`, since the cluster is there."""
    total = 0.0
    for number, intent in enumerate(history):
        if intent.state not in _USES or not _is_same(intent.plan, plan):
            continue
        ends = history[number + 1].at if number + 1 < len(history) else now
        begins = max(intent.at, since) if since else intent.at
        total += max(0.0, (ends - begins).total_seconds())
    return total


def is_own_cluster(thing: Thing, plan: Plan) -> bool:
    """Whether a thing is the cluster of a plan's place, and cloudgan made it."""
    is_here = thing.region in (plan.place.region, plan.place.zone)
    is_named = thing.name.rpartition("/")[2] == plan.place.cluster
    return thing.shared == CLUSTER and is_here and is_named


def is_in_cluster(plan: Plan) -> bool:
    """Whether a run is in a cluster, and on no machines of their own kind."""
    return plan.rental is None or plan.rental.engine == CLUSTER


def uses_cluster_of(plan: Plan, other: Intent | None) -> bool:
    """Whether another run is meant to be in the cluster of a plan now."""
    return other is not None and other.state in _USES and _is_same(other.plan, plan)


def _is_same(plan: Plan, other: Plan) -> bool:
    """Whether two runs are in one cluster."""
    one, two = plan.place, other.place
    is_there = (one.cluster, one.region) == (two.cluster, two.region)
    return is_there and is_in_cluster(plan) and is_in_cluster(other)


def _moment(text: str | None) -> dt.datetime | None:
    try:
        found = dt.datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)
