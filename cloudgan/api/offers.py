"""The public function `offers`: nodes to provision, by price and epoch time, and the best for a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.api.offer_choice import JobChoice, JobOption, OfferSearch, node_pool
from cloudgan.api.plan_inputs import batch_rule
from cloudgan.core import ranges
from cloudgan.core.clock import utc_today
from cloudgan.core.errors import ConfigError, PlanError
from cloudgan.cost.accounting.carbon import COVERS, carbon_g_per_epoch
from cloudgan.cost.estimation.candidates import PricedJob, price_best_batch
from cloudgan.cost.estimation.measured_runs import (
    PAPER_NETWORK,
    PAPER_SHOWERS,
    paper_measurements,
    runs_of_network,
)
from cloudgan.cost.estimation.spot import ASSUMED, Preemption
from cloudgan.cost.estimation.throughput_model import build_throughput_model
from cloudgan.cost.prices.discontinued import refuse_missing_accelerator
from cloudgan.cost.prices.price_file import catalog_with
from cloudgan.launch.planning.ranking import RejectedOffer, group_rejected, why_not_sold
from cloudgan.reports.table import Table, table_html
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.price_row import STALE_DAYS
from cloudgan.schema.run_folder import RunFolder

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from cloudgan.cost.estimation.candidates import BatchRule
    from cloudgan.cost.estimation.throughput_model import (
        EpochEstimate,
        PricedEpoch,
        ThroughputModel,
    )
    from cloudgan.schema.price_row import Market, PriceRow

_HOUR_SECONDS = 3600
_MOST_RANGES = 3
MOST_ROWS = 8
OFFERS_CAPTION = "Offers, one node each, by the upper bound of the cost of an epoch."


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Epoch(_Part):
    """Time of an epoch."""

    seconds: float | None = Field(description="None: no measurement")
    low_seconds: float
    high_seconds: float
    grade: str = Field(description="measured or modelled")
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
    price_range: str = Field(description="of the spot price; empty: one reading is known")
    batch: float = Field(description="showers per replica and step")
    usd_per_accelerator_hour: float | None = Field(description="None: no accelerator")
    source: str
    date: str
    confidence: str = Field(description="A, B or C, as in the catalog; C: not confirmed")
    age_days: int | None = Field(description="of the price; None: undated")
    is_age_bound: bool = Field(description="whether the price may be younger: its date is a bound")
    epoch: Epoch | None = Field(description="None: unknown, see why_unknown")
    usd_per_epoch: float | None
    usd_per_epoch_low: float | None
    usd_per_epoch_high: float | None
    why_unknown: str
    carbon_g_per_epoch: float | None = Field(
        description="upper bound, accelerators only; None: see why_carbon_unknown"
    )
    why_carbon_unknown: str


class OffersReport(_Part):
    """Offers, and the best options for a job."""

    network: str
    showers: int
    measured_runs: tuple[str, ...]
    notes: tuple[str, ...]
    offers: tuple[Offer, ...]
    choice: JobChoice | None

    def table(self, most: int = 8) -> Table:
        """Returns the best options of a job, else the cheapest offers.

        Args:
            most: Maximum number of offers; more than eight show every configuration of a job.
        """
        if self.choice is None:
            return _offers_table(self.offers, most)
        if most > MOST_ROWS and self.choice.options:
            return _options_table(self.choice, self.choice.options)
        return _options_table(self.choice, self.choice.rows)

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
    price_file: str | Path | None = None,
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
        price_file: File with the prices of your own nodes, which are listed too.
        measured: Only accelerators with a measured throughput of this network.
        preemption: Of spot nodes; without a rate, that of public traces or else an assumed one.
        all_options: Include the cheapest option of each configuration.

    Offers that no account can get are left out, and the choice is that of `plan`.

    Raises:
        ConfigError: A value is not valid.
        PlanError: No offer matches, or none can be provisioned.
    """
    flags = {"per_node_hour": "losses_per_node_hour"}
    ranges.check(**{flags.get(name, name): value for name, value in preemption._asdict().items()})
    _check_limits(epochs, max_hours, budget_usd)
    catalog, today = catalog_with(Path(price_file) if price_file else None), utc_today()
    rows = catalog.find(accelerator=accelerator, provider=provider, region=region, market=market)
    if not rows:
        if accelerator:
            refuse_missing_accelerator(provider, accelerator.partition(":")[0], None)
        given = " ".join(str(one) for one in (provider, accelerator, region, market) if one)
        hint = catalog.region_hint(provider, [region])
        hint += catalog.count_hint(provider, accelerator) if accelerator else ""
        raise PlanError(
            f"no current price matches {given} together.{hint} Omit one of them, or run `cloudgan prices"
            " refresh`"
        )
    named = frozenset(row.accelerator for row in rows) if accelerator else frozenset()
    rows, rejected = _sold(rows, named)
    speeds, notes, rule = _throughput(run)
    if measured:
        rows = _only_measured(rows, speeds)
    choice = None
    if epochs is not None:
        limits = (None if max_hours is None else max_hours * _HOUR_SECONDS, budget_usd)
        search = OfferSearch(speeds, PricedJob(epochs, preemption, rule), named, limits, today)
        spot = (
            catalog.find(accelerator=accelerator, provider=provider, region=region, market="spot")
            if market == "on_demand"
            else ()
        )
        found = search.find(rows)
        choice = search.choose(
            found._replace(rejected=(*rejected, *found.rejected)),
            {row.offer: row.usd_per_hour for row in catalog.find(market="on_demand")},
            _sold(spot, named)[0] if spot else (),
            all_options=all_options,
        )
    priced = [one for one in (price_best_batch(row, 1, speeds, rule) for row in rows) if one]
    if rejected:
        notes.append(
            f"{len(rejected)} offers are left out, as `plan` does: unconfirmed, only with an own image, or only"
            " for an existing quota (--accelerator=NAME includes the last)"
        )
    return _report(priced, speeds, choice, today, notes)


