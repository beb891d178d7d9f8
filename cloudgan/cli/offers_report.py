"""What `cloudgan offers --json` says: one model, from which tables and pages are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.cost.carbon import carbon_g_per_epoch
from cloudgan.cost.choice import risk_of, spot_break_even
from cloudgan.cost.spot import checkpoint_interval

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from cloudgan.cost.choice import Candidate, Job
    from cloudgan.cost.elsewhere import EpochTime
    from cloudgan.cost.elsewhere_price import PricedElsewhere


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Epoch(_Part):
    """The time of an epoch."""

    seconds: float | None = Field(description="None: nothing was measured there")
    low_seconds: float
    high_seconds: float
    grade: str = Field(description="measured, curve of measured runs, or not measured")
    basis: str


class Offer(_Part):
    """A node that can be rented, and an epoch on one of it."""

    offer: str = Field(description="cloud/node/region/market")
    provider: str
    node_type: str
    region: str
    market: str
    accelerator: str
    accelerator_count: int
    usd_per_hour: float = Field(description="of the whole node")
    usd_per_accelerator_hour: float | None = Field(description="None: it has no accelerator")
    source: str
    date: str
    confidence: str = Field(description="A, B or C, as in the catalogue; C: not confirmed")
    age_days: int | None = Field(description="of the price; None: undated")
    epoch: Epoch | None = Field(description="None: unknown, see why_unknown")
    usd_per_epoch: float | None
    usd_per_epoch_low: float | None
    usd_per_epoch_high: float | None
    why_unknown: str
    carbon_g_per_epoch: float | None = Field(
        description="at the slow edge, of the accelerators alone; None: see why_carbon_unknown"
    )
    why_carbon_unknown: str


class Way(_Part):
    """A way to do the job; seconds and usd are at the slow edge of what is known."""

    offer: str
    nodes: int
    accelerators: int
    low_seconds: float
    seconds: float
    low_usd: float
    usd: float
    grade: str
    basis: str
    age_days: int | None
    risk: str = Field(description="of losing spot nodes; empty on demand")
    break_even_losses_per_node_hour: float | None = Field(
        description="up to which spot is cheaper; None: on demand, or its price is unknown there"
    )
    checkpoint_every_seconds: float | None = Field(description="best interval on spot nodes")


class Unknown(_Part):
    """An offer that is no candidate."""

    offer: str
    why: str


class Choice(_Part):
    """How to do a job of so many epochs."""

    epochs: int
    deadline_seconds: float | None
    budget_usd: float | None
    assumed: dict[str, float] = Field(description="of spot nodes; nobody measured these")
    considered: int = Field(description="offers times numbers of nodes")
    chosen: Way | None
    why_none: str
    front: tuple[Way, ...] = Field(description="nothing else is both faster and cheaper")
    ways: tuple[Way, ...] = Field(
        description="the cheapest of each accelerator, number of nodes and market; with --report"
    )
    unknown: tuple[Unknown, ...]


class OffersReport(_Part):
    """All of it."""

    network: str
    showers: int
    measured_runs: tuple[str, ...]
    notes: tuple[str, ...]
    offers: tuple[Offer, ...]
    choice: Choice | None


def offer_of(priced: PricedElsewhere, today: dt.date) -> Offer:
    """Describes an offer."""
    row = priced.row
    count = row.accelerator_count
    seconds = priced.epoch.high_seconds if priced.epoch else None
    carbon = carbon_g_per_epoch(row, seconds, priced.nodes or 1)
    return Offer(
        offer=row.offer,
        provider=row.provider,
        node_type=row.node_type,
        region=row.region,
        market=row.market,
        accelerator=row.accelerator,
        accelerator_count=count,
        usd_per_hour=row.usd_per_hour,
        usd_per_accelerator_hour=row.usd_per_hour / count if count else None,
        source=row.source,
        date=row.date,
        confidence=row.confidence,
        age_days=row.age_days(today),
        epoch=_epoch(priced.epoch) if priced.epoch else None,
        usd_per_epoch=priced.usd,
        usd_per_epoch_low=priced.usd_low,
        usd_per_epoch_high=priced.usd_high,
        why_unknown=priced.why_unknown,
        carbon_g_per_epoch=carbon.grams,
        why_carbon_unknown=carbon.why_unknown,
    )


def way_of(one: Candidate, job: Job, on_demand: Mapping[str, float], today: dt.date) -> Way:
    """Describes a candidate; `on_demand` is USD per hour by the offer's name."""
    other = on_demand.get(one.row.model_copy(update={"market": "on_demand"}).offer)
    is_spot = one.row.market == "spot"
    interval = checkpoint_interval(job.preemption, one.nodes) if is_spot else None
    return Way(
        offer=one.row.offer,
        nodes=one.nodes,
        accelerators=one.nodes * one.row.accelerator_count,
        low_seconds=one.low_seconds,
        seconds=one.seconds,
        low_usd=one.low_usd,
        usd=one.usd,
        grade=one.epoch.grade,
        basis=one.epoch.basis,
        age_days=one.row.age_days(today),
        risk=risk_of(one, job),
        break_even_losses_per_node_hour=(
            spot_break_even(one, other, job) if is_spot and other else None
        ),
        checkpoint_every_seconds=interval if interval != float("inf") else None,
    )


def _epoch(epoch: EpochTime) -> Epoch:
    return Epoch(
        seconds=epoch.seconds,
        low_seconds=epoch.low_seconds,
        high_seconds=epoch.high_seconds,
        grade=epoch.grade,
        basis=epoch.basis,
    )
