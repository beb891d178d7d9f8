"""The best offers for a job: at most eight rows, by the filter and the ranking of `plan`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import Field

from cloudgan.core.clouds import CLOUDS
from cloudgan.core.document import Document
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import BudgetError, PlanError
from cloudgan.launch.plan.candidates import (
    OfferConstraints,
    Ranking,
    batch_reason,
    group_rejected,
    usable_options,
    usual_node_pool,
)
from cloudgan.money.fees import load_fees
from cloudgan.money.forecast import JobContext
from cloudgan.money.startup import load_startup_times
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


class OfferSearch:
    """Options of a job, filtered and ranked as `plan` does.

    Args:
        speeds: Throughput of the network.
        job: Work to do.
        named: Accelerators that the request names.
        limits: Seconds and USD; None: no limit.
    """

    def __init__(
        self,
        speeds: ThroughputModel,
        job: PricedJob,
        named: frozenset[str],
        limits: tuple[float | None, float | None],
    ) -> None:
        self._speeds, self._job, self._limits = speeds, job, limits
        self._constraints = OfferConstraints(
            job,
            nodes=None,
            max_seconds=math.inf if limits[0] is None else limits[0],
            max_usd=limits[1],
            allowed_accelerators=named,
        )

    def find(self, rows: Iterable[PriceRow]) -> Ranking:
        """Returns the usable options on both markets, and the rejected offers."""
        context = JobContext(load_fees(), load_startup_times())
        return usable_options(rows, self._speeds, self._constraints, context, usual_node_pool)

    def choose(
        self,
        found: Ranking,
        on_demand: Mapping[str, float],
        other_market: Sequence[PriceRow] = (),
        *,
        all_options: bool = False,
    ) -> JobChoice:
        """Returns the best options.

        Args:
            found: See `find`.
            on_demand: On-demand prices by offer, for the break-even of spot.
            other_market: Spot offers that the request excludes: the smallest change, if they fit.
            all_options: Include the cheapest option of each configuration.
        """
        options, why, chosen = found.usable, "", self._within(found.usable)
        changes: tuple[str, ...] = ()
        if chosen is None:
            why, changes = self._why_none(options, other_market)
        shown = _Shown(options, self._job, on_demand, self._speeds.network)
        rows = self._rows(options, chosen)
        return JobChoice(
            epochs=self._job.epochs,
            deadline_seconds=self._limits[0],
            budget_usd=self._limits[1],
            assumed=self._job.preemption._asdict(),
            considered=len(options),
            chosen=shown.option(chosen) if chosen else None,
            why_none=why,
            changes=changes,
            rows=tuple(shown.option(one, tuple(roles)) for one, roles in rows[:_MOST_ROWS]),
            pareto_front=tuple(map(shown.option, pareto_front(options))),
            options=tuple(map(shown.option, cheapest_per_configuration(options)))
            if all_options
            else (),
            rejected=group_rejected(found.rejected),
        )

    def _within(self, options: Sequence[Candidate]) -> Candidate | None:
        try:
            return cheapest_within(options, *self._limits)
        except (BudgetError, PlanError):
            return None

    def _why_none(
        self, options: Sequence[Candidate], other_market: Sequence[PriceRow]
    ) -> tuple[str, tuple[str, ...]]:
        try:
            cheapest_within(options, *self._limits)
        except (BudgetError, PlanError) as error:
            limits = [math.inf if limit is None else limit for limit in self._limits]
            changes = smallest_changes(options, *limits)
            if other_market and self._within(self.find(other_market).usable):
                changes = ("--market=spot", *changes)
            return str(error), changes
        return "", ()

    def _rows(
        self, options: Sequence[Candidate], chosen: Candidate | None
    ) -> list[tuple[Candidate, list[str]]]:
        """The options to show, with what each is best for; the chosen one is among them."""
        rows = [] if chosen is None else [(chosen, ["chosen"])]
        for grade in ("measured", "modelled"):
            graded = [o for o in options if o.grade == grade]
            for role, one in self._roles(graded):
                known = next((roles for other, roles in rows if other is one), None)
                if known is None:
                    rows.append((one, [role]))
                else:
                    known.append(role)
        return rows

    def _roles(self, options: Sequence[Candidate]) -> Iterator[tuple[str, Candidate]]:
        if not options:
            return
        fitting = self._within(options)
        if fitting and any(limit is not None for limit in self._limits):
            yield "within limits", fitting
        yield "cheapest", min(options, key=lambda one: (one.usd, one.seconds))
        yield "fastest", min(options, key=lambda one: (one.seconds, one.usd))
        kept = [one for one in options if one.row.market == "on_demand"]
        if kept:
            yield "safest", self._within(kept) or min(kept, key=lambda one: (one.usd, one.seconds))


class _Shown:
    """Adds to candidates what is shown of them only."""

    def __init__(
        self,
        options: Sequence[Candidate],
        job: PricedJob,
        on_demand: Mapping[str, float],
        network: str,
    ) -> None:
        self._job, self._on_demand, self._network = job, on_demand, network
        self._regions: dict[tuple[object, ...], list[str]] = {}
        for one in options:
            regions = self._regions.setdefault(_place(one), [])
            if one.row.region not in regions:
                regions.append(one.row.region)

    def option(self, one: Candidate, roles: tuple[str, ...] = ()) -> Candidate:
        region = one.row.region
        others = [name for name in self._regions[_place(one)] if name != region]
        shown = {
            "best_for": roles,
            "regions": (region, *sorted(others)),
            "learning": batch_reason(one, self._network),
            "spot": self._risk(one) if one.row.market == "spot" else None,
        }
        return one.model_copy(update=shown)

    def _risk(self, one: Candidate) -> SpotRisk:
        row, work, known = one.row, one.work_seconds or 0.0, self._job.preemption
        preemption, basis = known.of_node(row), known.basis(row)
        interval = checkpoint_interval(preemption, one.nodes)
        full = self._on_demand.get(row.model_copy(update={"market": "on_demand"}).offer)
        ratio = row.usd_per_hour / full if full else None
        return SpotRisk(
            text=f"{describe_risk(work, preemption, one.nodes)} ({basis})",
            interruption=-math.expm1(-work / preemption.mean_seconds(one.nodes)),
            losses_per_node_hour=preemption.rate,
            losses_basis=basis,
            break_even_losses_per_node_hour=break_even(work, ratio, known, one.nodes)
            if ratio
            else None,
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
    provider = one.row.provider
    cloud = CLOUDS[provider].title if provider in CLOUDS else provider
    return f"{cloud} {one.row.market.replace('_', ' ')}"


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
        f"{which} for {choice.epochs} epochs{' ' if limits else ''}{' and '.join(limits)}:"
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