def _sold(
    rows: Sequence[PriceRow], named: frozenset[str]
) -> tuple[tuple[PriceRow, ...], tuple[RejectedOffer, ...]]:
    """The offers that an account can get, and the others with the reason.

    Raises:
        PlanError: There is none.
    """
    why = {row.offer: why_not_sold(row, named, node_pool) for row in rows}
    rejected = tuple(RejectedOffer(offer, reason) for offer, reason in why.items() if reason)
    kept = tuple(row for row in rows if not why[row.offer])
    if not kept:
        reasons = "; ".join(group.reason for group in group_rejected(rejected))
        raise PlanError(f"none of these {len(rows)} offers can be provisioned: {reasons}")
    return kept, rejected


def _check_limits(epochs: int | None, max_hours: float | None, budget_usd: float | None) -> None:
    ranges.check(epochs=epochs, max_hours=max_hours, budget_usd=budget_usd)
    for flag, value in (("--max-hours", max_hours), ("--budget-usd", budget_usd)):
        if value is not None and epochs is None:
            raise ConfigError(f"{flag} limits a job; give its length, such as --epochs=60")


def _throughput(run: str | Path | None) -> tuple[ThroughputModel, list[str], BatchRule]:
    """The throughput model, notes about it, and the possible batches."""
    if run is None:
        note = f"an epoch is the paper's: {PAPER_SHOWERS:,} showers, its 51x51x25 network"
        paper = RunConfig()
        speeds = build_throughput_model(PAPER_NETWORK, PAPER_SHOWERS, paper_measurements())
        return speeds, [note], batch_rule(paper)
    folder = RunFolder(run)
    config, lines = folder.read_config(), record.read(folder.record_file)
    started = lines.started()
    if config is None or started is None:
        raise ConfigError(
            f"--run={run} has no run.yaml, or no start in its record; give the folder of a run"
        )
    found, why = runs_of_network(folder.path.name, lines, config.model.network_name)
    notes = [f"throughput of the run not used: {why}"] if why else []
    speeds = build_throughput_model(config.model.network_name, started.training_showers, found)
    return speeds, notes, batch_rule(config)


