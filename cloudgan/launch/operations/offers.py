"""The command `offers`: nodes to provision, by price and epoch time, and the best for a job."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cloudgan.core.clock import utc_today
from cloudgan.core.command import command
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import BudgetError, ConfigError, PlanError, counted
from cloudgan.core.machines import refuse_missing_accelerator
from cloudgan.launch.operations.offers_report import JobChoice, OffersReport
from cloudgan.launch.plan.candidates import (
    OfferConstraints,
    Ranking,
    batch_reason,
    group_rejected,
    usable_options,
    usual_node_pool,
    why_not_sold,
)
from cloudgan.launch.plan.launch_job import batch_rule
from cloudgan.money.carbon import carbon_g_per_epoch
from cloudgan.money.catalog import Catalog
from cloudgan.money.fees import load_fees
from cloudgan.money.forecast import JobContext, load_startup_times
from cloudgan.money.price_file import catalog_with
from cloudgan.schema import record
from cloudgan.schema.candidate import Candidate, SpotRisk
from cloudgan.schema.config import RunConfig, parse_config
from cloudgan.schema.options.money import OffersOptions
from cloudgan.schema.price_row import STALE_DAYS, PriceRow
from cloudgan.schema.run_folder import find_run_folder
from cloudgan.speed.candidates import (
    BatchRule,
    PricedJob,
    best_batch,
    cheapest_per_configuration,
    cheapest_within,
    pareto_front,
    price_epoch,
    smallest_changes,
)
from cloudgan.speed.measured import PAPER_SHOWERS, measured_run
from cloudgan.speed.model import ThroughputModel
from cloudgan.speed.network import throughput_model
from cloudgan.speed.spot import Preemption, break_even, checkpoint_interval, describe_risk

_MOST_ROWS = 8
Limits = tuple[float | None, float | None]
"""Seconds and USD of a job; None: no limit."""


@command
def offers(options: OffersOptions) -> OffersReport:
    """Returns offers by the cost of an epoch; with `epochs` also the best options for a job.

    Offers that no account can get are left out, and the choice is that of `plan`.

    Raises:
        PlanError: No offer matches, or none meets the limits.
    """
    accelerator, provider, region = options.accelerator, options.provider, options.region
    market, epochs = options.market, options.epochs
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
        names = {run.accelerator for run in speeds.measured}
        rows = tuple(row for row in rows if row.accelerator in names)
        if not rows:
            known = ", ".join(sorted(names)) or "none"
            raise PlanError(
                f"none of these offers has a measured throughput; measured: {known}. Omit --measured, or give"
                " --run, a run of these networks on a node"
            )
    choice = None
    if epochs is not None:
        choice = _choose(
            options,
            epochs,
            rule,
            rows,
            speeds=speeds,
            catalog=catalog,
            named=named,
            rejected=rejected,
        )
    batches = ((row, best_batch(row, 1, speeds, rule)) for row in rows)
    priced = [price_epoch(row, 1, speeds, batch) for row, batch in batches if batch is not None]
    if rejected:
        notes.append(
            f"{counted(len(rejected), 'offer is', 'offers are')} left out, as in `plan`; -v says why"
        )
    found = sorted(map(_with_carbon, priced), key=lambda one: (one.usd, one.row.usd_per_hour))
    if not (choice.considered if choice else found):
        which = "no number of nodes" if choice else "no single node"
        more = "" if choice else "; give --epochs=N: the nodes of a job share it"
        of = counted(len(rows), "offer")
        raise PlanError(f"{which} of {of} holds the global batch, divided evenly{more}")
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
    found = [Candidate(row=row, why_not=why_not_sold(row, named)) for row in rows]
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


def _size_of(config: RunConfig, showers: int) -> str:
    cells = "x".join(map(str, config.model.image_shape))
    return f"{counted(showers, 'shower')}; networks {config.model.network_name}, {cells} cells"


def _with_carbon(one: Candidate) -> Candidate:
    carbon = carbon_g_per_epoch(one.row, one.high_seconds, one.nodes)
    known = {"carbon_g": carbon.grams, "why_carbon_unknown": carbon.why_unknown}
    return one.model_copy(update=known)


def _choose(
    options: OffersOptions,
    epochs: int,
    rule: BatchRule,
    rows: Iterable[PriceRow],
    *,
    speeds: ThroughputModel,
    catalog: Catalog,
    named: frozenset[str],
    rejected: Sequence[Candidate],
) -> JobChoice:
    """Returns the best options of a job on these offers, filtered and ranked as `plan` does.

    Args:
        named: Accelerators that the request names.
        rejected: Offers that were rejected before.
    """
    preemption = Preemption(
        options.losses_per_node_hour, options.restart_seconds, options.checkpoint_seconds
    )
    job = PricedJob(epochs, preemption, rule)
    seconds = None if options.max_hours is None else options.max_hours * HOUR_SECONDS
    limits = (seconds, options.budget_usd)
    most = [math.inf if limit is None else limit for limit in limits]
    constraints = OfferConstraints(
        job, nodes=None, max_seconds=most[0], max_usd=limits[1], allowed_accelerators=named
    )
    context = JobContext(load_fees(), load_startup_times())

    def usable(offers: Iterable[PriceRow]) -> Ranking:
        return usable_options(offers, speeds, constraints, context, usual_node_pool)

    found = usable(rows)
    possible, why, chosen = found.usable, "", None
    changes: tuple[str, ...] = ()
    try:
        chosen = cheapest_within(possible, *limits)
    except (BudgetError, PlanError) as error:
        why, changes = str(error), smallest_changes(possible, *most)
        if options.market == "on_demand":  # spot offers, which the request excludes, may fit
            where = {"provider": options.provider, "region": options.region}
            spot = catalog.find(accelerator=options.accelerator, market="spot", **where)
            sold = (row for row in spot if not why_not_sold(row, named))
            if _within(usable(sold).usable, limits):
                changes = ("--market=spot", *changes)
    on_demand = {row.offer: row.usd_per_hour for row in catalog.find(market="on_demand")}
    regions: dict[tuple[object, ...], list[str]] = {}
    for one in possible:
        there = regions.setdefault(_place(one), [])
        if one.row.region not in there:
            there.append(one.row.region)

    def shown(one: Candidate, roles: Sequence[str] = ()) -> Candidate:
        """Adds what is shown of a candidate only."""
        others = sorted(name for name in regions[_place(one)] if name != one.row.region)
        more = {
            "best_for": tuple(roles),
            "regions": (one.row.region, *others),
            "learning": batch_reason(one, speeds.network),
            "spot": _risk(one, job, on_demand) if one.row.market == "spot" else None,
        }
        return one.model_copy(update=more)

    shows_all = options.all or options.report is not None
    return JobChoice(
        epochs=job.epochs,
        deadline_seconds=limits[0],
        budget_usd=limits[1],
        assumed=job.preemption._asdict(),
        considered=len(possible),
        chosen=shown(chosen) if chosen else None,
        why_none=why,
        changes=changes,
        rows=tuple(shown(*row) for row in _rows(possible, chosen, limits)[:_MOST_ROWS]),
        pareto_front=tuple(map(shown, pareto_front(possible))),
        options=tuple(map(shown, cheapest_per_configuration(possible))) if shows_all else (),
        rejected=group_rejected((*rejected, *found.rejected)),
    )


def _within(options: Sequence[Candidate], limits: Limits) -> Candidate | None:
    try:
        return cheapest_within(options, *limits)
    except (BudgetError, PlanError):
        return None


def _rows(
    options: Sequence[Candidate], chosen: Candidate | None, limits: Limits
) -> list[tuple[Candidate, list[str]]]:
    """The options to show, with what each is best for; the chosen one is among them."""
    rows = [] if chosen is None else [(chosen, ["chosen"])]
    for grade in ("measured", "modelled"):
        for role, one in _roles([each for each in options if each.grade == grade], limits):
            known = next((roles for other, roles in rows if other is one), None)
            if known is None:
                rows.append((one, [role]))
            else:
                known.append(role)
    return rows


def _roles(options: Sequence[Candidate], limits: Limits) -> Iterator[tuple[str, Candidate]]:
    if not options:
        return
    fitting = _within(options, limits)
    if fitting and limits != (None, None):
        yield "within limits", fitting
    yield "cheapest", min(options, key=lambda one: (one.usd, one.seconds))
    yield "fastest", min(options, key=lambda one: (one.seconds, one.usd))
    kept = [one for one in options if one.row.market == "on_demand"]
    if kept:
        yield "safest", _within(kept, limits) or min(kept, key=lambda one: (one.usd, one.seconds))


def _risk(one: Candidate, job: PricedJob, on_demand: Mapping[str, float]) -> SpotRisk:
    row, work, known = one.row, one.work_seconds or 0.0, job.preemption
    preemption, basis = known.of_node(row), known.basis(row)
    interval = checkpoint_interval(preemption, one.nodes)
    full = on_demand.get(row.in_other_market.offer)
    most = break_even(work, row.usd_per_hour / full, known, one.nodes) if full else None
    return SpotRisk(
        text=f"{describe_risk(work, preemption, one.nodes)} ({basis})",
        interruption=-math.expm1(-work / preemption.mean_seconds(one.nodes)),
        losses_per_node_hour=preemption.rate,
        losses_basis=basis,
        break_even_losses_per_node_hour=most,
        checkpoint_every_seconds=interval if math.isfinite(interval) else None,
    )


def _place(one: Candidate) -> tuple[object, ...]:
    """What makes options of several regions the same row."""
    row = one.row
    return row.provider, row.node_type, row.market, row.usd_per_hour, one.nodes, one.global_batch
