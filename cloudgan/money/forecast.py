"""The ledger of a job that is planned: training, startup, what is billed beside the nodes, data transfer.

A forecast is two ledgers, at the fast and at the slow edge. Excluded: storage and download of the results;
both cost cents. After the run it is compared with the measured time and cost.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources

from pydantic import Field

from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import number_text
from cloudgan.core.table import read_table
from cloudgan.money.billing import (
    TO_ANOTHER_REGION,
    billing_rule,
    data_move,
    egress_fee,
    fees_beside,
    is_free_move,
)
from cloudgan.money.fees import Fees, load_fees
from cloudgan.money.ledger import Ledger, Usage
from cloudgan.money.processes import TRAINED
from cloudgan.schema.cost_report import CostReport, ForecastVsActual, LineItem, Totals
from cloudgan.schema.item import Item
from cloudgan.schema.plan import Forecast, ForecastPart, JobCost, Plan
from cloudgan.schema.price_row import (
    DataMove,
    Date,
    FeeRow,
    PoolFee,
    Positive,
    PriceRow,
    SourcedRow,
    Text,
)

_FUTURE = dt.datetime.max.replace(tzinfo=dt.UTC)
"""By the newest billing rule."""


class StartupTime(SourcedRow):
    """A row of `startup.csv`; an unmeasured time has no row."""

    provider: Text
    least_nodes: int = Field(gt=0, description="for this many nodes and more")
    low_seconds: Positive
    high_seconds: Positive
    source: Text
    date: Date
    note: str = ""

    @property
    def basis(self) -> str:
        """Source and date."""
        return f"published measurement, {self.source}, {self.date}"


@functools.cache
def load_startup_times() -> tuple[StartupTime, ...]:
    """Reads the times."""
    place = resources.files("cloudgan.money") / "lists" / "startup.csv"
    return tuple(row for _, row in read_table(place, StartupTime))


def find_startup_time(
    rows: tuple[StartupTime, ...], provider: str, nodes: int
) -> StartupTime | None:
    """Returns the time for this many nodes of a cloud; None: not measured."""
    fitting = [row for row in rows if row.provider == provider and row.least_nodes <= nodes]
    return max(fitting, key=lambda row: row.least_nodes, default=None)


LOCAL_DATA = DataMove()


@dataclass(frozen=True)
class JobContext:
    """Costs other than training.

    Attributes:
        startups: Measured startup times of nodes.
        gang_timeout_seconds: Longest wait for nodes, and for their workers.
        keep_seconds: Longest wait of the nodes for another run afterwards.
    """

    fees: Fees
    startups: tuple[StartupTime, ...]
    data_move: DataMove = LOCAL_DATA
    gang_timeout_seconds: float = 1200.0
    keep_seconds: float = 0.0


@dataclass(frozen=True)
class Priced:
    """A planned job at the fast and at the slow edge.

    Attributes:
        fees: All that is billed beside the nodes, with its price; None: unknown.
        startup: Of the nodes; None: not measured.
        low_seconds: Lower estimate of the training, preemptions included; None: unknown.
        seconds: Upper estimate.
    """

    row: PriceRow
    nodes: int
    fees: tuple[tuple[PoolFee, FeeRow | None], ...]
    context: JobContext
    startup: StartupTime | None
    low_seconds: float | None
    seconds: float | None

    @cached_property
    def low(self) -> Ledger:
        """The intended usage at the fast edge."""
        wait = self.startup.low_seconds if self.startup else None
        return self._usage(self.low_seconds, wait, dearest=False)

    @cached_property
    def high(self) -> Ledger:
        """The intended usage at the slow edge."""
        wait = self.startup.high_seconds if self.startup else None
        return self._usage(self.seconds, wait, dearest=True)

    def _usage(self, seconds: float | None, startup: float | None, *, dearest: bool) -> Ledger:
        """Returns the intended usage.

        Args:
            seconds: Training, preemptions included; None: unknown.
            startup: Until the nodes are ready; None: unknown.
            dearest: Whether a system node is of the dearest of the sizes that the cloud may take.
        """
        time = None if seconds is None else seconds + (startup or 0.0)
        beside = (self._beside(*fee, time, dearest=dearest) for fee in self.fees)
        # The next run may come at once or never.
        waiting = self._waiting() if dearest and self.context.keep_seconds else ()
        return Ledger((*self._nodes(seconds, startup), *beside, self._data(), *waiting))

    def _nodes(self, seconds: float | None, startup: float | None) -> Iterator[Usage]:
        """Yields the time of the nodes, with the cloud's minimum."""
        row, parts = self.row, {Item.TRAINING: seconds, Item.STARTUP: startup}
        is_tpu = row.accelerator.startswith("TPU")
        why = {
            Item.TRAINING: "no measured run on such nodes",
            Item.STARTUP: f"not measured for {'TPUs' if is_tpu else f'nodes of {row.provider}'}",
        }
        for item, time in parts.items():
            quantity = None if time is None else time * self.nodes
            yield Usage(item=item, row=row, quantity=quantity, seconds=time, why=why[item])
        if seconds is not None:
            up = seconds + (startup or 0.0)
            rule = billing_rule(row.provider, row.node_type, _FUTURE)
            least = max(0.0, rule.minimum_seconds - up) if rule else 0.0
            if least:
                yield Usage(item=Item.ROUNDING, row=row, quantity=least * self.nodes)
        yield Usage(item=Item.STAGING, why="not measured")

    def _waiting(self) -> Iterator[Usage]:
        """Yields the nodes, and what is billed beside them, while they wait for another run."""
        seconds = self.context.keep_seconds
        yield Usage(item=Item.WAITING, row=self.row, quantity=seconds * self.nodes)
        for fee, price in self.fees:
            if price is not None:
                line = self._beside(fee, price, seconds, dearest=True)
                yield replace(line, item=Item.WAITING)

    def _beside(
        self, fee: PoolFee, row: FeeRow | None, time: float | None, *, dearest: bool
    ) -> Usage:
        """Returns the usage of a fee at its price for a time; for `dearest` see `_usage`."""
        why = "depends on the duration of the training"
        if row is None:
            of = f" of {fee.product}" if fee.product else ""
            why = f"no price{of} in {self.row.region}"
        elif dearest and fee.kind == "system_node":
            row = self.context.fees.dearest(row)
        quantity = None if time is None else time * self._units(fee)
        return Usage(item=fee.item, row=row, quantity=quantity, seconds=time, why=why)

    def _data(self) -> Usage:
        """Each node downloads the data once."""
        move, row = self.context.data_move, self.row
        if is_free_move(move, row.provider, row.region):
            return Usage(item=Item.TRANSFER, row=row, quantity=0.0)
        fee = egress_fee(move, row.provider, self.context.fees)
        why = f"no price of egress from {move.provider} {move.region or ''}".rstrip()
        if move.gib is None:
            why = "the size of the data is unknown"
        elif move.provider == row.provider and move.region is None:
            why = f"the region of the data in {move.provider} is unknown"
        quantity = None if move.gib is None else move.gib * self.nodes
        return Usage(item=Item.TRANSFER, row=fee, quantity=quantity, why=why)

    def _units(self, fee: PoolFee) -> float:
        """Returns the number of units that are billed at a time."""
        return fee.quantity * (self.nodes if fee.per_node else 1)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of the items without a known cost."""
        return tuple(dict.fromkeys(line.name for line in self.high.lines if line.usd is None))

    @property
    def worst_case_usd(self) -> float | None:
        """Upper bound; None: the throughput is unknown.

        Unknown waits last until the timeout, unknown fees are the highest of any cloud.
        """
        if self.seconds is None:
            return None
        return (self.high + Ledger(tuple(self._worst(self.seconds)))).known_usd

    def _worst(self, seconds: float) -> Iterator[Usage]:
        """Yields the most that what is unknown may use, and at which price."""
        fees, timeout = self.context.fees, self.context.gang_timeout_seconds
        for line in self.high.lines:
            if line.item in (Item.STARTUP, Item.STAGING) and line.usd is None:
                yield replace(line, row=self.row, quantity=timeout * self.nodes)
        waited = self.startup.high_seconds if self.startup else 0.0
        waited += seconds + 2 * timeout + self.context.keep_seconds
        for fee, price in self.fees:
            if price is None:
                dearest = fees.dearest_of_any.get(fee.kind)
                yield Usage(item=fee.item, row=dearest, quantity=waited * self._units(fee))
        move, (transfer,) = self.context.data_move, self.high.of(Item.TRANSFER).lines
        if transfer.usd is None and move.gib is not None:
            near = move.provider if move.provider == self.row.provider else None
            rows = (
                one
                for one in fees.rows
                if one.kind == "egress_gib"
                and (near is None or (one.provider, one.name) == (near, TO_ANOTHER_REGION))
            )
            dearest = max(rows, key=lambda one: one.usd, default=None)
            yield replace(transfer, row=dearest, quantity=move.gib * self.nodes)

    @cached_property
    def cost(self) -> JobCost:
        """The cost by items, as plans have it."""
        startup = self.startup
        by_hour = [
            (fee, self._beside(fee, price, HOUR_SECONDS, dearest=True).usd or 0.0)
            for fee, price in self.fees
        ]
        return JobCost(
            parts=_parts(self.low, self.high),
            known_low_usd=self.low.known_usd,
            known_usd=self.high.known_usd,
            unknown=self.unknown,
            fees_usd_per_hour=sum(usd for _, usd in by_hour),
            cluster_usd_per_hour=sum(usd for fee, usd in by_hour if not fee.per_node),
            unpriced=tuple(fee.item.display for fee, price in self.fees if price is None),
            training_low_seconds=self.low_seconds,
            training_seconds=self.seconds,
            once_usd=self.high.of(Item.TRANSFER, Item.WAITING).known_usd,
            startup_low_seconds=startup.low_seconds if startup else None,
            startup_seconds=startup.high_seconds if startup else None,
            startup_basis=startup.basis if startup else "",
        )


def job_cost(
    row: PriceRow,
    nodes: int,
    seconds: tuple[float, float] | None,
    context: JobContext,
    *,
    on_cluster: bool = True,
    fees: tuple[PoolFee, ...] = (),
) -> Priced:
    """Returns the cost of a job on an offer.

    Args:
        seconds: Lower and upper estimate of the training, preemptions included; None: unknown.
        on_cluster: Whether the nodes are in a cluster; Cloud TPU VMs are not.
        fees: Billed beside the nodes: disks, addresses, load balancers.
    """
    is_tpu = row.accelerator.startswith("TPU")
    startup = None if is_tpu else find_startup_time(context.startups, row.provider, nodes)
    priced = tuple(
        (fee, context.fees.find(fee.kind, row.provider, row.region, fee.product or None))
        for fee in fees_beside(row.provider, fees, on_cluster=on_cluster)
    )
    return Priced(row, nodes, priced, context, startup, *(seconds or (None, None)))


def _parts(low: Ledger, high: Ledger) -> tuple[ForecastPart, ...]:
    """Returns each item at both edges; a billing minimum may be at the fast one alone."""
    found = []
    least_of, most_of = (each.by(lambda line: line.item) for each in (low, high))
    for item in most_of | least_of:
        least_lines, lines = (of.get(item, Ledger()) for of in (least_of, most_of))
        why = next((line.why for line in lines.lines if line.usd is None), "")
        least = None if why else least_lines.known_usd
        usd = None if why else lines.known_usd
        found.append(ForecastPart(item=item, low_usd=least, usd=usd, why_unknown=why))
    return tuple(found)


def planned_job(
    plan: Plan, seconds: tuple[float, float] | None, startups: tuple[StartupTime, ...] = ()
) -> Priced | None:
    """Returns the job of a plan with another time of training or start; None: its nodes have no price."""
    price, pool = plan.price, plan.node_pool
    if price is None or pool is None:
        return None
    context = JobContext(
        fees=load_fees(),
        startups=startups,
        data_move=data_move(plan.showers),
        gang_timeout_seconds=plan.limits.gang_timeout_seconds,
        keep_seconds=pool.keep_seconds,
    )
    is_there, nodes = pool.engine == "cluster", plan.workers.nodes
    return job_cost(price, nodes, seconds, context, on_cluster=is_there, fees=pool.fees)


def without_startup(plan: Plan) -> JobCost | None:
    """Returns the cost on nodes that are ready: what is billed beside them has less time, too."""
    cost = plan.cost
    if cost is None or plan.price is None:
        return cost
    low, high = cost.training_low_seconds, cost.training_seconds
    seconds = None if low is None or high is None else (low, high)
    at_once = StartupTime.model_construct(
        provider=plan.price.provider,
        least_nodes=1,
        low_seconds=0.0,
        high_seconds=0.0,
        source="",
        date="",
    )
    found = planned_job(plan, seconds, (at_once,))
    basis = {"startup_basis": "the nodes are ready"}
    return found.cost.model_copy(update=basis) if found else cost


PER_EPOCH = "seconds per epoch"
ALL_EPOCHS = "seconds of all epochs"
USD = "USD"
_ROUNDING = 1e-9
"""A forecast and a record add the same seconds and the same money in another order."""
_PLANNED_AS = {
    **dict.fromkeys((*TRAINED, Item.OTHER), Item.TRAINING),
    **dict.fromkeys((Item.PROVISIONING, Item.SET_UP), Item.STARTUP),
    **dict.fromkeys((Item.INSTALL, Item.SMOKE_STEP, Item.START_UP), Item.STAGING),
}
"""Parts of a plan by the line items of a report; other items are parts of their own."""
_NOT_PLANNED = (Item.STORAGE, Item.EGRESS)
"""Items that no forecast includes."""


def forecast_vs_actual(
    report: CostReport, forecast: Forecast, epochs: int, cost: JobCost | None = None
) -> tuple[ForecastVsActual, ...]:
    """Returns each metric of the forecast with its measured value.

    Args:
        forecast: Forecast of the training, of its plan.
        epochs: Trained epochs that count.
        cost: Forecast of the whole job; None: the plan has only that of the training.
    """
    steady = report.durations.steady_epoch_seconds
    trained = [item for item in report.line_items if item.item in TRAINED]
    known = [item.seconds for item in trained if item.seconds is not None]
    seconds = math.fsum(known) if known else None
    items = [item for item in report.line_items if item.item not in _NOT_PLANNED]
    low, high = forecast.low_usd, forecast.high_usd
    parts: Sequence[ForecastPart] = (_training(forecast),)
    if cost is None:
        items = trained
    elif low is not None:
        low, high, parts = cost.known_low_usd, cost.known_usd, cost.parts
    usd = Totals.of(items).known_usd if any(item.usd is not None for item in items) else None
    rows = (
        ForecastVsActual(
            metric=PER_EPOCH,
            low=forecast.low_epoch_seconds,
            predicted=forecast.epoch_seconds,
            high=forecast.high_epoch_seconds,
            measured=steady,
            explanation=_band(steady, forecast.low_epoch_seconds, forecast.high_epoch_seconds),
        ),
        ForecastVsActual(
            metric=ALL_EPOCHS,
            low=forecast.low_seconds,
            high=forecast.high_seconds,
            measured=seconds,
            explanation=_too_few(forecast, epochs)
            or _band(seconds, forecast.low_seconds, forecast.high_seconds),
        ),
        ForecastVsActual(
            metric=USD,
            low=low,
            high=high,
            measured=usd,
            explanation=_explain_usd(items, parts, (low, usd, high), _too_few(forecast, epochs)),
        ),
    )
    return tuple(row for row in rows if row.low is not None or row.predicted is not None)


def _training(forecast: Forecast) -> ForecastPart:
    usd = forecast.high_usd
    return ForecastPart(
        item=Item.TRAINING,
        low_usd=forecast.low_usd,
        usd=usd,
        why_unknown="" if usd is not None else forecast.why_unknown or "no price",
    )


def _explain_usd(
    items: Sequence[LineItem],
    parts: Sequence[ForecastPart],
    edges: tuple[float | None, float | None, float | None],
    too_few: str,
) -> str:
    low, usd, high = edges
    if low is None or usd is None or high is None:
        return ""
    names = Totals.of(items).unknown
    unknown = f"; not counted: {', '.join(names)}" if names else ""
    if usd <= high * (1 + _ROUNDING):
        why = too_few or "the epochs took less than the forecast"
        is_inside = usd >= low * (1 - _ROUNDING) and not too_few
        return f"{'inside the band' if is_inside else why}{unknown}"
    return f"{_largest(items, parts, usd - high)}{unknown}"


def _largest(items: Iterable[LineItem], parts: Iterable[ForecastPart], over: float) -> str:
    """Returns the item that exceeds its part of the plan by most."""
    measured: dict[Item, float] = {}
    for item in items:
        key = _PLANNED_AS.get(item.item, item.item)
        measured[key] = measured.get(key, 0.0) + (item.usd or 0.0)
    planned = {part.item: part.usd or 0.0 for part in parts}
    causes = {item: usd - planned.get(item, 0.0) for item, usd in measured.items()}
    cause, usd = max(causes.items(), key=lambda one: one[1])
    name = "epochs slower than the band" if cause is Item.TRAINING else cause.display
    return (
        f"{number_text(over)} USD above the band; largest cause: {name}, {number_text(usd)} USD more than"
        " planned"
    )


def _band(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return ""
    if low * (1 - _ROUNDING) <= value <= high * (1 + _ROUNDING):
        return "inside the band"
    edge, where = (high, "above") if value > high else (low, "below")
    return f"{abs(value / edge - 1):.0%} {where} the band" if edge else f"{where} the band"


def _too_few(forecast: Forecast, epochs: int) -> str:
    return f"{epochs} of {forecast.epochs} epochs were trained" if epochs < forecast.epochs else ""
