"""Puts a plan together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from cloudgan.core.errors import BudgetError
from cloudgan.core.labels import as_value, expiry, spec_digits
from cloudgan.core.plan import Limits, Plan
from cloudgan.planning.deadline import REMOVAL_SECONDS, RESERVE_SECONDS, deadline
from cloudgan.planning.forecast import forecast

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable

    from cloudgan.core.choice import Choice, JobCost
    from cloudgan.core.config import RunConfig
    from cloudgan.core.plan import Place, Rental, Showers, Step, Wheel, Workers
    from cloudgan.core.price_row import PriceRow
    from cloudgan.cost.elsewhere import Speeds

_KEPT_HOURS = 7 * 24
"""How long after its limit a run may lie about until anybody may remove it."""


@dataclass(frozen=True)
class Asked:
    """Everything a plan is made from.

    Attributes:
        config: What is trained, as the pods will read it.
        place: Where.
        workers: On what.
        store: URL of the store, or pvc:NAME.
        showers: The data, and what moving them takes.
        owner: Who starts it.
        max_hours: Allowed for the attempt.
        gang_timeout_seconds: For all workers to be up.
        budget_usd: For all attempts.
        spent_usd: By the attempts before.
        price: Of one node.
        wheels: What pods install.
        store_port: By which pods reach the store.
        rental: What is rented; None: nodes that are there.
        max_usd_per_hour: Of all nodes.
        cost: Of the whole job, where nodes are rented.
        choice: Why they are.
        run_spec: Digits of the run that this goes on with; None: those that follow from the rest.
        notes: Warnings that were found before.
    """

    config: RunConfig
    place: Place
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
    rental: Rental | None = None
    max_usd_per_hour: float | None = None
    cost: JobCost | None = None
    choice: Choice | None = None
    run_spec: str | None = None
    notes: tuple[str, ...] = ()


def make_plan(
    asked: Asked, speeds: Speeds, requests: Callable[[Plan], tuple[Step, ...]], now: dt.datetime
) -> Plan:
    """Returns the plan: the same for the same arguments.

    Args:
        asked: What is wanted.
        speeds: Of the network.
        requests: The provider's, which turns a plan into steps.
        now: In UTC.

    Raises:
        BudgetError: The budget is spent, or does not suffice even at the fast edge.
        ConfigError: There is a budget and no price.
    """
    price, workers, training = asked.price, asked.workers, asked.config.training
    whole = training.ends_with_its_epochs
    end = deadline(
        max_hours=asked.max_hours,
        budget_usd=asked.budget_usd,
        usd_per_second=_usd_per_second(asked),
        spent_usd=asked.spent_usd,
        reserve_seconds=_reserve_seconds(asked),
    )
    plan = Plan(
        run=asked.config.name,
        owner=as_value(asked.owner) or "unknown",
        expires=expiry(now + timedelta(hours=asked.max_hours + _KEPT_HOURS)),
        spec=spec(asked),
        made=now.date().isoformat(),
        place=asked.place,
        store=asked.store,
        store_port=asked.store_port,
        workers=workers,
        rental=asked.rental,
        limits=Limits(
            max_hours=asked.max_hours,
            budget_usd=asked.budget_usd,
            max_usd_per_hour=asked.max_usd_per_hour,
            gang_timeout_seconds=asked.gang_timeout_seconds,
            deadline_seconds=end.seconds,
            deadline_why=end.why,
        ),
        showers=asked.showers,
        wheels=asked.wheels,
        price=price,
        cost=asked.cost,
        choice=asked.choice,
        forecast=forecast(training.epochs, workers, speeds, price, whole=whole),
        config=asked.config,
    )
    _check_budget(plan, asked.spent_usd)
    plan = plan.model_copy(update={"warnings": (*_warnings(plan), *asked.notes)})
    return plan.model_copy(update={"steps": requests(plan)})


def spec(asked: Asked) -> str:
    """Returns the digits of what decides whether two deploys mean one run: not its limits.

    Nor where rented nodes are: another region, or another cloud, is another attempt at the run.
    """
    if asked.run_spec is not None:
        return asked.run_spec
    workers, place = asked.workers, asked.place
    config = asked.config
    if place.is_rented:  # there the data's path names the store
        data = config.data.model_copy(update={"path": asked.showers.source})
        config = config.model_copy(update={"data": data})
    what = {
        "mathematics": config.mathematics(),
        "epochs": config.training.epochs,
        "nodes": workers.nodes,
        "accelerator": [workers.accelerator, workers.accelerators_per_node],
        "image": workers.image,
    }
    where = {"provider": place.provider, "store": asked.store}
    return spec_digits(what if place.is_rented else what | where)


def _usd_per_second(asked: Asked) -> float | None:
    """Of all nodes, and of the cluster around them as far as that is known."""
    if asked.price is None:
        return None
    fees = asked.cost.fees_usd_per_hour if asked.cost else 0.0
    return (asked.price.usd_per_hour * asked.workers.nodes + fees) / 3600


def _reserve_seconds(asked: Asked) -> float:
    """What a budget keeps back: nodes that are made for a run are paid for before its job begins.

    Where nobody knows how long that takes, it is as long as the run waits for them at most.
    """
    if asked.rental is None:
        return RESERVE_SECONDS
    known = asked.cost.startup_seconds if asked.cost else None
    start = asked.gang_timeout_seconds if known is None else known
    return RESERVE_SECONDS + start + REMOVAL_SECONDS


def _check_budget(plan: Plan, spent_usd: float) -> None:
    budget, low = plan.limits.budget_usd, plan.forecast.low_usd
    if low is not None and plan.cost is not None:
        low = plan.cost.known_low_usd
    if budget is not None and low is not None and low > budget - spent_usd:
        raise BudgetError(
            f"{plan.forecast.epochs} epochs would cost at least {low:.2f} USD"
            f" ({plan.forecast.basis}), more than the {budget - spent_usd:.2f} USD that are left;"
            " ask for fewer --epochs, other nodes, or a larger --budget_usd"
        )


def _warnings(plan: Plan) -> list[str]:
    found, ahead = [], plan.forecast
    end = plan.limits.deadline_seconds
    if ahead.low_seconds is not None and ahead.low_seconds > end:
        found.append(
            f"the deadline of {end / 3600:.3g} h ({plan.limits.deadline_why}) ends the run before"
            f" its last epoch: {ahead.epochs} epochs take at least {ahead.low_seconds / 3600:.3g} h."
            " What is trained until then is kept"
        )
    elif ahead.high_seconds is not None and ahead.high_seconds > end:
        found.append(
            f"the deadline of {end / 3600:.3g} h ({plan.limits.deadline_why}) may end the run"
            f" early: {ahead.epochs} epochs take up to {ahead.high_seconds / 3600:.3g} h"
        )
    if plan.showers.records is None:
        found.append("nobody knows how many showers there are, so no epoch can be foretold")
    if plan.rental is not None:
        found += plan.rental.notes
    if len(plan.wheels) == 1:
        found.append(
            "the wheels of cloudgan's dependencies are not here yet: `deploy` fetches them"
        )
    batch = plan.config.training.batch_per_replica
    if plan.workers.nodes > 1 and batch is None and not plan.config.training.global_batch_size:
        found.append(
            "each worker takes the preset's batch, so the global batch grows with --nodes; give"
            " --global_batch to keep it"
        )
    return found
