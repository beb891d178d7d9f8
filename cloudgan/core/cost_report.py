"""What a run cost, in parts: `cost.json`. Unknown is never zero."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from cloudgan.core.comparison import Compared, ProviderBill
from cloudgan.core.fee_row import FeeRow
from cloudgan.core.hint import Hint
from cloudgan.core.json_file import read_json, write_json
from cloudgan.core.price_row import PriceRow, Text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FILE_NAME = "cost.json"
Duration = Literal["steady_epoch_seconds", "program_seconds", "billed_seconds"]


class Durations(BaseModel):
    """The three durations of a run; None is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steady_epoch_seconds: float | None = Field(
        ge=0, description="median of the epochs after the tracing one"
    )
    program_seconds: float | None = Field(ge=0, description="process start to end, all processes")
    billed_seconds: float | None = Field(ge=0, description="nodes up to nodes gone")


class CostPart(BaseModel):
    """One part of the cost: how long, for how much by which price row; or why that is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Text
    seconds: float | None = Field(ge=0, allow_inf_nan=False, description="None: unknown")
    node_seconds: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="seconds times nodes: what is paid for"
    )
    quantity: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="of what is not sold by time"
    )
    unit: str | None = Field(default=None, description="of quantity")
    duration: Duration = Field(description="which of the three these seconds are a part of")
    usd: float | None = Field(ge=0, allow_inf_nan=False, description="None: unknown")
    price_row: str | None = Field(default=None, description="row_id of the price it used")
    why_unknown: str | None = None

    @model_validator(mode="after")
    def _is_known_or_says_why(self) -> Self:
        if (self.usd is None) != bool(self.why_unknown):
            raise ValueError(f"part {self.name!r} needs either usd or why_unknown")
        if self.usd is not None and self.price_row is None:
            raise ValueError(f"part {self.name!r} has a cost and no price row")
        return self


class Totals(BaseModel):
    """A sum that says what is missing in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    known_usd: float = Field(ge=0, allow_inf_nan=False)
    unknown: tuple[str, ...]

    @classmethod
    def of(cls, parts: Iterable[CostPart]) -> Totals:
        """Sums the parts that are known and names those that are not."""
        parts = tuple(parts)
        return cls(
            known_usd=math.fsum(part.usd for part in parts if part.usd is not None),
            unknown=tuple(part.name for part in parts if part.usd is None),
        )

    def describe(self, *, any_known: bool = True) -> str:
        """Returns such as ``at least 1.23 USD (unknown: egress)``."""
        missing = f"(unknown: {', '.join(self.unknown)})"
        if not any_known:
            return f"unknown {missing}"
        known = f"{self.known_usd:.4g} USD"
        return f"at least {known} {missing}" if self.unknown else known


class Figure(BaseModel):
    """A cost of something, or why it is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    usd: float | None = Field(ge=0, allow_inf_nan=False, description="None: unknown")
    basis: Text = Field(description="which duration, at which price")
    without: tuple[str, ...] = Field(default=(), description="unknown parts: it is at least usd")
    why_unknown: str | None = None

    @model_validator(mode="after")
    def _is_known_or_says_why(self) -> Self:
        if (self.usd is None) != bool(self.why_unknown):
            raise ValueError("a figure needs either usd or why_unknown")
        return self

    def describe(self) -> str:
        """Returns such as ``at least 0.5 USD``."""
        if self.usd is None:
            return f"unknown: {self.why_unknown}"
        return f"{'at least ' if self.without else ''}{self.usd:.4g} USD"


class Figures(BaseModel):
    """What a unit of work cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    per_epoch: Figure
    per_million_showers: Figure
    per_accepted_model: Figure


class Billed(BaseModel):
    """What an attempt on rented nodes is paid for, beside how long it was used."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempt: int = Field(ge=1)
    nodes: int = Field(ge=0)
    up_node_seconds: float | None = Field(ge=0, description="sum over nodes; None: unknown")
    billed_node_seconds: float | None = Field(ge=0, description="as the provider counts it")
    rule: str | None = Field(description="how the provider bills, and who says so")
    price_row: str | None
    why_unknown: str | None = None


class OfferThere(BaseModel):
    """An epoch on an offer by runs that were measured; where only bounds are known, no `usd`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    row: PriceRow
    age_days: int | None = Field(description="of the price; None: undated")
    nodes: int | None = Field(description="needed to be as fast as this run; None: unknown")
    epoch_seconds: float | None = Field(description="None: nobody measured it there")
    low_epoch_seconds: float | None
    high_epoch_seconds: float | None
    grade: str | None = Field(description="measured, curve of measured runs, or not measured")
    basis: str | None
    usd_per_epoch: float | None = Field(ge=0)
    usd_per_epoch_low: float | None = Field(ge=0)
    usd_per_epoch_high: float | None = Field(ge=0)
    why_unknown: str


