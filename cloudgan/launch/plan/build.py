"""Builds a plan: specification hash, deadline, forecast, warnings and steps."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

from cloudgan.core.durations import HOUR_SECONDS, format_duration
from cloudgan.core.errors import BudgetError, ConfigError, PlanError
from cloudgan.core.labels import as_value, expiry, spec_digits
from cloudgan.launch.backends.kubernetes.checks import wait_step
from cloudgan.launch.clouds.planner import NodePoolRequest, cloud_planner
from cloudgan.launch.kubernetes.manifests import manifest_steps
from cloudgan.launch.plan.jobs import KINDS
from cloudgan.schema.config import RunConfig
from cloudgan.schema.plan import (
    JobCost,
    Limits,
    NodePool,
    Plan,
    Selection,
    Showers,
    Step,
    Target,
    Wheel,
    Workers,
    longest_seconds,
)
from cloudgan.schema.price_row import PriceRow
from cloudgan.speed.measured import PAPER_SHOWERS
from cloudgan.speed.model import ThroughputModel

_KEPT_HOURS = 7 * 24
"""Hours after its deadline until a run's resources expire."""


@dataclass(frozen=True)
class PlanRequest:
    """Input of a plan, under the names of its fields.

    Attributes:
        run_spec_hash: Specification hash of the run to resume; None: computed.
    """

    config: RunConfig
    target: Target
    workers: Workers
    store: str
    showers: Showers
    owner: str
    max_hours: float = 24.0
    gang_timeout_seconds: float = 1200.0
    budget_usd: float | None = None
    spent_usd: float = 0.0
    price: PriceRow | None = None
    wheels: tuple[Wheel, ...] = ()
    store_port: int = 443
    node_pool: NodePool | None = None
    max_usd_per_hour: float | None = None
    cost: JobCost | None = None
    selection: Selection | None = None
    run_spec_hash: str | None = None
    notes: tuple[str, ...] = ()


def make_plan(
    request: PlanRequest,
    throughput: ThroughputModel,
    requests: Callable[[Plan], tuple[Step, ...]],
    now: dt.datetime,
) -> Plan:
    """Returns the plan, with the steps that `requests` makes of it; equal arguments give equal plans.

    Raises:
        BudgetError: The budget is spent or below the lower cost estimate.
        PlanError: The time limit is below the lower estimate of the duration.
    """
    price, workers, cost = request.price, request.workers, request.cost
    usd_per_second = None
    if price is not None:
        fees = cost.fees_usd_per_hour if cost else 0.0
        usd_per_second = (price.hourly_usd(workers.nodes) + fees) / HOUR_SECONDS
    end = deadline(
        max_hours=request.max_hours,
        budget_usd=request.budget_usd,
        usd_per_second=usd_per_second,
        spent_usd=request.spent_usd,
        once_usd=(request.showers.usd or 0.0) + (cost.once_usd if cost else 0.0),
        reserve_seconds=seconds_in_reserve(request.node_pool, cost, request.gang_timeout_seconds),
    )
    wait = None  # for the first flex-start node: the job's time, but for one gang timeout
    if request.node_pool and request.node_pool.flex_start:
        # The deadline of the job counts from its creation, so that it ends spending whatever happens.
        gang = request.gang_timeout_seconds
        wait = max(end.seconds - gang, min(gang, end.seconds))
    asked = vars(request)
    limits = {key: one for key, one in asked.items() if key in Limits.model_fields} | {
        "capacity_wait_seconds": wait,
        "deadline_seconds": end.seconds,
        "deadline_reason": end.reason,
    }
    own = {key: one for key, one in asked.items() if key in Plan.model_fields} | {
        "run": request.config.name,
        "owner": as_value(request.owner) or "unknown",
        "expires": expiry(now + timedelta(hours=request.max_hours + _KEPT_HOURS)),
        "spec_hash": spec_hash(request),
        "created_at": now.date().isoformat(),
        "limits": Limits(**limits),
        "forecast": KINDS[request.config.job].forecast(request.config, workers, throughput, price),
    }
    plan = Plan(**own)
    if plan.showers.are_counted:  # no limit refuses a forecast for an assumed number
        _check_budget(plan, request.spent_usd)
        if request.run_spec_hash is None:  # else earlier attempts have done a part
            _check_deadline(plan)
    plan = plan.model_copy(update={"warnings": (*_warnings(plan), *request.notes)})
    return plan.model_copy(update={"steps": requests(plan)})


