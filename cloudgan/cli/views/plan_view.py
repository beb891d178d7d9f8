"""Prints plans: resources, target, duration, cost in parts, alternatives, requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.api.grid_plan import grid_ranks
from cloudgan.api.launch_data import SIMULATED
from cloudgan.cli.views.output import print_json
from cloudgan.core.durations import format_duration
from cloudgan.core.printable import printable
from cloudgan.parallel.layout import make_layout, ranks_per_node
from cloudgan.schema.price_row import UNKNOWN_DATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.api.sweep import SweepPlan
    from cloudgan.schema.plan import (
        Alternative,
        ForecastPart,
        JobCost,
        Limits,
        NodePool,
        Plan,
        Selection,
        Showers,
    )

_MIN_WIDTH, _MAX_WIDTH = 34, 60
_MIN_SHOWN_USD = 0.005
_MAX_REASONS = 5
_HOURS_PER_DAY = 24


def print_plan(plan: Plan, *, as_json: bool = False) -> None:
    """Prints a plan."""
    if as_json:
        print_json(plan.model_dump(mode="json"))
        return
    for line in plan_lines(plan):
        print(printable(line))


def print_sweep(sweep: SweepPlan, *, as_json: bool = False) -> None:
    """Prints the plan of a sweep: that of its next run, and what all its runs cost."""
    if as_json:
        print_json(sweep.as_json())
        return
    for line in (*plan_lines(sweep.plan), *_sweep_lines(sweep)):
        print(printable(line))


def _sweep_lines(sweep: SweepPlan) -> Iterator[str]:
    count, limits = len(sweep.seeds), sweep.plan.limits
    nodes = ", on the nodes of the first" if sweep.shares_nodes else ""
    yield f"sweep      {sweep.name}: {count} runs, one after another{nodes}: {', '.join(sweep.runs)}"
    if sweep.usd is None:
        usd = "unknown"
    else:
        low, high = (f"{usd:.2f}" for usd in sweep.usd)
        usd = f"{low} USD" if low == high else f"{low} to {high} USD"
        usd = f"at least {usd}" if sweep.unknown else usd
    rest = f"; unknown: {', '.join(sweep.unknown)}" if sweep.unknown else ""
    yield f"           all runs together: {usd}{rest}"
    given = f"{limits.max_hours:.3g} h"
    given += f" and {limits.budget_usd:.2f} USD" if limits.budget_usd else ""
    yield f"           limits of each run: {given}"


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yields the plan, line by line."""
    yield f"run        {plan.run} ({plan.program}, {plan.work})"
    yield f"target     {plan.target.describe()}"
    if plan.node_pool is not None:
        yield f"nodes      {_node_pool(plan)}"
    if plan.target.server:
        yield f"           {plan.target.server}"
    yield f"workers    {_workers(plan)}"
    if plan.config.has_ranks:
        yield f"ranks      {_ranks(plan)}"
    if plan.workers.image:
        how = f", installs {_wheels(plan)}" if plan.wheels else ""
        yield f"image      {plan.workers.image}{how}{_digest(plan.workers.image, plan.warnings)}"
    yield f"store      {plan.store}"
    yield f"data       {_showers(plan.showers)}"
    yield f"duration   {_duration(plan)}"
    yield f"cost       {_cost(plan)}"
    if plan.cost is not None:
        yield from _cost_lines(plan.cost)
    if plan.selection is not None:
        yield from _choice_lines(plan.selection)
    yield f"deadline   {_limits(plan.limits)}"
    if plan.node_pool is not None and plan.node_pool.engine == "cluster":
        yield f"abandoned  {_abandoned(plan, plan.node_pool)}"
    yield "requests"
    width = max((len(step.ensure) for step in plan.steps), default=_MIN_WIDTH)
    width = min(max(width, _MIN_WIDTH), _MAX_WIDTH)
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


def _ranks(plan: Plan) -> str:
    """Ranks of masters and workers, or of the cells of a grid, and how many each node has."""
    grid, parallel, nodes = plan.config.grid, plan.config.parallel, plan.workers.nodes
    if grid:
        counts = ", ".join(map(str, grid_ranks(grid, nodes)))
        return f"a master and {grid.cells} cells; by node: {counts}"
    layout = make_layout(parallel.ranks or nodes, parallel)
    counts = ", ".join(map(str, ranks_per_node(layout, nodes)))
    return f"{parallel.mode}, {layout.describe()}; by node: {counts}"


def _limits(limits: Limits) -> str:
    """Deadline of the job, and how long its nodes may take."""
    job = f"{format_duration(limits.deadline_seconds)} ({limits.deadline_reason})"
    gang = f"all workers must run within {format_duration(limits.gang_timeout_seconds)}"
    if limits.capacity_wait_seconds is None:
        return f"{job}; {gang}"
    wait = format_duration(limits.capacity_wait_seconds)
    return f"{job}; flex-start nodes may queue for {wait} of it, and from the first one on {gang}"


def _abandoned(plan: Plan, pool: NodePool) -> str:
    """What the cluster costs if this machine fails: the nodes end at the deadline, it does not."""
    cost = plan.cost
    if cost is None:
        usd = "an unknown amount"
    else:
        of_nodes = {fee.name for fee in pool.fees if fee.per_node}
        least = "at least " if set(cost.unpriced) - of_nodes else ""
        usd = f"{least}{_HOURS_PER_DAY * cost.cluster_usd_per_hour:.2f} USD"
    if pool.ends_cluster:
        end = "the cloud deletes it (the last of the requests that delete)"
    else:
        end = f"`cloudgan down {plan.run}` or `cloudgan doctor --delete`, on any machine"
    return f"if this machine fails, the cluster bills up to {usd} per day until {end}"