class PricedOffer(BaseModel):
    """What a run would cost on an offer, were the node as fast as the machine it ran on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    row: PriceRow
    age_days: int | None = Field(description="of the price; None: undated")
    usd_per_epoch: float | None = Field(ge=0, description="from steady_epoch_seconds")
    usd_per_run: float | None = Field(ge=0, description="from program_seconds")
    usd_per_million_showers: float | None = Field(ge=0, description="from samples per second")
    unknown: tuple[str, ...] = Field(description="figures that are None, each with the reason")
    basis: Text


class MeasuredRun(BaseModel):
    """A published run that was measured on the very machines that are priced here."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Text
    accelerator: Text
    accelerators: int = Field(gt=0)
    nodes: int = Field(gt=0)
    steady_epoch_seconds: float = Field(gt=0)
    showers_per_second: float = Field(gt=0)
    usd_per_epoch: dict[str, float | None] = Field(
        description="on_demand_2021, preemptible_2021, on_demand, spot; None: no price known"
    )
    price_rows: dict[str, str | None] = Field(description="row_id of each of them")
    source: Text
    basis: Text


class Provenance(BaseModel):
    """What a report was made from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cloudgan: str = Field(description="version")
    today: str = Field(description="the day ages of prices are counted to, YYYY-MM-DD")
    measured_on: str
    config_hash: str | None
    git_commit: str | None


class CostReport(BaseModel):
    """What a run cost, by which rows; what it would cost elsewhere; what others' runs cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    run: Text
    currency: Literal["USD"] = "USD"
    priced_as: str | None = Field(
        description="row_id of the node it is priced as; None: what this machine costs is unknown"
    )
    basis: Text
    durations: Durations
    parts: tuple[CostPart, ...]
    totals: Totals
    figures: Figures
    billed: tuple[Billed, ...] = Field(default=(), description="one for each rented attempt")
    rows: tuple[PriceRow | FeeRow, ...] = Field(description="every row that `parts` name")
    elsewhere: tuple[PricedOffer, ...] = ()
    elsewhere_measured: tuple[OfferThere, ...] = Field(
        default=(), description="by runs of this network on accelerators; empty where there is none"
    )
    measured_runs: tuple[MeasuredRun, ...] = ()
    warnings: tuple[str, ...] = Field(
        default=(), description="what the record lacks or holds twice; no sum counts it"
    )
    hints: tuple[Hint, ...] = Field(default=(), description="what would save money")
    compared: tuple[Compared, ...] = Field(
        default=(), description="foretold, measured and billed; empty where nothing was foretold"
    )
    bill: ProviderBill | None = Field(default=None, description="None: no export was given")
    provenance: Provenance

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        names = [part.name for part in self.parts]
        if len(set(names)) < len(names):
            raise ValueError("two parts of one cost have one name")
        total = Totals.of(self.parts)
        if total.unknown != self.totals.unknown or not math.isclose(
            total.known_usd, self.totals.known_usd, rel_tol=1e-9, abs_tol=1e-12
        ):
            raise ValueError(f"totals are {self.totals}, but the parts make {total}")
        known = {row.row_id for row in self.rows}
        for part in self.parts:
            if part.price_row is not None and part.price_row not in known:
                raise ValueError(f"part {part.name!r} names a price row that is not here")
        return self

    def total(self) -> str:
        """The total in words, with what is missing in it."""
        return self.totals.describe(any_known=any(part.usd is not None for part in self.parts))


def read(path: Path) -> CostReport:
    """Reads cost.json.

    Raises:
        DataError: It is missing or holds something else.
    """
    return read_json(path, CostReport)


def write(path: Path, report: CostReport) -> None:
    """Writes cost.json, whole or not at all.

    Raises:
        DataError: It cannot be written; the old one is as it was.
    """
    write_json(path, report)