def spec_hash(request: PlanRequest) -> str:
    """Returns the hash of the specification that identifies a run.

    Limits are excluded, and so is the target of provisioned nodes: another region or cloud is
    another attempt at the same run.
    """
    if request.run_spec_hash is not None:
        return request.run_spec_hash
    return spec_digits(specification(request))


def specification(of: PlanRequest | Plan) -> dict[str, object]:
    """Returns the settings that identify a run."""
    workers, target, config = of.workers, of.target, of.config
    if target.is_provisioned:  # there the data path contains the store
        data = config.data.model_copy(update={"path": of.showers.source})
        config = config.model_copy(update={"data": data})
    what = {
        "mathematics": config.mathematics(),
        "epochs": config.training.epochs,
        "nodes": workers.nodes,
        "accelerator": [workers.accelerator, workers.accelerators_per_node],
        "image": workers.image,
    }
    where = {"provider": target.provider, "store": of.store}
    return what if target.is_provisioned else what | where


def seconds_in_reserve(
    pool: NodePool | None, cost: JobCost | None, gang_timeout_seconds: float
) -> float:
    """Seconds reserved in a budget for startup and deletion of nodes.

    An unknown startup time counts as the gang timeout.
    """
    if pool is None:
        return RESERVE_SECONDS
    known = cost.startup_seconds if cost else None
    start = gang_timeout_seconds if known is None else known
    return RESERVE_SECONDS + start + REMOVAL_SECONDS


def _amount(plan: Plan) -> str:
    return KINDS[plan.config.job].amount(plan.config)


def _check_budget(plan: Plan, spent_usd: float) -> None:
    budget, low = plan.limits.budget_usd, plan.forecast.low_usd
    if low is not None and plan.cost is not None:
        low = plan.cost.known_low_usd
    if budget is not None and low is not None and low > budget - spent_usd:
        raise BudgetError(
            f"{_amount(plan)} cost at least {low:.2f} USD ({plan.forecast.basis}), more"
            f" than the remaining {budget - spent_usd:.2f} USD; {KINDS[plan.config.job].less}, change the nodes or"
            " increase --budget-usd"
        )


def _check_deadline(plan: Plan) -> None:
    """Refuses a plan whose deadline ends the run before its last epoch, by its own forecast."""
    end, low = plan.limits.deadline_seconds, plan.forecast.low_seconds
    if low is None or low <= end:
        return
    hours = math.ceil(10 * low / HOUR_SECONDS) / 10
    sentence = (
        f"{_amount(plan)} take at least {format_duration(low)}"
        f" ({plan.forecast.basis}), and {plan.limits.deadline_reason} ends the run after"
        f" {format_duration(end)}"
    )
    job = KINDS[plan.config.job]
    if plan.limits.ends_by_budget:
        raise BudgetError(f"{sentence}; increase it, {job.less} or change the nodes")
    raise PlanError(f"{sentence}; give --max-hours={hours:g} or more, {job.shorter}, or more nodes")


