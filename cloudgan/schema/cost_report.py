"""`cost.json`: the cost of a run by line item. Unknown is never zero."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from cloudgan.core.document import Document
from cloudgan.core.errors import number_text
from cloudgan.schema.candidate import Amount, Candidate, Seconds, Usd
from cloudgan.schema.item import BillCategory, Item
from cloudgan.schema.price_row import FeeRow, PriceRow, Text

Duration = Literal["steady_epoch_seconds", "program_seconds", "billed_seconds"]


class Durations(Document):
    """The three durations of a run; None is unknown."""

    steady_epoch_seconds: Seconds | None = Field(description="median of the epochs after tracing")
    program_seconds: Seconds | None = Field(description="process start to end, all processes")
    billed_seconds: Seconds | None = Field(description="node start to node termination")


class LineItem(Document):
    """One line item: time or quantity, cost and price row; or why the cost is unknown."""

    item: Item
    name: Text = Field(description="title; with the price row if the item has several")
    seconds: Seconds | None = Field(description="None: unknown")
    node_seconds: Seconds | None = Field(default=None, description="seconds times nodes")
    quantity: Amount | None = Field(default=None, description="if not sold by time")
    unit: str | None = Field(default=None, description="of quantity")
    duration: Duration = Field(description="the duration that includes these seconds")
    usd: Usd | None = Field(description="None: unknown")
    price_row: str | None = Field(default=None, description="row_id of the price used")
    why_unknown: str | None = None

    @model_validator(mode="after")
    def _has_usd_or_reason(self) -> Self:
        if (self.usd is None) != bool(self.why_unknown):
            raise ValueError(f"line item {self.name!r} needs either usd or why_unknown")
        if self.usd is not None and self.price_row is None:
            raise ValueError(f"line item {self.name!r} has a cost and no price row")
        return self


class Totals(Document):
    """A sum, with the names of its unknown line items."""

    known_usd: Usd
    unknown: tuple[str, ...]

    @classmethod
    def of(cls, items: Iterable[LineItem]) -> Totals:
        """Returns the sum of the known line items."""
        items = tuple(items)
        return cls(
            known_usd=math.fsum(item.usd for item in items if item.usd is not None),
            unknown=tuple(item.name for item in items if item.usd is None),
        )


def least(unknown: Collection[str]) -> str:
    """Returns what precedes a sum: ``at least `` where it lacks unknown line items."""
    return "at least " if unknown else ""


def at_least(usd: float, unknown: Collection[str]) -> str:
    """Returns a sum such as ``1.23``, or ``at least 1.23`` where it lacks unknown line items."""
    return f"{least(unknown)}{number_text(float(usd))}"


class UnitCost(Document):
    """The cost of a unit of work, or why it is unknown."""

    usd: Usd | None = Field(description="None: unknown")
    basis: Text = Field(description="duration and price")
    unknown: tuple[str, ...] = Field(
        default=(), description="unknown line items: the cost is at least usd"
    )
    why_unknown: str | None = None

    @model_validator(mode="after")
    def _has_usd_or_reason(self) -> Self:
        if (self.usd is None) != bool(self.why_unknown):
            raise ValueError("a unit cost needs either usd or why_unknown")
        return self


class UnitCosts(Document):
    """Cost per unit of work."""

    per_epoch: UnitCost
    per_million_showers: UnitCost
    per_accepted_model: UnitCost


class BilledAttempt(Document):
    """Billed time of an attempt on provisioned nodes."""

    attempt: int = Field(ge=1)
    nodes: int = Field(ge=0)
    up_node_seconds: Seconds | None = Field(description="sum over nodes; None: unknown")
    billed_node_seconds: Seconds | None = Field(description="by the provider's billing rule")
    rule: str | None = Field(description="source of the billing rule")
    price_row: str | None
    why_unknown: str | None = None


class Share(Document):
    """A part of the cost by what ranks or cells did; the parts add up to the line items."""

    name: Text
    node_seconds: Seconds | None = Field(description="None: not sold by time")
    usd: Usd | None = Field(description="None: unknown")


class PricedOffer(Document):
    """Cost of a run on an offer if the node were as fast as the machine it ran on."""

    row: PriceRow
    age_days: int | None = Field(description="of the price; None: undated")
    usd_per_epoch: Usd | None = Field(description="from steady_epoch_seconds")
    usd_per_run: Usd | None = Field(description="from program_seconds")
    usd_per_million_showers: Usd | None = Field(description="from samples per second")
    unknown: tuple[str, ...] = Field(description="values that are None, each with the reason")
    basis: Text


class PublishedRun(Document):
    """A published run, measured on the machines that are priced here."""

    name: Text
    accelerator: Text
    accelerators: int = Field(gt=0)
    nodes: int = Field(gt=0)
    steady_epoch_seconds: float = Field(gt=0)
    showers_per_second: float = Field(gt=0)
    usd_per_epoch: dict[str, float | None] = Field(
        description="on_demand_2021, preemptible_2021, on_demand, spot; None: unknown price"
    )
    price_rows: dict[str, str | None] = Field(description="row_id of each price")
    source: Text
    basis: Text


class ReportProvenance(Document):
    """Versions and date of a report."""

    cloudgan: str = Field(description="version")
    today: str = Field(description="day for the age of prices, YYYY-MM-DD")
    measured_on: str
    config_hash: str | None
    git_commit: str | None


class CostReport(Document):
    """Cost of a run by price row, and estimates on other offers."""

    schema_version: Literal[1] = 1
    run: Text
    currency: Literal["USD"] = "USD"
    priced_as: str | None = Field(description="row_id of the node it is priced as; None: unknown")
    basis: Text
    durations: Durations
    line_items: tuple[LineItem, ...]
    totals: Totals
    shares: tuple[Share, ...] = Field(
        default=(), description="of masters and workers, or of cells; empty for other runs"
    )
    unit_costs: UnitCosts
    billed_attempts: tuple[BilledAttempt, ...] = Field(
        default=(), description="one for each attempt on provisioned nodes"
    )
    rows: tuple[PriceRow | FeeRow, ...] = Field(description="every row that `line_items` names")
    priced_offers: tuple[PricedOffer, ...] = ()
    offer_estimates: tuple[Candidate, ...] = Field(
        default=(),
        description="an epoch, from measured runs of this network, or bounds from the paper's",
    )
    published_runs: tuple[PublishedRun, ...] = ()
    warnings: tuple[str, ...] = Field(
        default=(), description="missing or duplicate lines of the record; no sum includes them"
    )
    recommendations: tuple[Recommendation, ...] = Field(
        default=(), description="changes that would save money"
    )
    forecast_vs_actual: tuple[ForecastVsActual, ...] = Field(
        default=(), description="empty without a forecast"
    )
    bill: ProviderBill | None = Field(default=None, description="None: no billing export given")
    provenance: ReportProvenance

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        names = [item.name for item in self.line_items]
        if len(set(names)) < len(names):
            raise ValueError("two line items have the same name")
        total = Totals.of(self.line_items)
        if total.unknown != self.totals.unknown or not math.isclose(
            total.known_usd, self.totals.known_usd, rel_tol=1e-9, abs_tol=1e-12
        ):
            raise ValueError(f"totals are {self.totals}, but the line items add up to {total}")
        parts = [share.usd for share in self.shares if share.usd is not None]
        if parts and not math.isclose(math.fsum(parts), total.known_usd, rel_tol=1e-9):
            raise ValueError(f"the shares add up to {math.fsum(parts)}, the line items to {total}")
        known = {row.row_id for row in self.rows}
        for item in self.line_items:
            if item.price_row is not None and item.price_row not in known:
                raise ValueError(f"line item {item.name!r} names a price row that is not in rows")
        return self

    @property
    def known_usd(self) -> float | None:
        """The sum of the known line items; None: all are unknown."""
        is_known = any(item.usd is not None for item in self.line_items)
        return self.totals.known_usd if is_known else None

    def total(self) -> str:
        """Returns for example ``at least 1.23 USD (unknown: egress)``."""
        usd, unknown = self.known_usd, self.totals.unknown
        missing = f" (unknown: {', '.join(unknown)})" if unknown or usd is None else ""
        known = "unknown" if usd is None else f"{at_least(usd, unknown)} USD"
        return f"{known}{missing}"


class ForecastVsActual(Document):
    """One metric of a run: forecast, measured and billed; None is unknown."""

    metric: Text
    low: float | None = Field(default=None, description="lower edge of the forecast")
    predicted: float | None = None
    high: float | None = None
    measured: float | None = None
    billed: float | None = Field(default=None, description="by the cloud, before credits")
    explanation: str = Field(
        default="", description="of the largest difference, where it can be computed"
    )


class BilledCategory(Document):
    """One category of a cloud's bill, with the cost that cloudgan measured for it."""

    name: BillCategory
    billed_usd: float
    measured_usd: float | None = Field(description="None: unknown, or not measured")
    explanation: str = Field(description="of the difference")


