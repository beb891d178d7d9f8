"""The command `offers`: nodes to provision, by price and epoch time, and the best for a job."""

from __future__ import annotations

from collections.abc import Sequence

from cloudgan.core.clock import utc_today
from cloudgan.core.command import command
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import ConfigError, PlanError, counted
from cloudgan.core.machines import refuse_missing_accelerator
from cloudgan.launch.operations.offer_choice import choose_offers
from cloudgan.launch.operations.offers_report import OffersReport
from cloudgan.launch.plan.candidates import (
    group_rejected,
    usual_node_pool,
    why_not_sold,
)
from cloudgan.launch.plan.launch_job import batch_rule
from cloudgan.money.carbon import carbon_g_per_epoch
from cloudgan.money.price_file import catalog_with
from cloudgan.schema import record
from cloudgan.schema.candidate import Candidate
from cloudgan.schema.config import RunConfig, parse_config
from cloudgan.schema.options.money import OffersOptions
from cloudgan.schema.price_row import STALE_DAYS, PriceRow
from cloudgan.schema.run_folder import find_run_folder
from cloudgan.speed.candidates import BatchRule, PricedJob, best_batch, price_epoch
from cloudgan.speed.measured import PAPER_SHOWERS, measured_run
from cloudgan.speed.model import ThroughputModel
from cloudgan.speed.network import throughput_model
from cloudgan.speed.spot import Preemption


@command
def offers(options: OffersOptions) -> OffersReport:
    """Returns offers by the cost of an epoch; with `epochs` also the best options for a job.

    Offers that no account can get are left out, and the choice is that of `plan`.

    Raises:
        PlanError: No offer matches, or none meets the limits.
    """
    accelerator, provider, region = options.accelerator, options.provider, options.region
    market, epochs, max_hours = options.market, options.epochs, options.max_hours
    preemption = Preemption(
        options.losses_per_node_hour, options.restart_seconds, options.checkpoint_seconds
    )
    catalog, today = catalog_with(options.price_file), utc_today()
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
    speeds, notes, rule = _throughput(options)
    if options.measured:
        rows = _only_measured(rows, speeds)
    choice = None
    if epochs is not None:
        spot = (
            catalog.find(accelerator=accelerator, provider=provider, region=region, market="spot")
            if market == "on_demand"
            else ()
        )
        choice = choose_offers(
            rows,
            speeds,
            PricedJob(epochs, preemption, rule),
            (None if max_hours is None else max_hours * HOUR_SECONDS, options.budget_usd),
            named=named,
            rejected=rejected,
            on_demand={row.offer: row.usd_per_hour for row in catalog.find(market="on_demand")},
            other_market=_sold(spot, named)[0] if spot else (),
            all_options=options.all or options.report is not None,
        )
    batches = ((row, best_batch(row, 1, speeds, rule)) for row in rows)
    priced = [price_epoch(row, 1, speeds, batch) for row, batch in batches if batch is not None]
    if rejected:
        notes.append(
            f"{counted(len(rejected), 'offer is', 'offers are')} left out, as in `plan`; -v says why"
        )
    found = sorted(map(_with_carbon, priced), key=lambda one: (one.usd, one.row.usd_per_hour))
    if not (choice.considered if choice else found):
        raise _no_batch_fits(len(rows), is_job=choice is not None)
    if options.carbon:
        found.sort(key=lambda one: (one.carbon_g is None, one.carbon_g or 0.0))
    if old := sum(one.row.is_stale(today) for one in found):
        notes.append(
            f"{old} of {counted(len(found), 'price')} may be older than {STALE_DAYS} days:"
            " `cloudgan prices refresh`"
        )
    if choice is None and " to " in (text := found[0].row.range_text):
        notes.append(f"spot price: {found[0].row.offer} {text}")
    notes.append(
        "at most: USD with start-up, staging, cluster, disks; both with lost spot nodes"
        if choice
        else "not included: startup of nodes, download of data, storage and traffic"
    )
    return OffersReport(
        day=today,
        network=speeds.network,
        showers=speeds.showers,
        measured_runs=tuple(run.name for run in speeds.measured),
        notes=tuple(notes),
        offers=tuple(found),
        choice=choice,
        left_out=group_rejected(rejected),
        price_file=options.price_file,
        shows_all=options.all,
        ranked_by="carbon" if options.carbon else "usd",
    )


def _sold(
    rows: Sequence[PriceRow], named: frozenset[str]
) -> tuple[tuple[PriceRow, ...], tuple[Candidate, ...]]:
    """The offers that an account can get, and the others with the reason.

    Raises:
        PlanError: There is none.
    """
    found = [Candidate(row=row, why_not=why_not_sold(row, named, usual_node_pool)) for row in rows]
    rejected = tuple(one for one in found if one.why_not)
    kept = tuple(one.row for one in found if not one.why_not)
    if not kept:
        reasons = "; ".join(group.reason for group in group_rejected(rejected))
        raise PlanError(f"none of {counted(len(rows), 'offer')} can be provisioned: {reasons}")
    return kept, rejected


def _throughput(options: OffersOptions) -> tuple[ThroughputModel, list[str], BatchRule]:
    """The throughput model, notes about it, and the possible batches."""
    run, showers = options.run, options.showers or PAPER_SHOWERS
    if run is None:
        planned = parse_config({"model": {"preset": options.preset}}, f"--preset={options.preset}")
        whose = " of the paper" if showers == PAPER_SHOWERS else ""
        note = f"epochs{whose}: {_size_of(planned, showers)}"
        return throughput_model(planned, showers), [note], batch_rule(planned)
    folder = find_run_folder(run)
    config, lines = folder.read_config(), record.read(folder.record_file)
    started = lines.started()
    if config is None or started is None:
        raise ConfigError(
            f"--run={run} has no run.yaml, or no start in its record; give the folder of a run"
        )
    own = measured_run(folder.path.name, lines)
    showers = options.showers or started.training_showers
    whose = "" if options.showers else f" of {folder.path.name}"
    notes = [f"epochs{whose}: {_size_of(config, showers)}"]
    notes += [f"throughput of the run not used: {own}"] if isinstance(own, str) else []
    speeds = throughput_model(config, showers, folder)
    return speeds, notes, batch_rule(config)


def _no_batch_fits(offers: int, *, is_job: bool) -> PlanError:
    which = "no number of nodes" if is_job else "no single node"
    more = "" if is_job else "; give --epochs=N: the nodes of a job share it"
    of = counted(offers, "offer")
    return PlanError(f"{which} of {of} holds the global batch, divided evenly{more}")


def _size_of(config: RunConfig, showers: int) -> str:
    cells = "x".join(map(str, config.model.image_shape))
    return f"{counted(showers, 'shower')}; networks {config.model.network_name}, {cells} cells"


def _only_measured(rows: Sequence[PriceRow], speeds: ThroughputModel) -> tuple[PriceRow, ...]:
    names = {run.accelerator for run in speeds.measured}
    kept = tuple(row for row in rows if row.accelerator in names)
    if not kept:
        known = ", ".join(sorted(names)) or "none"
        raise PlanError(
            f"none of these offers has a measured throughput; measured: {known}. Omit --measured, or give"
            " --run, a run of these networks on a node"
        )
    return kept


def _with_carbon(one: Candidate) -> Candidate:
    carbon = carbon_g_per_epoch(one.row, one.high_seconds, one.nodes)
    known = {"carbon_g": carbon.grams, "why_carbon_unknown": carbon.why_unknown}
    return one.model_copy(update=known)