def _warnings(plan: Plan) -> list[str]:
    found: list[str] = []
    end, most = plan.limits.deadline_seconds, plan.forecast.high_seconds
    if plan.cost is not None and plan.cost.training_seconds is not None:
        most = plan.cost.training_seconds  # with preemptions
    if most is not None and most > end:
        found.append(
            f"the deadline of {end / HOUR_SECONDS:.3g} h ({plan.limits.deadline_reason}) may end the run"
            f" early: {_amount(plan)} take up to {most / HOUR_SECONDS:.3g} h"
        )
    if not plan.showers.are_counted and plan.config.trains_one:
        found.append(
            f"the number of showers in {plan.showers.source} is unknown here: time and cost assume"
            f" {PAPER_SHOWERS:,}, as in the paper; `cloudgan deploy` counts those of a bucket"
        )
    if plan.node_pool is not None:
        found += plan.node_pool.notes
    if plan.limits.budget_usd is not None and plan.cost is not None and plan.cost.unpriced:
        found.append(
            f"--budget-usd does not count {', '.join(plan.cost.unpriced)}, whose price is unknown in"
            f" {plan.target.region}: the run costs at least what the forecast states"
        )
    batch = plan.config.training.batch_per_replica
    if plan.config.grid:
        return found
    if plan.has_peers and batch is None and not plan.config.training.global_batch_size:
        found.append("the global batch grows with --nodes: give --global-batch to fix it")
    return found


RESERVE_SECONDS = 120.0
"""Reserved in a budget on existing nodes, for start and end of the job."""
REMOVAL_SECONDS = 300.0
"""Reserved for the deletion of provisioned nodes. Assumed, not measured. Their startup is reserved
too: see `cost.startup`."""


class Deadline(NamedTuple):
    """Seconds from the start of the job, and the limit that sets them."""

    seconds: int
    reason: str


def deadline(
    *,
    max_hours: float,
    budget_usd: float | None = None,
    usd_per_second: float | None = None,
    spent_usd: float = 0.0,
    once_usd: float = 0.0,
    reserve_seconds: float = RESERVE_SECONDS,
) -> Deadline:
    """Returns the earlier of time limit and budget.

    Args:
        usd_per_second: Of all nodes and of everything billed by the hour beside them.
        once_usd: Cost that does not depend on time, such as the transfer of the data.
        reserve_seconds: Reserved for startup and deletion of nodes.

    Raises:
        BudgetError: The budget is spent.
    """
    allowed = Deadline(longest_seconds(max_hours), f"--max-hours={max_hours:g}")
    if budget_usd is None:
        return allowed
    if usd_per_second is None:
        raise ConfigError(
            f"--budget-usd={budget_usd:g} needs the price of a node: give an offer, such as"
            " --price-as=gcp/n1-standard-8+1xV100/us-central1/on_demand (`cloudgan offers` lists them)"
        )
    left = (budget_usd - spent_usd - once_usd) / usd_per_second - reserve_seconds
    if left < 1:
        moved = f" the transfer of the data costs {once_usd:.2f} USD," if once_usd else ""
        least = math.ceil(100 * (spent_usd + once_usd + reserve_seconds * usd_per_second)) / 100
        raise BudgetError(
            f"a budget of {budget_usd:.2f} USD leaves no time to train: {spent_usd:.2f} USD are spent,"
            f"{moved} and {reserve_seconds:.0f} s reserved for startup and deletion of the nodes cost"
            f" {reserve_seconds * usd_per_second:.2f} USD; give more than --budget-usd={least:.2f}"
        )
    if left >= allowed.seconds:
        return allowed
    return Deadline(math.floor(left), f"--budget-usd={budget_usd:g}")


def with_node_pool(request: PlanRequest, wanted: NodePoolRequest) -> PlanRequest:
    """Returns the request with its node pool and the worker settings of these nodes.

    Raises:
        PlanError: The cloud, or TensorFlow on it, does not support the node type.
    """
    cloud = cloud_planner(request.target.provider)
    node_pool = cloud.node_pool(replace(wanted, spec_hash=spec_hash(request)))
    return replace(request, node_pool=node_pool, workers=cloud.workers(request.workers, node_pool))


def all_steps(plan: Plan) -> tuple[Step, ...]:
    """Returns all steps of a provisioned plan: store, desired state, cluster, nodes, job."""
    context = cloud_planner(plan.target.provider).steps(plan)
    if plan.node_pool is not None and plan.node_pool.engine != "cluster":
        return context
    if plan.node_pool is not None and plan.node_pool.flex_start:
        return (*context, *manifest_steps(plan))  # these nodes start only when pods wait
    return (*context, wait_step(plan), *manifest_steps(plan))
