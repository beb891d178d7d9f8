"""A plan for people: what will run, where, how long, for how much, and what will be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cli import rented_view
from cloudgan.cli.durations import shown
from cloudgan.core.dated_fact import UNKNOWN_DATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.plan import Forecast, Plan, Showers


_LEAST_WIDTH, _MOST_WIDTH = 34, 60


def lines(plan: Plan) -> Iterator[str]:
    """Yields the plan, line by line."""
    yield f"run        {plan.run} ({plan.config.model.preset}, {plan.config.training.epochs} epochs)"
    yield f"where      {plan.place.describe()}"
    if plan.rental is not None:
        yield f"rents      {rented_view.rental(plan)}"
    if plan.place.server:
        yield f"           {plan.place.server}"
    yield f"workers    {_workers(plan)}"
    if plan.workers.image:
        how = f", installs {_wheels(plan)}" if plan.wheels else ""
        yield f"image      {plan.workers.image}{how}{_digest(plan.workers.image, plan.warnings)}"
    yield f"store      {plan.store}"
    yield f"data       {_showers(plan.showers)}"
    yield f"takes      {_time(plan.forecast)}"
    yield f"costs      {_cost(plan)}"
    if plan.cost is not None:
        yield from rented_view.cost_lines(plan.cost)
    if plan.choice is not None:
        yield from rented_view.choice_lines(plan.choice)
    limits = plan.limits
    yield (
        f"ends       by itself after {shown(limits.deadline_seconds)} ({limits.deadline_why}); all"
        f" workers must be up within {shown(limits.gang_timeout_seconds)}"
    )
    yield "makes"
    width = max((len(step.ensure) for step in plan.steps), default=_LEAST_WIDTH)
    width = min(max(width, _LEAST_WIDTH), _MOST_WIDTH)
    if plan.wheels:
        size = sum(wheel.bytes for wheel in plan.wheels) / 2**20
        what = f"{_wheels(plan)}, {size:.0f} MiB"
        yield f"  {what:<{width}} PUT {plan.store.rstrip('/')}/wheels/"
    if plan.showers.upload_to:
        yield f"  {'shards of the data':<{width}} PUT {plan.showers.upload_to}/"
    for step in plan.steps:
        yield f"  {step.ensure:<{width}} {step.operation}"
    for warning in plan.warnings:
        yield f"warning: {warning}"


def _wheels(plan: Plan) -> str:
    count = len(plan.wheels)
    return f"{count} wheel{'' if count == 1 else 's'}"


def _workers(plan: Plan) -> str:
    workers = plan.workers
    each = f"{workers.cpus:g} cores, {workers.memory_gib:g} GiB"
    if workers.accelerators_per_node:
        each = f"{workers.accelerators_per_node} x {workers.accelerator}, {each}"
    return f"{workers.nodes} x ({each})"


def _digest(image: str, warnings: tuple[str, ...]) -> str:
    """What is missing behind a tag, unless a warning tells why."""
    is_told = "@" in image or any(image in warning for warning in warnings)
    return "" if is_told else "; its digest is resolved at deploy"


def _showers(showers: Showers) -> str:
    if showers.records is None:
        return showers.source
    about = "" if showers.gib_is_exact else "about "
    text = f"{showers.records} showers, {about}{showers.gib:.3g} GiB as shards, of {showers.source}"
    if showers.upload_to is None:
        return text
    made = "converted and uploaded" if showers.convert else "uploaded"
    cost = "unknown cost" if showers.usd is None else f"{showers.usd:.2f} USD"
    minutes = shown(60 * (showers.minutes or 0))
    return f"{text}; {made} once to {showers.upload_to} ({minutes} at 100 Mbit/s, {cost})"


def _time(ahead: Forecast) -> str:
    if ahead.low_seconds is None or ahead.high_seconds is None:
        return f"unknown: {ahead.why_unknown}"
    low, high = shown(ahead.low_seconds), shown(ahead.high_seconds)
    band = low if low == high else f"{low} to {high}"
    return f"{band} for {ahead.epochs} epochs ({ahead.grade}: {ahead.basis})"


def _cost(plan: Plan) -> str:
    ahead, price = plan.forecast, plan.price
    if price is None and plan.rental is not None:
        return "unknown: nobody knows the price of these nodes there"
    if price is None:
        return "nothing that cloudgan knows of; name what the nodes are rented as with --as=OFFER"
    rate = f"{price.usd_per_hour * plan.workers.nodes:.2f} USD per hour, {price.offer}"
    if ahead.low_usd is None or ahead.high_usd is None:
        return f"unknown in all ({ahead.why_unknown}); {rate}"
    low, high = f"{ahead.low_usd:.2f}", f"{ahead.high_usd:.2f}"
    band = low if low == high else f"{low} to {high}"
    day = "an undated price" if price.date == UNKNOWN_DATE else f"price of {price.date}"
    of_nodes = " of the nodes while they train" if plan.rental else ""
    return f"{band} USD{of_nodes} ({rate}, {day})"
