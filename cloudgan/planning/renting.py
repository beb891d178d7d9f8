"""From an offer to what is rented: pure, by the rules of each cloud."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cloudgan.launching.nodes import waiting_step
from cloudgan.planning.planning import spec
from cloudgan.providers.clouds import BUILT_IN, Wanted
from cloudgan.providers.kubernetes.requests import steps as cluster_steps

if TYPE_CHECKING:
    from cloudgan.core.plan import Plan, Step
    from cloudgan.planning.planning import Asked
    from cloudgan.providers.clouds import Clouds


def rented(asked: Asked, wanted: Wanted, clouds: Clouds = BUILT_IN) -> Asked:
    """Returns what is asked with what is rented for it, and its workers as such nodes take them.

    Args:
        asked: With a place in a cloud.
        wanted: What is to be rented; its `spec` is filled in here.
        clouds: That are known.

    Raises:
        PlanError: The cloud, or TensorFlow on it, cannot serve it.
    """
    cloud = clouds.rules(asked.place.provider)
    rental = cloud.rental(replace(wanted, spec=spec(asked)))
    return replace(asked, rental=rental, workers=cloud.workers(asked.workers, rental))


def all_steps(plan: Plan, clouds: Clouds = BUILT_IN) -> tuple[Step, ...]:
    """Returns every step of a rented plan: store, intent, cluster, nodes, then the Job and its like."""
    ground = clouds.rules(plan.place.provider).steps(plan)
    if plan.rental is not None and plan.rental.engine != "cluster":
        return ground
    if plan.rental is not None and plan.rental.flex_start:
        return (*ground, *cluster_steps(plan))  # such nodes come only when pods wait for them
    return (*ground, waiting_step(plan), *cluster_steps(plan))