class ProviderBill(Document):
    """A cloud's billing export for one run."""

    files: tuple[str, ...]
    lines: int = Field(ge=0, description="of this run")
    total_lines: int = Field(ge=0)
    categories: tuple[BilledCategory, ...]
    billed_usd: float = Field(description="before credits")
    credits_usd: float = Field(description="credits and discounts: zero or below")
    other_currencies: dict[str, float] = Field(
        description="by currency, credits included: neither converted nor added"
    )
    until: AwareDatetime | None = Field(description="latest usage in the files, of any run")
    is_complete: bool | None = Field(description="the files cover the whole run; None: unknown")
    notes: tuple[str, ...] = ()


class Recommendation(Document):
    """A change that saves money: evidence from the record, saving, and the action to take."""

    title: Text
    evidence: Text = Field(description="measured values, in words")
    saves_seconds_per_epoch: Seconds | None = Field(
        default=None, description="None: not in the record"
    )
    saves_usd: Usd | None = Field(
        default=None, description="over all epochs of the run; None: unknown, or no price was given"
    )
    action: Text = Field(description="flag to pass, or key of run.yaml to set")

    def describe(self) -> str:
        """Returns the recommendation as one line."""
        saved = []
        if self.saves_seconds_per_epoch is not None:
            saved.append(f"{number_text(self.saves_seconds_per_epoch)} s per epoch")
        if self.saves_usd is not None:
            saved.append(f"{number_text(self.saves_usd)} USD")
        saves = f"; saves {' and '.join(saved)}" if saved else ""
        return f"{self.title}: {self.evidence}{saves}. Try {self.action}"
