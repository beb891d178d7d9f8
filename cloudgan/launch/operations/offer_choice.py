"""The best offers for a job: at most eight rows, by the filter and the ranking of `plan`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import Field

from cloudgan.core.clouds import title_of
from cloudgan.core.document import Document
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import BudgetError, PlanError, counted
from cloudgan.launch.plan.candidates import (
    OfferConstraints,
    Ranking,
    batch_reason,
    group_rejected,
    usable_options,
    usual_node_pool,
)
from cloudgan.money.fees import load_fees
from cloudgan.money.forecast import JobContext, load_startup_times
from cloudgan.schema.candidate import Candidate, SpotRisk
from cloudgan.schema.plan import RejectedOffers
from cloudgan.schema.price_row import PriceRow
from cloudgan.speed.candidates import (
    PricedJob,
    cheapest_per_configuration,
    cheapest_within,
    pareto_front,
    smallest_changes,
)
from cloudgan.speed.model import ThroughputModel
from cloudgan.speed.spot import break_even, checkpoint_interval, describe_risk

_MOST_ROWS = 8


class JobChoice(Document):
    """The best options for a job of a number of epochs."""

    epochs: int
    deadline_seconds: float | None
    budget_usd: float | None
    assumed: dict[str, float | None] = Field(
        description="of spot nodes, not measured; per_node_hour None: by cloud and accelerator, see rows"
    )
    considered: int = Field(description="offers times numbers of nodes")
    chosen: Candidate | None = Field(
        description="what `plan` chooses; if nothing that was measured fits, the best modelled one"
    )
    why_none: str
    changes: tuple[str, ...] = Field(description="changes that would fit, the smallest first")
    rows: tuple[Candidate, ...] = Field(description="at most eight: the best measured and modelled")
    pareto_front: tuple[Candidate, ...] = Field(
        description="no other option is both faster and cheaper"
    )
    options: tuple[Candidate, ...] = Field(
        description="the cheapest per accelerator, number of nodes and market; with --all or --report"
    )
    rejected: tuple[RejectedOffers, ...] = Field(description="as `plan` rejects them")


Limits = tuple[float | None, float | None]
"""Seconds and USD of a job; None: no limit."""


def choose_offers(
    rows: Iterable[PriceRow],
    speeds: ThroughputModel,
    job: PricedJob,
    limits: Limits,
    *,
    named: frozenset[str],
    rejected: Sequence[Candidate] = (),
    on_demand: Mapping[str, float],
    other_market: Sequence[PriceRow] = (),
    all_options: bool = False,
) -> JobChoice:
    """Returns the best options of a job on these offers, filtered and ranked as `plan` does.

    Args:
        rows: Offers of the requested markets.
        speeds: Throughput of the network.
        job: Work to do.
        limits: Of the job.
        named: Accelerators that the request names.
        rejected: Offers that were rejected before.
        on_demand: On-demand prices by offer, for the break-even of spot.
        other_market: Spot offers that the request excludes: the smallest change, if they fit.
        all_options: Include the cheapest option of each configuration.
    """
    most = [math.inf if limit is None else limit for limit in limits]
    constraints = OfferConstraints(
        job, nodes=None, max_seconds=most[0], max_usd=limits[1], allowed_accelerators=named
    )
    context = JobContext(load_fees(), load_startup_times())

    def usable(offers: Iterable[PriceRow]) -> Ranking:
        return usable_options(offers, speeds, constraints, context, usual_node_pool)

    found = usable(rows)
    options, why, chosen = found.usable, "", None
    changes: tuple[str, ...] = ()
    try:
        chosen = cheapest_within(options, *limits)
    except (BudgetError, PlanError) as error:
        why, changes = str(error), smallest_changes(options, *most)
        if other_market and _within(usable(other_market).usable, limits):
            changes = ("--market=spot", *changes)
    regions: dict[tuple[object, ...], list[str]] = {}
    for one in options:
        there = regions.setdefault(_place(one), [])
        if one.row.region not in there:
            there.append(one.row.region)

    def shown(one: Candidate, roles: Sequence[str] = ()) -> Candidate:
        """Adds what is shown of a candidate only."""
        others = sorted(name for name in regions[_place(one)] if name != one.row.region)
        more = {
            "best_for": tuple(roles),
            "regions": (one.row.region, *others),
            "learning": batch_reason(one, speeds.network),
            "spot": _risk(one, job, on_demand) if one.row.market == "spot" else None,
        }
        return one.model_copy(update=more)

    return JobChoice(
        epochs=job.epochs,
        deadline_seconds=limits[0],
        budget_usd=limits[1],
        assumed=job.preemption._asdict(),
        considered=len(options),
        chosen=shown(chosen) if chosen else None,
        why_none=why,
        changes=changes,
        rows=tuple(shown(*row) for row in _rows(options, chosen, limits)[:_MOST_ROWS]),
        pareto_front=tuple(map(shown, pareto_front(options))),
        options=tuple(map(shown, cheapest_per_configuration(options))) if all_options else (),
        rejected=group_rejected((*rejected, *found.rejected)),
    )


def _within(options: Sequence[Candidate], limits: Limits) -> Candidate | None:
    try:
        return cheapest_within(options, *limits)
    except (BudgetError, PlanError):
        return None


def _rows(
    options: Sequence[Candidate], chosen: Candidate | None, limits: Limits
) -> list[tuple[Candidate, list[str]]]:
    """The options to show, with what each is best for; the chosen one is among them."""
    rows = [] if chosen is None else [(chosen, ["chosen"])]
    for grade in ("measured", "modelled"):
        for role, one in _roles([each for each in options if each.grade == grade], limits):
            known = next((roles for other, roles in rows if other is one), None)
            if known is None:
                rows.append((one, [role]))
            else:
                known.append(role)
    return rows


def _roles(options: Sequence[Candidate], limits: Limits) -> Iterator[tuple[str, Candidate]]:
    if not options:
        return
    fitting = _within(options, limits)
    if fitting and limits != (None, None):
        yield "within limits", fitting
    yield "cheapest", min(options, key=lambda one: (one.usd, one.seconds))
    yield "fastest", min(options, key=lambda one: (one.seconds, one.usd))
    kept = [one for one in options if one.row.market == "on_demand"]
    if kept:
        yield "safest", _within(kept, limits) or min(kept, key=lambda one: (one.usd, one.seconds))


def _risk(one: Candidate, job: PricedJob, on_demand: Mapping[str, float]) -> SpotRisk:
    row, work, known = one.row, one.work_seconds or 0.0, job.preemption
    preemption, basis = known.of_node(row), known.basis(row)
    interval = checkpoint_interval(preemption, one.nodes)
    full = on_demand.get(row.in_other_market.offer)
    most = break_even(work, row.usd_per_hour / full, known, one.nodes) if full else None
    return SpotRisk(
        text=f"{describe_risk(work, preemption, one.nodes)} ({basis})",
        interruption=-math.expm1(-work / preemption.mean_seconds(one.nodes)),
        losses_per_node_hour=preemption.rate,
        losses_basis=basis,
        break_even_losses_per_node_hour=most,
        checkpoint_every_seconds=interval if math.isfinite(interval) else None,
    )


def _place(one: Candidate) -> tuple[object, ...]:
    """What makes options of several regions the same row."""
    row = one.row
    return row.provider, row.node_type, row.market, row.usd_per_hour, one.nodes, one.global_batch


def nodes_text(one: Candidate) -> str:
    """Returns such as ``2 x g2-standard-4``."""
    return f"{one.nodes} x {one.row.node_type.removeprefix('Standard_')}"


def where_text(one: Candidate) -> str:
    """Returns such as ``AWS spot``."""
    return f"{title_of(one.row.provider)} {one.row.market.replace('_', ' ')}"


def decision(choice: JobChoice) -> str:
    """Returns the selected option in words."""
    option = choice.chosen
    if option is None:
        return choice.why_none
    hours = (choice.deadline_seconds or 0) / HOUR_SECONDS
    limits = [f"within {hours:g} h"] if hours else []
    limits += [f"for at most {choice.budget_usd:g} USD"] if choice.budget_usd else []
    which = "Fastest" if choice.budget_usd and not choice.deadline_seconds else "Cheapest"
    return (
        f"{which} for {counted(choice.epochs, 'epoch')}{' ' if limits else ''}{' and '.join(limits)}:"
        f" {nodes_text(option)} on {where_text(option)}"
    )


def evidence(choice: JobChoice) -> tuple[str, ...]:
    """Returns how time, batch and risk of the chosen option are known."""
    chosen = choice.chosen
    lines: list[str] = []
    if chosen is not None:
        regions = ", ".join(chosen.regions)
        lines += [f"offer: {chosen.row.offer}, at the same price in {regions}"]
        lines += [f"time: {chosen.grade}, {chosen.basis}", f"batch: {chosen.learning}"]
        if chosen.row.range_text:
            lines.append(f"price of a node: {chosen.row.range_text}; USD are those of its last day")
        if chosen.spot:
            lines.append(f"spot: {chosen.spot.text}")
    return (*lines, assumed(choice))


def assumed(choice: JobChoice) -> str:
    """Returns the rates of preemptions, and what is assumed of them."""
    given = choice.assumed
    risks = [one.spot for one in choice.rows if one.spot]
    found = {one.losses_basis: one.losses_per_node_hour for one in risks}
    rates = "; ".join(
        f"{rate:.2g} ({basis})" for basis, rate in sorted(found.items(), reverse=True)
    )
    return (
        f"spot nodes: {f'preemptions per hour and node: {rates}; ' if rates else ''}assumed, not measured:"
        f" {given['restart_seconds']:g} s to restart, {given['checkpoint_seconds']:g} s per checkpoint"
        " (--losses-per-node-hour, --restart-seconds, --checkpoint-seconds)"
    )