def _node_pool(plan: Plan) -> str:
    """Such as ``2 x a2-highgpu-1g, spot, node pool gan-0a1b``."""
    pool = plan.node_pool
    if pool is None:
        return "none"
    market = pool.market.replace("_", " ")
    more = ", flex-start" if pool.flex_start else ""
    more += f", reservation {pool.reservation}" if pool.reservation else ""
    more += ", keeps its cluster" if pool.keep_cluster else ""
    more += f", waits {format_duration(pool.keep_seconds)} afterwards" if pool.keep_seconds else ""
    more += f", of run {pool.reused.run}" if pool.reused else ""
    return f"{plan.workers.nodes} x {pool.node_type}, {market}{more}, node pool {pool.name}"


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
    """Note that the digest is not resolved yet, unless a warning says why."""
    is_known = "@" in image or any(image in warning for warning in warnings)
    return "" if is_known else "; its digest is resolved at deploy"


def _showers(showers: Showers) -> str:
    if showers.records is None:
        return showers.source
    about = "" if showers.gib_is_exact else "about "
    of = "" if showers.source == SIMULATED else "of "
    text = (
        f"{showers.records} showers, {about}{showers.gib:.3g} GiB as shards, {of}{showers.source}"
    )
    if showers.upload_to is None:
        return text
    action = "converted and uploaded" if showers.convert else "uploaded"
    cost = "unknown cost" if showers.usd is None else f"{showers.usd:.2f} USD"
    minutes = format_duration(60 * (showers.minutes or 0))
    return f"{text}; {action} once to {showers.upload_to} ({minutes} at 100 Mbit/s, {cost})"


def _duration(plan: Plan) -> str:
    forecast = plan.forecast
    if forecast.low_seconds is None or forecast.high_seconds is None:
        return f"unknown: {forecast.why_unknown}"
    band = _band(format_duration(forecast.low_seconds), format_duration(forecast.high_seconds))
    return f"{band} for {plan.work} ({forecast.grade}: {forecast.basis})"


def _cost(plan: Plan) -> str:
    forecast, price = plan.forecast, plan.price
    if plan.node_pool is not None and plan.node_pool.prepaid:
        return "unknown: the nodes were paid in advance with their reservation"
    if price is None and plan.node_pool is not None:
        return "unknown: these nodes have no known price in this region"
    if price is None:
        return "none known; --price-as=OFFER gives the price of the nodes"
    rate = f"{price.hourly_usd(plan.workers.nodes):.2f} USD per hour, {price.offer}"
    bound = " or later" if price.has_earliest_date else ""
    day = "an undated price" if price.date == UNKNOWN_DATE else f"price of {price.date}{bound}"
    day += f"; a node was {price.range_text}" if price.range_text else ""
    if forecast.low_usd is None or forecast.high_usd is None:
        return f"unknown in total ({forecast.why_unknown}); {rate}, {day}"
    of_nodes = " for the nodes while they train" if plan.node_pool else ""
    usd = f"{_usd_band(forecast.low_usd, forecast.high_usd)} USD{of_nodes} ({rate}, {day})"
    if plan.config.task == "train":
        return usd
    thousands = plan.config.simulation.showers / 1000
    each = _usd_band(forecast.low_usd / thousands, forecast.high_usd / thousands)
    return f"{usd}; {each} USD per 1,000 showers"


def _cost_lines(cost: JobCost) -> Iterator[str]:
    """Cost of the whole job and its parts."""
    band = _usd_band(cost.known_low_usd, cost.known_usd)
    if cost.unknown:
        yield f"total      at least {band} USD (unknown: {', '.join(cost.unknown)})"
    else:
        yield f"total      {band} USD"
    for part in cost.parts:
        if part.usd is None or part.usd >= _MIN_SHOWN_USD:
            yield f"           {part.name}: {_part(part)}"
    if cost.startup_seconds is None or cost.startup_low_seconds is None:
        yield "startup    unknown"
        return
    low, high = format_duration(cost.startup_low_seconds), format_duration(cost.startup_seconds)
    yield f"startup    {low} to {high} ({cost.startup_basis})"


def _choice_lines(choice: Selection) -> Iterator[str]:
    """Why this offer was selected, the next ones, and the rejected ones."""
    yield f"selected   {choice.reason}"
    if choice.batch_reason:
        yield f"batch      {choice.batch_reason}"
    if choice.market_reason:
        yield f"market     {choice.market_reason}"
    for number, one in enumerate(choice.alternatives, start=1):
        yield f"{'next' if number == 1 else '':<11}{_alternative(one)}"
    for number, group in enumerate(choice.rejected_offers[:_MAX_REASONS]):
        more = group.count - len(group.examples)
        which = ", ".join(group.examples) + (f" and {more} more" if more else "")
        yield f"{'rejected' if number == 0 else '':<11}{which}: {group.reason}"


def _alternative(one: Alternative) -> str:
    if one.known_usd is None or one.seconds is None:
        return f"{one.nodes} x {one.offer}: cost unknown"
    least = "at least " if one.unknown else ""
    return (
        f"{one.nodes} x {one.offer}: {least}{one.known_usd:.2f} USD,"
        f" {format_duration(one.seconds)} ({one.grade})"
    )


def _part(part: ForecastPart) -> str:
    if part.usd is None:
        return f"unknown, {part.why_unknown}"
    return f"{_usd_band(part.low_usd or 0.0, part.usd)} USD"


def _usd_band(low: float, high: float) -> str:
    return _band(f"{low:.2f}", f"{high:.2f}")


def _band(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
