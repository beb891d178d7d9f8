"""`cloudgan offers`: what can be rented, for how much, and what a job should run on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cloudgan.cli.durations import seconds_of
from cloudgan.cli.output import show_json
from cloudgan.core.clock import utc_today
from cloudgan.core.dated_fact import STALE_DAYS
from cloudgan.core.errors import ConfigError, PlanError
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.choice import Job, candidates, cheapest_of_each, cheapest_within, front
from cloudgan.cost.elsewhere import speeds
from cloudgan.cost.elsewhere_price import price_elsewhere
from cloudgan.cost.elsewhere_runs import (
    PAPER_NETWORK,
    PAPER_SHOWERS,
    paper_measurements,
    runs_of_network,
)
from cloudgan.cost.spot import Preemption

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from cloudgan.cli.offers_report import Choice, OffersReport
    from cloudgan.core.price_row import PriceRow
    from cloudgan.cost.catalog import Catalog
    from cloudgan.cost.elsewhere import Speeds
    from cloudgan.cost.elsewhere_price import PricedElsewhere


def offers(
    *,
    accelerator: str | None = None,
    provider: str | None = None,
    region: str | None = None,
    market: Literal["on_demand", "spot"] | None = None,
    epochs: int | None = None,
    deadline: str | None = None,
    budget: float | None = None,
    run: str | None = None,
    measured: bool = False,
    carbon: bool = False,
    losses_per_node_hour: float = Preemption().per_node_hour,
    restart_seconds: float = Preemption().restart_seconds,
    checkpoint_seconds: float = Preemption().checkpoint_seconds,
    json: bool = False,
    report: str | None = None,
) -> None:
    """Lists what can be rented, cheapest epoch first; with --epochs chooses for a whole job.

    Speeds are those of measured runs: the paper's, or with --run your own. An accelerator that
    nobody measured has a band between what its memory and its arithmetic allow, and counts with the
    slow edge of it.

    Args:
        accelerator: Such as h100 or A100-80GB.
        provider: gcp, aws or azure.
        region: Such as us-central1.
        market: Only this one.
        epochs: Of the job; shows which offers, on how many nodes, are best in time and cost.
        deadline: The job must be done within this time, such as 2h or 90m.
        budget: The job may cost this many USD.
        run: Folder of a run whose measured speed and network count, such as runs/NAME.
        measured: Only accelerators on which this network was measured.
        carbon: Show what an epoch emits, and the least of it first.
        losses_per_node_hour: How often a spot node is taken back; assumed where you know nothing.
        restart_seconds: From losing a spot node to training again.
        checkpoint_seconds: What saving takes.
        json: Print the result as JSON.
        report: Write the result to this file: .html, .md or .csv.
    """
    if report is not None:
        from cloudgan.cli.report_file import check_report

        check_report(report)
    preemption = _preemption(losses_per_node_hour, restart_seconds, checkpoint_seconds)
    limits = _limits(epochs, deadline, budget)
    catalog, today = load_catalog(), utc_today()
    rows = _rows(catalog, accelerator, provider, region, market)
    known, notes = _speeds(run)
    if measured:
        rows = _only_measured(rows, known)
    choice = None
    if epochs is not None:
        choice = _choice(
            rows,
            known,
            Job(epochs, preemption),
            limits,
            catalog=catalog,
            today=today,
            with_ways=report is not None,
        )
    _show(
        _report(price_elsewhere(rows, known), known, choice, today, notes),
        as_json=json,
        report=report,
        carbon=carbon,
    )


def _preemption(losses: float, restart: float, checkpoint: float) -> Preemption:
    names = ("losses_per_node_hour", "restart_seconds", "checkpoint_seconds")
    for name, value in zip(names, (losses, restart, checkpoint), strict=True):
        if value < 0:
            raise ConfigError(f"--{name} must not be negative, got {value:g}")
    return Preemption(losses, restart, checkpoint)


def _limits(
    epochs: int | None, deadline: str | None, budget: float | None
) -> tuple[float | None, float | None]:
    """Returns deadline in seconds and budget in USD.

    Raises:
        ConfigError: One is nonsense, or there is no job that they are for.
    """
    seconds = None if deadline is None else seconds_of(deadline, "--deadline")
    if budget is not None and budget <= 0:
        raise ConfigError(f"--budget is in USD and must be above zero, got {budget:g}")
    if epochs is None and (deadline is not None or budget is not None):
        raise ConfigError("--deadline and --budget are for a job; say how long: --epochs=60")
    if epochs is not None and epochs < 1:
        raise ConfigError(f"--epochs must be at least 1, got {epochs}")
    return seconds, budget


def _rows(
    catalog: Catalog,
    accelerator: str | None,
    provider: str | None,
    region: str | None,
    market: Literal["on_demand", "spot"] | None,
) -> tuple[PriceRow, ...]:
    rows = catalog.find(accelerator=accelerator, provider=provider, region=region, market=market)
    if rows:
        return rows
    asked = " ".join(str(one) for one in (provider, accelerator, region, market) if one)
    raise PlanError(
        f"no current price of {asked} is known together; leave one of them out to see what there"
        " is, or run `cloudgan prices refresh`"
    )


def _speeds(run: str | None) -> tuple[Speeds, list[str]]:
    """Returns what is known of speeds, and what should be said about it."""
    if run is None:
        note = f"an epoch is the paper's: {PAPER_SHOWERS:,} showers, its 51x51x25 network"
        return speeds(PAPER_NETWORK, PAPER_SHOWERS, paper_measurements()), [note]
    from cloudgan.core import record
    from cloudgan.run_folder import RunFolder

    folder = RunFolder(run)
    config, lines = folder.read_config(), record.read(folder.record_file)
    started = lines.started()
    if config is None or started is None:
        raise ConfigError(
            f"{run} has no run.yaml or no start in its record; name a folder of a run"
        )
    found, why = runs_of_network(folder.path.name, lines, config.model.networks)
    notes = [f"speed not used: {why}"] if why else []
    return speeds(config.model.networks, started.training_showers, found), notes


def _only_measured(rows: Sequence[PriceRow], known: Speeds) -> tuple[PriceRow, ...]:
    names = {run.accelerator for run in known.measured}
    kept = tuple(row for row in rows if row.accelerator in names)
    if not kept:
        listed = ", ".join(sorted(names)) or "none"
        raise PlanError(f"of these offers none was measured; measured: {listed}")
    return kept


def _choice(
    rows: Sequence[PriceRow],
    known: Speeds,
    job: Job,
    limits: tuple[float | None, float | None],
    *,
    catalog: Catalog,
    today: dt.date,
    with_ways: bool,
) -> Choice:
    from cloudgan.cli.offers_report import Choice, Unknown, way_of

    found = candidates(rows, known, job)
    why, chosen = "", None
    try:
        chosen = cheapest_within(found.known, *limits)
    except PlanError as error:
        why = str(error)
    on_demand = {row.offer: row.usd_per_hour for row in catalog.find(market="on_demand")}
    return Choice(
        epochs=job.epochs,
        deadline_seconds=limits[0],
        budget_usd=limits[1],
        assumed=job.preemption._asdict(),
        considered=len(found.known),
        chosen=way_of(chosen, job, on_demand, today) if chosen else None,
        why_none=why,
        front=tuple(way_of(one, job, on_demand, today) for one in front(found.known)),
        ways=tuple(
            way_of(one, job, on_demand, today)
            for one in (cheapest_of_each(found.known) if with_ways else ())
        ),
        unknown=tuple(Unknown(offer=row.offer, why=reason) for row, reason in found.unknown),
    )


def _report(
    priced: Sequence[PricedElsewhere],
    known: Speeds,
    choice: Choice | None,
    today: dt.date,
    notes: list[str],
) -> OffersReport:
    from cloudgan.cli.offers_report import OffersReport, offer_of

    found = sorted(
        (offer_of(one, today) for one in priced),
        key=lambda one: (
            one.usd_per_epoch_high is None,
            one.usd_per_epoch_high,
            one.usd_per_hour,
        ),
    )
    undated = sum(one.age_days is None for one in found)
    old = sum(one.age_days is not None and one.age_days > STALE_DAYS for one in found)
    if undated or old:
        notes.append(
            f"of {len(found)} prices {undated} are undated and {old} older than {STALE_DAYS} days;"
            " `cloudgan prices refresh` asks the clouds"
        )
    notes.append("start of nodes, fetching of data, storage and traffic are not in these figures")
    return OffersReport(
        network=known.network,
        showers=known.showers,
        measured_runs=tuple(run.name for run in known.measured),
        notes=tuple(notes),
        offers=tuple(found),
        choice=choice,
    )


def _show(found: OffersReport, *, as_json: bool, report: str | None, carbon: bool) -> None:
    if report is not None:
        from pathlib import Path

        from cloudgan.cli.offers_page import offers_page
        from cloudgan.cli.report_file import write_report_file

        write_report_file(offers_page(found), Path(report))
    if as_json:
        show_json(found.model_dump(mode="json"))
        return
    from cloudgan.cli.offers_page import carbon_table, shown_lines, table
    from cloudgan.cli.table_view import show_table

    show_table(carbon_table(found, most=30) if carbon else table(found, most=30))
    for line in shown_lines(found):
        print(line)
