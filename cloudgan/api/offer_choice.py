"""The best offers for a job: at most eight rows, by the filter and the ranking of `plan`."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import Field

from cloudgan.core.clouds import CLOUDS
from cloudgan.core.document import Document
from cloudgan.core.errors import BudgetError, PlanError
from cloudgan.launch.clouds.planner import BUILT_IN_CLOUDS, NodePoolRequest
from cloudgan.launch.plan.candidates import (
    Candidate,
    OfferConstraints,
    Ranking,
    batch_reason,
    group_rejected,
    usable_options,
)
from cloudgan.money.fees import load_fees
from cloudgan.money.forecast import JobContext
from cloudgan.money.startup import load_startup_times
from cloudgan.schema.plan import NodePool, RejectedOffers
from cloudgan.schema.price_row import PriceRow
from cloudgan.speed.candidates import (
    PricedJob,
    cheapest_per_configuration,
    cheapest_within,
    pareto_front,
    preemption_risk,
    smallest_changes,
    spot_break_even,
)
from cloudgan.speed.model import ThroughputModel
from cloudgan.speed.spot import checkpoint_interval

_MOST_ROWS = 8


class JobOption(Document):
    """An offer, a number of nodes and a batch for a job; seconds and usd are upper bounds."""

    best_for: tuple[str, ...] = Field(
        default=(),
        description="chosen (by plan), within limits, cheapest, fastest, safest (on demand)",
    )
    offer: str
    regions: tuple[str, ...] = Field(description="with this node type at this price")
    nodes: int
    accelerators: int
    batch: float = Field(description="showers per replica and step")
    global_batch: int
    learning: str = Field(description="batches in words, and the evidence on learning")
    low_seconds: float
    seconds: float = Field(description="of the training, preemptions included")
    low_usd: float = Field(description="known cost of the whole job")
    usd: float = Field(description="of the whole job; unknown parts at their highest")
    grade: str = Field(description="measured or modelled")
    basis: str
    age_days: int | None = Field(description="of the price; None: undated")
    is_age_bound: bool = Field(description="whether the price may be younger: its date is a bound")
    price_range: str = Field(description="of the spot price of a node; empty: one reading is known")
    risk: str = Field(description="of preemptions; empty on demand")
    interruption: float = Field(description="chance of at least one preemption; 0 on demand")
    losses_per_node_hour: float = Field(description="preemptions; 0 on demand")
    losses_basis: str = Field(
        description="public traces, given, or assumed, not measured; empty on demand"
    )
    break_even_losses_per_node_hour: float | None = Field(
        description="preemption rate up to which spot is cheaper; None: on demand, or unknown"
    )
    checkpoint_every_seconds: float | None = Field(description="optimal interval on spot nodes")


class JobChoice(Document):
    """The best options for a job of a number of epochs."""

    epochs: int
    deadline_seconds: float | None
    budget_usd: float | None
    assumed: dict[str, float | None] = Field(
        description="of spot nodes, not measured; per_node_hour None: by cloud and accelerator, see rows"
    )
    considered: int = Field(description="offers times numbers of nodes")
    chosen: JobOption | None = Field(
        description="what `plan` chooses; if nothing that was measured fits, the best modelled one"
    )
    why_none: str
    changes: tuple[str, ...] = Field(description="changes that would fit, the smallest first")
    rows: tuple[JobOption, ...] = Field(description="at most eight: the best measured and modelled")
    pareto_front: tuple[JobOption, ...] = Field(
        description="no other option is both faster and cheaper"
    )
    options: tuple[JobOption, ...] = Field(
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
        today: Day for the age of prices.
    """

    def __init__(
        self,
        speeds: ThroughputModel,
        job: PricedJob,
        named: frozenset[str],
        limits: tuple[float | None, float | None],
        today: dt.date,
    ) -> None:
        self._speeds, self._job, self._today = speeds, job, today
        self._limits = limits
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
        return usable_options(rows, self._speeds, self._constraints, context, node_pool)

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
        shown = _Shown(options, self._job, on_demand, self._today, self._speeds.network)
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
            graded = [o for o in options if o.timing and o.timing.epoch.grade == grade]
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


def node_pool(row: PriceRow, nodes: int) -> NodePool:
    """Returns the nodes of an offer; nodes of a price file need no request.

    Raises:
        PlanError: The cloud, or TensorFlow on it, does not support the node type.
    """
    if row.provider not in CLOUDS:
        return NodePool(node_type=row.node_type, market=row.market, name="own", engine="cluster")
    wanted = NodePoolRequest("offers", "", row.node_type, row.market, nodes)
    return BUILT_IN_CLOUDS.planner(row.provider).node_pool(wanted)


class _Shown:
    """Turns ranked options into values of the report."""

    def __init__(
        self,
        options: Sequence[Candidate],
        job: PricedJob,
        on_demand: Mapping[str, float],
        today: dt.date,
        network: str,
    ) -> None:
        self._job, self._on_demand, self._today, self._network = job, on_demand, today, network
        self._regions: dict[tuple[object, ...], list[str]] = {}
        for one in options:
            regions = self._regions.setdefault(_place(one), [])
            if one.row.region not in regions:
                regions.append(one.row.region)

    def option(self, one: Candidate, roles: tuple[str, ...] = ()) -> JobOption:
        timing, row, usd = one.timing, one.row, one.known_usd
        assert timing is not None  # noqa: S101  only known throughputs are options
        assert usd is not None  # noqa: S101
        full = self._on_demand.get(row.model_copy(update={"market": "on_demand"}).offer)
        is_spot = row.market == "spot"
        preemption = self._job.preemption.of_node(row)
        interval = checkpoint_interval(preemption, one.nodes) if is_spot else math.inf
        mean = preemption.mean_seconds(one.nodes) if is_spot else math.inf
        others = [name for name in self._regions[_place(one)] if name != row.region]
        return JobOption(
            best_for=roles,
            offer=row.offer,
            regions=(row.region, *sorted(others)),
            nodes=one.nodes,
            accelerators=one.nodes * row.accelerator_count,
            batch=timing.batch,
            global_batch=one.global_batch or 0,
            learning=batch_reason(one, self._network),
            low_seconds=timing.low_seconds,
            seconds=timing.seconds,
            low_usd=usd[0],
            usd=one.usd,
            grade=timing.epoch.grade,
            basis=timing.epoch.basis,
            age_days=row.age_days(self._today),
            is_age_bound=row.has_earliest_date,
            price_range=row.range_text,
            risk=preemption_risk(timing, self._job),
            interruption=-math.expm1(-timing.work_seconds / mean),
            losses_per_node_hour=preemption.rate if is_spot else 0.0,
            losses_basis=self._job.preemption.basis(row) if is_spot else "",
            break_even_losses_per_node_hour=(
                spot_break_even(timing, full, self._job) if is_spot and full else None
            ),
            checkpoint_every_seconds=interval if math.isfinite(interval) else None,
        )


def _place(one: Candidate) -> tuple[object, ...]:
    """What makes options of several regions the same row."""
    row = one.row
    return row.provider, row.node_type, row.market, row.usd_per_hour, one.nodes, one.global_batch
