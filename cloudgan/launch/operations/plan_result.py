"""The screen of `plan`: the same job in each cloud and market, its total, and what bills afterwards."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from typing import Any

from cloudgan.core.clouds import CLOUDS, title_of
from cloudgan.core.durations import duration_range, duration_text, format_duration
from cloudgan.core.errors import counted
from cloudgan.launch.clouds.resource import is_cluster
from cloudgan.launch.plan.build import seconds_in_reserve
from cloudgan.launch.plan.jobs import KINDS, grid_ranks
from cloudgan.launch.plan.node_choice import NONE_THERE
from cloudgan.launch.plan.showers import SIMULATED
from cloudgan.money.forecast import planned_job
from cloudgan.ranks.layout import make_layout, ranks_per_node
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Cell, Number, Table, usd_range, usd_range_cell
from cloudgan.schema.cost_report import least
from cloudgan.schema.item import Item
from cloudgan.schema.plan import JobCost, Plan, Selection

_MIN_SHOWN_USD = 0.005
_IN_TIME = {Item.STARTUP.display, Item.STAGING.display}
"""Unknown parts that the reserve and the deadline of a job limit."""
_MAX_REASONS = 5
_HOURS_PER_DAY = 24
_CHOSEN = "✔"
_SHORT_MINUTES = 0.1
_COLUMNS, _ROWS = 80, 22
"""A terminal of 80x24 with the question below the plan."""


class PlanResult(Result):
    """A plan, and what a person is to know before it is carried out."""

    plan: Plan
    price_warning: str = ""
    is_first: bool = False
    """Whether the plan is that of the first run of several, so that its cost is not the total."""

    def as_json(self) -> dict[str, Any]:
        """Returns the document `plan.json`."""
        return self.plan.model_dump(mode="json")

    def view(self) -> View:
        """Returns the plan on one screen; the basis has the requests and the rejected offers."""
        plan = self.plan
        basis = tuple(_basis(plan))
        requests = len(plan.steps)
        more = f"-v shows the basis, {requests} requests and the rejected offers"
        notes = [
            *_notes(plan, "first" if self.is_first else "total"),
            more if plan.selection else more.replace(" and the rejected offers", ""),
        ]
        table, warnings = _markets(plan), [self.price_warning] * bool(self.price_warning)
        used = 4 + (len(table.rows) + 3 if table else 0)  # the line, the question, empty lines
        used += sum(map(_rows_of, (*notes, *warnings)))
        for warning in plan.warnings:
            used += _rows_of(f"warning: {warning}")
            if used > _ROWS:
                basis = (*(f"warning: {one}" for one in plan.warnings), *basis)
                warnings.append("more warnings: see -v")
                break
            warnings.append(warning)
        return View(
            line=_line(plan), table=table, notes=tuple(notes), warnings=tuple(warnings), basis=basis
        )

    def question(self) -> str:
        """Returns the question before the plan is carried out."""
        plan, target, pool = self.plan, self.plan.target, self.plan.node_pool
        count = plan.workers.nodes
        nodes = counted(count, "node")
        if pool is None:
            return f"Start {counted(count, 'worker')} in {target.describe()}?"
        kind = {"gcp": "project", "azure": "subscription"}.get(target.provider, "account")
        where = f"{kind} {target.account}, {target.region}"
        if others := target.zones[1:]:
            where += f" (zone {target.zone}, or if it has none {', '.join(others)})"
        if pool.reused:
            return f"Use the {nodes} of run {pool.reused.run} in {where}?"
        has_cluster = any(is_cluster(str(step.kind)) for step in plan.steps)
        cluster = ", and a cluster if it is missing," if has_cluster else ""
        return f"Create {nodes}{cluster} in {where}?"


def _rows_of(text: str) -> int:
    return -(-len(text) // _COLUMNS)


def _line(plan: Plan) -> str:
    """Such as ``Plan mini-3a59: train mini, 20 epochs, 2,000 showers, on 2 x L4``."""
    work = KINDS[plan.config.job].work(plan)
    assumed = ", showers assumed (no --data)" if plan.assumes_showers else ""
    return f"Plan {plan.run}: {work}, on {_machines(plan)}{assumed}"


def _machines(plan: Plan) -> str:
    """Such as ``2 x L4``, ``2 nodes of 8 x V100``, ``this machine, 2 workers``."""
    workers, provider = plan.workers, plan.target.provider
    count = workers.nodes
    if workers.accelerators_per_node == 1:
        nodes = f"{count} x {workers.accelerator}"
    elif workers.accelerators_per_node:
        each = f"{workers.accelerators_per_node} x {workers.accelerator}"
        nodes = each if count == 1 else f"{count} nodes of {each}"
    else:
        nodes = counted(count, "worker")
    if provider == "local":
        return f"this machine, {nodes}"
    return nodes if plan.node_pool else f"{nodes} of {provider}"


def _markets(plan: Plan) -> Table | None:
    """Returns one row per cloud and market; None: nothing is to be created."""
    pool, cost, ahead = plan.node_pool, plan.cost, plan.forecast
    if pool is None:
        return None
    provider, choice = plan.target.provider, plan.selection
    known = cost is not None and ahead.high_usd is not None
    chosen = (
        f"{_CHOSEN} {title_of(provider)}",
        *_nodes_and_market(plan.workers.nodes, pool.node_type, pool.market),
        usd_range_cell(cost.known_low_usd, cost.known_usd) if cost and known else Number(None, ""),
        _time(cost.training_low_seconds, cost.training_seconds) if cost else Number(None, ""),
        _usd_per_hour(plan.usd_per_hour),
    )
    others: list[tuple[bool, float, tuple[Cell, ...]]] = []
    for one in choice.markets if choice else ():
        row = one.row
        if (row.provider, row.market) != (provider, pool.market):
            cells = (
                f"  {title_of(row.provider)}",
                *_nodes_and_market(one.nodes, row.node_type, row.market),
                usd_range_cell(one.low_usd, one.known_usd),
                _time(one.low_seconds, one.high_seconds),
                _usd_per_hour(one.usd_per_hour),
            )
            others.append(
                (
                    row.provider != provider,
                    math.inf if one.known_usd is None else one.known_usd,
                    cells,
                )
            )
    for name, why in choice.without.items() if choice else ():
        missing = f"no {plan.workers.accelerator or 'nodes'}"
        text = missing if why == NONE_THERE else "none fits: see -v"
        if name != provider:
            others.append((True, math.inf, (f"  {title_of(name)}", text, "", "", "", "")))
    others.sort(key=lambda one: one[:2])
    usd = "USD known" if cost and cost.unknown else "USD in all"
    rows = (chosen, *(cells for *_, cells in others))
    return Table(("  cloud", "nodes", "market", usd, "train time", "USD/h"), rows, align="lllrrr")


def _nodes_and_market(nodes: int, node_type: str, market: str) -> tuple[str, str]:
    return f"{nodes} x {node_type.removeprefix('Standard_')}", market.replace("_", " ")


def _time(low: float | None, high: float | None) -> Number:
    return Number(high, "" if high is None else duration_range(low or 0.0, high, " - "))


def _usd_per_hour(usd: float | None) -> Number:
    return Number(usd, "" if usd is None else f"{usd:.2f}")


def _notes(plan: Plan, whose: str) -> Iterator[str]:
    """Yields what the table leaves open: total, data, prices, and what bills afterwards."""
    ahead, limits, pool = plan.forecast, plan.limits, plan.node_pool
    yield f"{whose}    {total(plan)}"
    if ahead.low_seconds is None or ahead.high_seconds is None:
        yield f"time     unknown: {ahead.why_unknown}"
    elif pool is None:
        yield f"time     {duration_range(ahead.low_seconds, ahead.high_seconds)}"
    budget = f"{limits.budget_usd:g} USD, " if limits.budget_usd else ""
    end = format_duration(limits.deadline_seconds)
    yield f"limits   {budget}{end} at most ({limits.deadline_reason})"
    variables = (*plan.workers.env, *(f"{name} (secret)" for name in plan.workers.secrets))
    if variables:
        yield f"env      {', '.join(variables)}"
    showers = plan.showers
    if plan.assumes_showers and showers.records:
        yield f"data     the paper's {showers.records:,} showers are assumed: give --data=FILE.h5"
    elif showers.upload_to and ((showers.minutes or 0) > _SHORT_MINUTES or showers.usd is None):
        cost = "of unknown cost" if showers.usd is None else f"for {showers.usd:.2f} USD"
        time = duration_text(60 * (showers.minutes or 0))
        yield f"data     {_size(plan)} is uploaded once, {time} at 100 Mbit/s, {cost}"
    if plan.price is not None:
        today = dt.date.fromisoformat(plan.created_at)
        age = plan.price.age_text(today).rpartition(", ")[2]
        can_refresh = plan.price.provider in CLOUDS and plan.price.is_stale(today)
        refresh = ": `cloudgan prices refresh`" if can_refresh else ""
        yield f"price    {age}{refresh}"
    if pool is not None and pool.engine == "cluster":
        yield _abandoned(plan)


def _size(plan: Plan) -> str:
    about = "" if plan.showers.gib_is_exact else "about "
    gib = plan.showers.gib or 0.0
    return f"{about}{gib:.3g} GiB" if gib >= 1 else f"{about}{1024 * gib:.3g} MiB"


def total(plan: Plan) -> str:
    """Returns the cost of the whole job as an interval, with what is unknown."""
    cost, price, count = plan.cost, plan.price, plan.workers.nodes
    if plan.node_pool is not None and plan.node_pool.prepaid:
        return "unknown: the nodes were paid in advance with their reservation"
    if price is None and plan.node_pool is not None:
        return "unknown: these nodes have no known price in this region"
    if price is None:
        return "unknown: --price-as=OFFER gives the price of the nodes"
    if plan.usd is None:
        rate = price.hourly_usd(count) + (cost.fees_usd_per_hour if cost else 0.0)
        limits = plan.limits
        longest: float = limits.deadline_seconds
        longest += seconds_in_reserve(plan.node_pool, cost, limits.gang_timeout_seconds)
        job = planned_job(plan, (longest, longest))
        most = job.high.known_usd if job else price.cost_usd(longest, count)
        beside = " with all that bills by the hour" if cost and cost.fees_usd_per_hour else ""
        text = f"unknown; {rate:.2f} USD/h{beside}, at most {most:.2f} USD until its deadline"
        rest = ", ".join(name for name in (job.unknown if job else ()) if name not in _IN_TIME)
        return f"{text}, plus {rest} (unknown)" if rest else text
    low, high = plan.usd
    text = f"{usd_range(low, high)} USD"
    if cost and cost.unknown:
        text += f", plus {', '.join(cost.unknown)} (unknown)"
    if plan.config.job == "simulate":
        thousands = plan.config.simulation.showers / 1000
        text += f"; {usd_range(low / thousands, high / thousands)} USD per 1,000 showers"
    return text


def _abandoned(plan: Plan) -> str:
    """What the cluster costs if this machine fails: the nodes end at the deadline, it does not."""
    pool, cost = plan.node_pool, plan.cost
    usd = "an unknown amount"
    if cost is not None:
        of_nodes = {fee.item.display for fee in pool.fees if fee.per_node} if pool else set()
        usd = f"{least(set(cost.unpriced) - of_nodes)}{_HOURS_PER_DAY * cost.cluster_usd_per_hour:.2f} USD a day"
    end = "the cloud deletes it" if pool and pool.ends_cluster else f"`cloudgan down {plan.run}`"
    return f"cluster  {usd} if this machine dies, until {end}"


def _basis(plan: Plan) -> Iterator[str]:
    """Yields how the plan was obtained, and every request."""
    workers, ahead, cost, choice = plan.workers, plan.forecast, plan.cost, plan.selection
    yield f"target     {plan.target.describe()}"
    if plan.target.server:
        yield f"           {plan.target.server}"
    if plan.node_pool is not None:
        yield f"nodes      {_node_pool(plan)}"
    yield f"workers    {workers.nodes} x ({workers.each})"
    if plan.config.has_ranks:
        yield f"ranks      {_ranks(plan)}"
    if workers.image:
        count = len(plan.wheels)
        how = f", installs {counted(count, 'wheel')}" if count else ""
        how += " and others that `deploy` downloads" if plan.lacks_wheels else ""
        digest = "" if "@" in workers.image else "; its digest is recorded when a node pulls it"
        yield f"image      {workers.image}{how}{digest}"
    yield f"store      {plan.store}"
    if plan.showers.records is not None:
        of = "" if plan.showers.source == SIMULATED else "of "
        source = (
            f"{plan.showers.records} showers, {_size(plan)} in a store, {of}{plan.showers.source}"
        )
        yield f"data       {source}"
    else:
        yield f"data       {plan.showers.source}"
    yield f"duration   {ahead.why_unknown or f'{ahead.grade}: {ahead.basis}'}"
    if plan.price is not None:
        varied = f"; a node was {plan.price.range_text}" if plan.price.range_text else ""
        yield f"price      {plan.price.offer}, {plan.price.source}, {plan.price.date}{varied}"
    if cost is not None:
        yield from _parts(cost)
    gang = format_duration(plan.limits.gang_timeout_seconds)
    yield f"waiting    all workers must run within {gang}"
    if plan.limits.capacity_wait_seconds is not None:
        wait = format_duration(plan.limits.capacity_wait_seconds)
        yield f"           flex-start nodes may queue for {wait}; then from the first node on"
    if choice is not None:
        yield from _choice(choice)
    yield from _requests(plan)


def _choice(choice: Selection) -> Iterator[str]:
    """Yields why these nodes were selected, the next ones, and the rejected ones."""
    yield f"selected   {choice.reason}"
    yield from (f"batch      {one}" for one in (choice.batch_reason,) if one)
    yield from (f"market     {one}" for one in (choice.market_reason,) if one)
    for one in choice.alternatives:
        usd = "cost unknown" if one.known_usd is None else f"{one.known_usd:.2f} USD"
        is_known = one.high_seconds is not None
        time = f", {duration_text(one.seconds)} ({one.grade})" if is_known else ""
        yield f"next       {one.nodes} x {one.row.offer}: {usd}{time}"
    for group in choice.rejected_offers[:_MAX_REASONS]:
        more = group.count - len(group.examples)
        which = ", ".join(group.examples) + (f" and {more} more" if more else "")
        yield f"rejected   {which}: {group.reason}"
    yield from (f"rejected   {cloud}: {why}" for cloud, why in choice.without.items())


def _requests(plan: Plan) -> Iterator[str]:
    if plan.wheels:
        size = sum(wheel.bytes for wheel in plan.wheels) / 2**20
        yield f"request    wheels, {size:.0f} MiB: PUT {plan.store.rstrip('/')}/wheels/"
    if plan.showers.upload_to:
        yield f"request    store of the showers: PUT {plan.showers.upload_to}/"
    for step in plan.steps:
        yield f"request    {step.ensure}: {step.operation}"


def _ranks(plan: Plan) -> str:
    """Ranks of masters and workers, or of the cells of a grid, and how many each node has."""
    grid, parallel, nodes = plan.config.grid, plan.config.parallel, plan.workers.nodes
    if grid:
        counts = ", ".join(map(str, grid_ranks(grid, nodes)))
        return f"a master and {grid.cells} cells; by node: {counts}"
    if plan.config.join:
        return f"{parallel.mode}, those of a trial on each node"
    layout = make_layout(parallel.ranks or nodes, parallel)
    counts = ", ".join(map(str, ranks_per_node(layout, nodes)))
    return f"{parallel.mode}, {layout.describe()}; by node: {counts}"


def _node_pool(plan: Plan) -> str:
    """Such as ``2 x a2-highgpu-1g, spot, node pool gan-0a1b``."""
    pool = plan.node_pool
    if pool is None:
        return "none"
    more = ", flex-start" if pool.flex_start else ""
    more += f", reservation {pool.reservation}" if pool.reservation else ""
    more += ", keeps its cluster" if pool.keep_cluster else ""
    more += f", waits {format_duration(pool.keep_seconds)} afterwards" if pool.keep_seconds else ""
    more += f", of run {pool.reused.run}" if pool.reused else ""
    market = pool.market.replace("_", " ")
    return f"{plan.workers.nodes} x {pool.node_type}, {market}{more}, node pool {pool.name}"


def _parts(cost: JobCost) -> Iterator[str]:
    for part in cost.parts:
        if part.usd is None:
            yield f"           {part.item.display}: unknown, {part.why_unknown}"
        elif part.usd >= _MIN_SHOWN_USD:
            yield f"           {part.item.display}: {usd_range(part.low_usd or 0.0, part.usd)} USD"
    if cost.startup_seconds is not None and cost.startup_low_seconds is not None:
        time = duration_range(cost.startup_low_seconds, cost.startup_seconds)
        yield f"startup    {time} ({cost.startup_basis})"
