"""Whose resources: those of one run, the cluster that no other run uses, and the run's share of its cost."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import CloudganError, LaunchError
from cloudgan.core.labels import OWNER, SPEC
from cloudgan.launch.clouds.engine import Engine, no_answer
from cloudgan.launch.lifecycle.cluster_usage import (
    cluster_usage,
    is_cluster_of,
)
from cloudgan.launch.lifecycle.kept_nodes import is_pool_of, may_be_shared
from cloudgan.launch.lifecycle.run_registry import DesiredState, RunRegistry
from cloudgan.schema.launch import Cluster
from cloudgan.schema.plan import Plan
from cloudgan.schema.resource import Listing, Resource


def own_resources(
    engine: Engine, registry: RunRegistry, run: str, found: DesiredState | None
) -> Listing:
    """Returns what a run alone has: with its label, or nodes that it reuses; not what another run uses.

    Args:
        found: Its newest desired state; None: unknown, the labels decide.
    """
    plans = _plans(registry, run)
    listed = engine.list(run, {plan.target.region or "" for plan in plans} or None)
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
    if may_be_shared(plans) and any(one.node_type for one in own):
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


def _plans(registry: RunRegistry, run: str) -> list[Plan]:
    """The plans of the run since its first start, which may be in several regions."""
    try:
        return [state.plan for state in registry.history(run)]
    except CloudganError:
        return []


def _newest(registry: RunRegistry, runs: Iterable[str]) -> list[DesiredState]:
    return [found for name in runs if (found := registry.read(name))]