def _only_measured(rows: Sequence[PriceRow], speeds: ThroughputModel) -> tuple[PriceRow, ...]:
    names = {run.accelerator for run in speeds.measured}
    kept = tuple(row for row in rows if row.accelerator in names)
    if not kept:
        known = ", ".join(sorted(names)) or "none"
        raise PlanError(f"none of these offers has a measured throughput; measured: {known}")
    return kept


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
            f"of {len(found)} prices, {undated} are undated and {old} are or may be older than"
            f" {STALE_DAYS} days; `cloudgan prices refresh` fetches current ones"
        )
    ranged = [f"{one.offer} {one.price_range}" for one in found if " to " in one.price_range]
    if ranged and choice is None:
        notes.append(f"spot prices move: {'; '.join(ranged[:_MOST_RANGES])}")
    notes.append(
        "USD include start-up, cluster, disks and lost spot nodes; hours are those of the training"
        if choice
        else "not included: startup of nodes, download of data, storage and traffic"
    )
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
        price_range=row.range_text,
        batch=priced.batch,
        usd_per_accelerator_hour=row.usd_per_hour / count if count else None,
        source=row.source,
        date=row.date,
        confidence=row.confidence,
        age_days=row.age_days(today),
        is_age_bound=row.has_earliest_date,
        epoch=_epoch(priced.epoch) if priced.epoch else None,
        usd_per_epoch=priced.usd,
        usd_per_epoch_low=priced.usd_low,
        usd_per_epoch_high=priced.usd_high,
        why_unknown=priced.why_unknown,
        carbon_g_per_epoch=carbon.grams,
        why_carbon_unknown=carbon.why_unknown,
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
    folded: dict[tuple[object, ...], list[Offer]] = {}
    for one in found:
        folded.setdefault((one.provider, one.node_type, one.market, one.usd_per_hour), []).append(
            one
        )
    rows = tuple(
        (
            one.node_type,
            _place(one.offer, tuple(other.region for other in its)),
            f"{one.accelerator_count} x {one.accelerator}",
            one.usd_per_hour,
            f"{one.batch:g}" if one.epoch else None,
            _range(one.epoch.low_seconds, one.epoch.high_seconds) if one.epoch else None,
            _range(one.usd_per_epoch_low, one.usd_per_epoch_high),
            one.epoch.grade if one.epoch else "unknown",
            price_age(one),
        )
        for its in list(folded.values())[:most]
        for one in its[:1]
    )
    omitted = len(folded) - len(rows)
    more = f" {omitted} more are omitted; --all, --json and --report have all." if omitted else ""
    heads = (
        "nodes",
        "place",
        "GPU, TPU",
        "USD/h",
        "batch",
        "s/epoch",
        "USD/epoch",
        "time",
        "price",
    )
    return Table(heads, rows, f"{OFFERS_CAPTION}{more}", "lllrrrrll")


def _options_table(choice: JobChoice, options: tuple[JobOption, ...]) -> Table:
    rows = tuple(
        (
            ", ".join((*one.best_for, one.grade)),
            f"{one.nodes} x {one.offer.split('/')[1]}",
            _place(one.offer, one.regions),
            f"{one.batch:g}",
            one.global_batch,
            f"{one.seconds / _HOUR_SECONDS:.3g}",
            f"{one.usd:.4g}",
            _days(one, "d"),
            f"{'~' if one.losses_basis == ASSUMED else ''}{one.interruption:.0%}",
        )
        for one in sorted(options, key=lambda one: 0 if one.best_for else one.usd)
    )
    heads = ("best", "nodes", "place", "batch", "global", "hours", "USD", "price", "taken")
    caption = (
        f"{choice.epochs} epochs; hours and USD at most, of {choice.considered} options. batch: showers"
        " per replica; global: of all replicas;\nprice: its age (≤: at most); taken: chance that the cloud"
        " takes a node (~: assumed rate)."
    )
    return Table(heads, rows, caption, "lllrrrrrr")


def _place(offer: str, regions: tuple[str, ...]) -> str:
    """Returns such as ``aws us-east-1 +2, spot``."""
    provider, *_, market = offer.split("/")
    more = f" +{len(regions) - 1}" if len(regions) > 1 else ""
    return f"{provider} {regions[0]}{more}, {market.replace('_', ' ')}"


def front_caption(choice: JobChoice) -> str:
    """Returns the caption of a Pareto front."""
    return (
        f"Pareto front for {choice.epochs} epochs: none of {choice.considered} options is both"
        " faster and cheaper, by upper bounds."
    )


def price_age(one: Offer) -> str:
    """Returns the age of an offer's price."""
    text = _days(one, "days ago")
    return f"{text}, not confirmed" if one.confidence == "C" else text


def _days(one: Offer | JobOption, unit: str) -> str:
    if one.age_days is None:
        return "undated"
    return f"{'≤' if one.is_age_bound else ''}{one.age_days} {unit}"


def _range(low: float | None, high: float | None) -> str | None:
    if low is None or high is None:
        return None
    return f"{high:.4g}" if low == high else f"{low:.3g} to {high:.3g}"
