"""The public function `offers`: nodes to provision, by price and epoch time, and the best for a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.core import ranges
from cloudgan.core.clock import utc_today
from cloudgan.core.errors import ConfigError, PlanError
from cloudgan.cost.accounting.carbon import COVERS, carbon_g_per_epoch
from cloudgan.cost.estimation.candidates import (
    PricedJob,
    candidates,
    cheapest_per_configuration,
    cheapest_within,
    pareto_front,
    preemption_risk,
    spot_break_even,
)
from cloudgan.cost.estimation.spot import Preemption, checkpoint_interval
from cloudgan.cost.estimation.throughput_model import (
    PAPER_NETWORK,
    PAPER_SHOWERS,
    build_throughput_model,
    paper_measurements,
    price_epochs,
    runs_of_network,
)
from cloudgan.cost.prices.catalog import load_catalog
from cloudgan.reports.table import Table, table_html
from cloudgan.schema import record
from cloudgan.schema.price_row import STALE_DAYS
from cloudgan.schema.run_folder import RunFolder

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cloudgan.cost.estimation.candidates import Candidate
    from cloudgan.cost.estimation.throughput_model import (
        EpochEstimate,
        PricedEpoch,
        ThroughputModel,
    )
    from cloudgan.schema.price_row import Market, PriceRow

_HOUR_SECONDS = 3600
OFFERS_CAPTION = "Offers, one node each, by the upper bound of the cost of an epoch."


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Epoch(_Part):
    """Time of an epoch."""

    seconds: float | None = Field(description="None: no measurement")
    low_seconds: float
    high_seconds: float
    grade: str = Field(description="measured, curve of measured runs, or not measured")
    basis: str


class Offer(_Part):
    """A node type in a region and market, and an epoch on one such node."""

    offer: str = Field(description="cloud/node/region/market")
    provider: str
    node_type: str
    region: str
    market: str
    accelerator: str
    accelerator_count: int
    usd_per_hour: float = Field(description="of the whole node")
    usd_per_accelerator_hour: float | None = Field(description="None: no accelerator")
    source: str
    date: str
    confidence: str = Field(description="A, B or C, as in the catalog; C: not confirmed")
    age_days: int | None = Field(description="of the price; None: undated")
    epoch: Epoch | None = Field(description="None: unknown, see why_unknown")
    usd_per_epoch: float | None
    usd_per_epoch_low: float | None
    usd_per_epoch_high: float | None
    why_unknown: str
    carbon_g_per_epoch: float | None = Field(
        description="upper bound, accelerators only; None: see why_carbon_unknown"
    )
    why_carbon_unknown: str


class JobOption(_Part):
    """An offer and a number of nodes for a job; seconds and usd are upper bounds."""

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
    risk: str = Field(description="of preemptions; empty on demand")
    break_even_losses_per_node_hour: float | None = Field(
        description="preemption rate up to which spot is cheaper; None: on demand, or unknown"
    )
    checkpoint_every_seconds: float | None = Field(description="optimal interval on spot nodes")


class UnknownOffer(_Part):
    """An offer that cannot be ranked."""

    offer: str
    why: str


class JobChoice(_Part):
    """The best options for a job of a number of epochs."""

    epochs: int
    deadline_seconds: float | None
    budget_usd: float | None
    assumed: dict[str, float] = Field(description="preemptions of spot nodes, not measured")
    considered: int = Field(description="offers times numbers of nodes")
    chosen: JobOption | None
    why_none: str
    pareto_front: tuple[JobOption, ...] = Field(
        description="no other option is both faster and cheaper"
    )
    options: tuple[JobOption, ...] = Field(
        description="the cheapest per accelerator, number of nodes and market; with --report"
    )
    unknown: tuple[UnknownOffer, ...]


class OffersReport(_Part):
    """Offers, and the best options for a job."""

    network: str
    showers: int
    measured_runs: tuple[str, ...]
    notes: tuple[str, ...]
    offers: tuple[Offer, ...]
    choice: JobChoice | None

    def table(self, most: int = 30) -> Table:
        """Returns the Pareto front of a job, else the cheapest offers.

        Args:
            most: Maximum number of offers.
        """
        return _front_table(self.choice) if self.choice else _offers_table(self.offers, most)

    def carbon_table(self, most: int = 30) -> Table:
        """Returns the emissions of an epoch on each offer, the lowest first, unknown ones last."""
        ranked = sorted(
            self.offers,
            key=lambda one: (one.carbon_g_per_epoch is None, one.carbon_g_per_epoch or 0.0),
        )
        rows = tuple(
            (
                one.offer,
                f"{one.accelerator_count} x {one.accelerator}",
                one.carbon_g_per_epoch,
                one.usd_per_epoch_high,
                one.why_carbon_unknown,
            )
            for one in ranked[:most]
        )
        heads = ("offer", "accelerators", "g CO2e/epoch", "USD/epoch", "why unknown")
        return Table(heads, rows, f"Upper bounds. Carbon of {COVERS}.", "llrrl")

    def _repr_html_(self) -> str:
        return table_html(self.table())


def offers(
    *,
    accelerator: str | None = None,
    provider: str | None = None,
    region: str | None = None,
    market: Market | None = None,
    epochs: int | None = None,
    max_hours: float | None = None,
    budget_usd: float | None = None,
    run: str | Path | None = None,
    measured: bool = False,
    preemption: Preemption = Preemption(),  # noqa: B008  immutable
    all_options: bool = False,
) -> OffersReport:
    """Returns offers by the cost of an epoch; with `epochs` also the best options for a job.

    Throughput is that of measured runs: the paper's, or with `run` your own. Without a measurement
    it is an interval between the limits of memory bandwidth and arithmetic, and its lower bound
    ranks.

    Args:
        accelerator: Such as "h100" or "A100-80GB".
        provider: Cloud.
        region: Such as "us-central1".
        market: on_demand or spot.
        epochs: Epochs of the job.
        max_hours: Deadline of the job.
        budget_usd: Maximum cost of the job.
        run: Folder of a run whose throughput and network are used.
        measured: Only accelerators with a measured throughput of this network.
        preemption: Assumed preemptions of spot nodes.
        all_options: Include the cheapest option of each configuration.

    Raises:
        ConfigError: A value is not valid.
        PlanError: No offer matches.
    """
    flags = {"per_node_hour": "losses_per_node_hour"}
    ranges.check(**{flags.get(name, name): value for name, value in preemption._asdict().items()})
    _check_limits(epochs, max_hours, budget_usd)
    catalog, today = load_catalog(), utc_today()
    rows = catalog.find(accelerator=accelerator, provider=provider, region=region, market=market)
    if not rows:
        given = " ".join(str(one) for one in (provider, accelerator, region, market) if one)
        raise PlanError(
            f"no current price matches {given} together; omit one of them, or run `cloudgan prices"
            " refresh`"
        )
    speeds, notes = _throughput(run)
    if measured:
        rows = _only_measured(rows, speeds)
    choice = None
    if epochs is not None:
        limits = (None if max_hours is None else max_hours * _HOUR_SECONDS, budget_usd)
        choice = _choose(
            rows,
            speeds,
            PricedJob(epochs, preemption),
            limits,
            on_demand={row.offer: row.usd_per_hour for row in catalog.find(market="on_demand")},
            today=today,
            all_options=all_options,
        )
    return _report(price_epochs(rows, speeds), speeds, choice, today, notes)


def _check_limits(epochs: int | None, max_hours: float | None, budget_usd: float | None) -> None:
    ranges.check(epochs=epochs, max_hours=max_hours, budget_usd=budget_usd)
    for flag, value in (("--max-hours", max_hours), ("--budget-usd", budget_usd)):
        if value is not None and epochs is None:
            raise ConfigError(f"{flag} limits a job; give its length, such as --epochs=60")


def _throughput(run: str | Path | None) -> tuple[ThroughputModel, list[str]]:
    """The throughput model, and notes about it."""
    if run is None:
        note = f"an epoch is the paper's: {PAPER_SHOWERS:,} showers, its 51x51x25 network"
        return build_throughput_model(PAPER_NETWORK, PAPER_SHOWERS, paper_measurements()), [note]
    folder = RunFolder(run)
    config, lines = folder.read_config(), record.read(folder.record_file)
    started = lines.started()
    if config is None or started is None:
        raise ConfigError(
            f"--run={run} has no run.yaml, or no start in its record; give the folder of a run"
        )
    found, why = runs_of_network(folder.path.name, lines, config.model.networks)
    notes = [f"throughput of the run not used: {why}"] if why else []
    return build_throughput_model(config.model.networks, started.training_showers, found), notes


def _only_measured(rows: Sequence[PriceRow], speeds: ThroughputModel) -> tuple[PriceRow, ...]:
    names = {run.accelerator for run in speeds.measured}
    kept = tuple(row for row in rows if row.accelerator in names)
    if not kept:
        known = ", ".join(sorted(names)) or "none"
        raise PlanError(f"none of these offers has a measured throughput; measured: {known}")
    return kept


def _choose(
    rows: Sequence[PriceRow],
    speeds: ThroughputModel,
    job: PricedJob,
    limits: tuple[float | None, float | None],
    *,
    on_demand: Mapping[str, float],
    today: dt.date,
    all_options: bool,
) -> JobChoice:
    found = candidates(rows, speeds, job)
    why, chosen = "", None
    try:
        chosen = cheapest_within(found.known, *limits)
    except PlanError as error:
        why = str(error)
    every = cheapest_per_configuration(found.known) if all_options else ()

    def option(one: Candidate) -> JobOption:
        return _job_option(one, job, on_demand, today)

    return JobChoice(
        epochs=job.epochs,
        deadline_seconds=limits[0],
        budget_usd=limits[1],
        assumed=job.preemption._asdict(),
        considered=len(found.known),
        chosen=option(chosen) if chosen else None,
        why_none=why,
        pareto_front=tuple(map(option, pareto_front(found.known))),
        options=tuple(map(option, every)),
        unknown=tuple(UnknownOffer(offer=row.offer, why=reason) for row, reason in found.unknown),
    )


def _report(
    priced: Sequence[PricedEpoch],
    speeds: ThroughputModel,
    choice: JobChoice | None,
    today: dt.date,
    notes: list[str],
) -> OffersReport:
    found = sorted(
        (_offer(one, today) for one in priced),
        key=lambda one: (one.usd_per_epoch_high is None, one.usd_per_epoch_high, one.usd_per_hour),
    )
    undated = sum(one.age_days is None for one in found)
    old = sum(one.age_days is not None and one.age_days > STALE_DAYS for one in found)
    if undated or old:
        notes.append(
            f"of {len(found)} prices, {undated} are undated and {old} older than {STALE_DAYS} days;"
            " `cloudgan prices refresh` fetches current ones"
        )
    notes.append("not included: startup of nodes, download of data, storage and traffic")
    return OffersReport(
        network=speeds.network,
        showers=speeds.showers,
        measured_runs=tuple(run.name for run in speeds.measured),
        notes=tuple(notes),
        offers=tuple(found),
        choice=choice,
    )


def _offer(priced: PricedEpoch, today: dt.date) -> Offer:
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


def _job_option(
    one: Candidate, job: PricedJob, on_demand: Mapping[str, float], today: dt.date
) -> JobOption:
    other = on_demand.get(one.row.model_copy(update={"market": "on_demand"}).offer)
    is_spot = one.row.market == "spot"
    interval = checkpoint_interval(job.preemption, one.nodes) if is_spot else None
    return JobOption(
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
        risk=preemption_risk(one, job),
        break_even_losses_per_node_hour=(
            spot_break_even(one, other, job) if is_spot and other else None
        ),
        checkpoint_every_seconds=interval if interval != float("inf") else None,
    )


def _epoch(epoch: EpochEstimate) -> Epoch:
    return Epoch(
        seconds=epoch.seconds,
        low_seconds=epoch.low_seconds,
        high_seconds=epoch.high_seconds,
        grade=epoch.grade,
        basis=epoch.basis,
    )


def _offers_table(found: tuple[Offer, ...], most: int) -> Table:
    rows = tuple(
        (
            one.offer,
            f"{one.accelerator_count} x {one.accelerator}",
            one.usd_per_hour,
            _range(one.epoch.low_seconds, one.epoch.high_seconds) if one.epoch else None,
            _range(one.usd_per_epoch_low, one.usd_per_epoch_high),
            one.epoch.grade if one.epoch else "no measurement, no specifications",
            price_age(one),
        )
        for one in found[:most]
    )
    omitted = len(found) - len(rows)
    more = f" {omitted} more are omitted; --json and --report have all." if omitted else ""
    heads = ("offer", "accelerators", "USD/h", "s/epoch", "USD/epoch", "throughput", "price of")
    return Table(heads, rows, f"{OFFERS_CAPTION}{more}", "llrrrll")


def _front_table(choice: JobChoice) -> Table:
    rows = tuple(
        (
            option.nodes,
            option.offer,
            _range(option.low_seconds / _HOUR_SECONDS, option.seconds / _HOUR_SECONDS),
            _range(option.low_usd, option.usd),
            option.grade,
        )
        for option in choice.pareto_front
    )
    heads = ("nodes", "offer", "hours", "USD", "throughput")
    return Table(heads, rows, front_caption(choice), "rlrrl")


def front_caption(choice: JobChoice) -> str:
    """Returns the caption of a Pareto front."""
    return (
        f"Pareto front for {choice.epochs} epochs: none of {choice.considered} options is both"
        " faster and cheaper, by upper bounds."
    )


def price_age(one: Offer) -> str:
    """Returns the age of an offer's price."""
    text = "undated" if one.age_days is None else f"{one.age_days} days ago"
    return f"{text}, not confirmed" if one.confidence == "C" else text


def _range(low: float | None, high: float | None) -> str | None:
    if low is None or high is None:
        return None
    return f"{high:.4g}" if low == high else f"{low:.3g} to {high:.3g}"
