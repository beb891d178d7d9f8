"""The public function `offers`: nodes to provision, by price and epoch time, and the best for a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.api.offer_choice import JobChoice, OfferSearch, node_pool
from cloudgan.api.offers_report import Epoch, Offer, OffersReport
from cloudgan.api.plan_inputs import batch_rule
from cloudgan.core import ranges
from cloudgan.core.clock import utc_today
from cloudgan.core.errors import ConfigError, PlanError
from cloudgan.cost.accounting.carbon import carbon_g_per_epoch
from cloudgan.cost.estimation.candidates import PricedJob, price_best_batch
from cloudgan.cost.estimation.measured_runs import (
    PAPER_NETWORK,
    PAPER_SHOWERS,
    paper_measurements,
    runs_of_network,
)
from cloudgan.cost.estimation.spot import Preemption
from cloudgan.cost.estimation.throughput_model import build_throughput_model
from cloudgan.cost.prices.discontinued import refuse_missing_accelerator
from cloudgan.cost.prices.price_file import catalog_with
from cloudgan.launch.planning.ranking import RejectedOffer, group_rejected, why_not_sold
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.price_row import STALE_DAYS
from cloudgan.schema.run_folder import find_run_folder

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
    shows_all: bool = False,
    ranked_by: str = "usd",
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
        shows_all: The table has all offers, or the cheapest option of each configuration.
        ranked_by: usd, or carbon for the emissions of an epoch.

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
            all_options=all_options or shows_all,
        )
    priced = [one for one in (price_best_batch(row, 1, speeds, rule) for row in rows) if one]
    if rejected:
        notes.append(
            f"{len(rejected)} offers are left out, as in `plan`: unconfirmed, or for an existing quota only"
        )
    report = _report(priced, speeds, choice, today, notes)
    return report.model_copy(update={"shows_all": shows_all, "ranked_by": ranked_by})


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
        note = f"epochs of the paper: {PAPER_SHOWERS:,} showers, its 51x51x25 network"
        paper = RunConfig()
        speeds = build_throughput_model(PAPER_NETWORK, PAPER_SHOWERS, paper_measurements())
        return speeds, [note], batch_rule(paper)
    folder = find_run_folder(run)
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
            f"{undated + old} of {len(found)} prices may be older than {STALE_DAYS} days:"
            " `cloudgan prices refresh`"
        )
    ranged = [f"{one.offer} {one.price_range}" for one in found if " to " in one.price_range]
    if ranged and choice is None:
        notes += [f"spot price: {one}" for one in ranged[:1]]
    notes.append(
        "USD and time at most; USD with start-up, cluster, disks and lost spot nodes"
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
