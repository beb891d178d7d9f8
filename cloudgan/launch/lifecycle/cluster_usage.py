"""Cluster usage of a run: control plane and system nodes, split between the runs that used them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from cloudgan.core.clock import parse_time_or_none
from cloudgan.launch.lifecycle.kept_nodes import kept_until
from cloudgan.launch.lifecycle.run_registry import DesiredState
from cloudgan.schema.launch import Cluster
from cloudgan.schema.plan import Plan
from cloudgan.schema.resource import Resource

CLUSTER: Final = "cluster"
"""Value of the shared label of a cluster."""


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
