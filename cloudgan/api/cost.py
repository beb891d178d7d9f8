"""The command `cost`: prices a run, compares it with an earlier one, or predicts times."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cloudgan.core.clock import utc_today
from cloudgan.core.command import command
from cloudgan.core.documents import parse_json, read_bytes, write_json
from cloudgan.core.errors import ConfigError, DataError, show
from cloudgan.launch.plan.candidates import why_not_sold
from cloudgan.money.bill import read_bill, reconcile
from cloudgan.money.catalog import Catalog, offers_for_demo
from cloudgan.money.cost_difference import CostDifference, figures_of_run, read_figures
from cloudgan.money.fees import load_fees
from cloudgan.money.forecast import USD, forecast_vs_actual
from cloudgan.money.paper_replay import BASIS, SOURCE, replayed_runs
from cloudgan.money.price_file import catalog_with, named_row
from cloudgan.money.report import cost_report as make_report
from cloudgan.money.report import price_run
from cloudgan.money.run_cost import RunCost
from cloudgan.reports.result import Result
from cloudgan.schema import launch, record
from cloudgan.schema import plan as plans
from cloudgan.schema.candidate import Candidate
from cloudgan.schema.cost_report import (
    CostReport,
    ForecastVsActual,
    PublishedRun,
)
from cloudgan.schema.launch import Launch
from cloudgan.schema.options.money import CostOptions
from cloudgan.schema.record import RunRecord
from cloudgan.schema.run_folder import RunFolder, find_run_folder
from cloudgan.speed.candidates import price_within
from cloudgan.speed.fit import fit_and_predict
from cloudgan.speed.model import ThroughputModel
from cloudgan.speed.network import throughput_model

_PAPER_RUNS = ("8 x V100 (", "128 x V100 (", "4 x TPU-v2 (", "4 x TPU-v3 (", "16 x TPU-v3 (")
_GIB = 2**30
_LONG_UNSEEN_SECONDS = 300


@command
def cost(options: CostOptions) -> Result:
    """Prices a run and writes cost.json into its folder, or predicts times.

    Raises:
        ConfigError: A billing export was given for a run that does not train.
        DataError: The folder holds no record, or a file is damaged.
        UnknownNameError: No offer has this name.
    """
    if options.fit is not None:
        return fit_and_predict(
            options.fit,
            options.predict,
            showers=options.showers,
            batch=options.batch,
            feed=options.feed,
        )
    if options.ci is None:
        return _cost_of(options)
    run, offer, own = options.run or "", options.price_as, options.price_file
    old = read_figures(options.ci)
    if Path(run).is_file():
        if offer is not None:
            raise ConfigError(f"--price-as={offer} is only valid with the folder of a run")
        new = read_figures(Path(run))
    else:
        new = figures_of_run(run_cost(find_run_folder(run), offer, own).report)
    return CostDifference(
        base=old, new=new, budget_usd=options.budget_usd, allow_unknown=options.allow_unknown
    )


def run_cost(
    folder: RunFolder,
    offer: str | None = None,
    price_file: Path | None = None,
    exports: Sequence[Path] = (),
) -> RunCost:
    """Prices a run that trained, and writes cost.json into its folder."""
    report = price(folder, offer=offer, price_file=price_file).report
    if exports:
        report = _with_bill(report, folder, tuple(exports))
    if offer and report.billed_attempts:
        kept = "--price-as is for your own machine: attempts on cloud nodes keep their prices"
        report = report.model_copy(update={"warnings": (*report.warnings, kept)})
    write_json(folder.cost_file, report)
    return RunCost(report=report)


def _cost_of(options: CostOptions) -> Result:
    """Prices a run of any kind: a training, a simulation, a search, a deployment of its trials, or a grid."""
    from cloudgan.api.job_cost import job_pricing

    folder = find_run_folder(options.run or "")
    offer, price_file = options.price_as, options.price_file
    price_job = job_pricing(folder)
    if price_job:
        for flag in ("billing_export", "report"):
            if getattr(options, flag):
                name = flag.replace("_", "-")
                raise ConfigError(f"--{name} is of runs that train; omit it")
        return price_job(folder, named_row(offer, price_file))
    return run_cost(folder, offer, price_file, options.billing_export)


def price(
    folder: RunFolder, *, offer: str | None = None, price_file: str | Path | None = None
) -> RunCost:
    """Prices a run from its record and launch.json as `cost` does, without writing a file."""
    catalog = catalog_with(Path(price_file) if price_file else None)
    # One that was launched and never trained has nodes, and no line.
    read = record.read_if_there if folder.launch_file.exists() else record.read
    run, today = read(folder.record_file), utc_today()
    row = catalog.row(offer) if offer else None
    config, started = folder.read_config(), run.started()
    speeds = throughput_model(config, started.training_showers if started else 0, folder)
    known, verdict = read_launch(folder), read_verdict(folder)
    report = make_report(
        folder.path.resolve().name,
        run,
        today,
        row=row,
        launch=known,
        fees=load_fees(),
        accepted=verdict.passed if verdict else None,
        group=config.parallel.group if config else 1,
        spot_rows=catalog.find(market="spot"),
    )
    beside = {
        "priced_offers": price_run(run, () if speeds.measured else offers_for_demo(catalog), today),
        "offer_estimates": _offer_estimates(speeds, run, catalog),
        "published_runs": _published_runs(catalog),
    }
    report = report.model_copy(update=beside)
    return RunCost(report=_with_forecast(report, folder, run, known))


class StoredVerdict(NamedTuple):
    """The verdict of `cloudgan validate` on a checkpoint.

    Attributes:
        passed: Whether no gate failed.
        step: Of the checkpoint; None: the file has none.
        gates: Digest of the measures and limits of the gates.
    """

    passed: bool
    step: int | None
    gates: str


def read_verdict(folder: RunFolder) -> StoredVerdict | None:
    """Returns the verdict on a run; None if it was not validated.

    Raises:
        DataError: The file is damaged.
    """
    path = folder.verdict_file
    if not path.exists():
        return None
    found = parse_json(read_bytes(path), str(path))
    verdict = found.get("verdict", found) if isinstance(found, dict) else None
    passed = verdict.get("passed") if isinstance(verdict, dict) else None
    if not isinstance(verdict, dict) or not isinstance(passed, bool):
        raise DataError(
            f"{path}: not a verdict of `cloudgan validate`: passed is {show(passed)}; validate the"
            " run again"
        )
    step = found.get("step")
    try:
        limits = {
            (check["measure"]["name"], float(check["good"]), float(check["acceptable"]))
            for check in verdict.get("checks", ())
        }
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{path}: not a verdict of `cloudgan validate`: a check has no measure or limit; validate"
            " the run again"
        ) from error
    digest = hashlib.sha256(repr(sorted(limits)).encode()).hexdigest()[:8]
    return StoredVerdict(passed, step if type(step) is int else None, digest)


def _offer_estimates(
    speeds: ThroughputModel, run: RunRecord, catalog: Catalog
) -> tuple[Candidate, ...]:
    """Estimates an epoch on each offer; each replica has the batch of this run."""
    started = run.started()
    if started is None:
        return ()
    batch = started.numerics.global_batch_size / started.numerics.replicas
    measured = frozenset(one.accelerator for one in speeds.measured)
    offers = [row for row in catalog.find() if not why_not_sold(row, measured)]
    steady = run.steady_epoch_seconds()
    found = [price_within(row, speeds, batch, steady) for row in offers]
    if all(one.why_not for one in found):
        return ()
    return tuple(sorted(found, key=lambda one: one.usd))


def _published_runs(catalog: Catalog) -> tuple[PublishedRun, ...]:
    """Returns the fastest of the paper's runs per accelerator and number of accelerators."""
    best = {}
    for run in sorted(replayed_runs(catalog), key=lambda run: -run.steady_epoch_seconds):
        if run.name.startswith(_PAPER_RUNS):
            best[run.accelerator, run.accelerators] = run
    of_the_run = set(PublishedRun.model_fields) - {"source", "basis"}
    return tuple(
        PublishedRun(source=SOURCE, basis=BASIS, **run.model_dump(include=of_the_run))
        for _, run in sorted(best.items())
    )


def read_launch(folder: RunFolder) -> Launch | None:
    """Returns launch.json; the size of the downloaded files is the egress of the last attempt.

    Raises:
        DataError: The file is damaged.
    """
    if not folder.launch_file.exists():
        return None
    known = launch.read(folder.launch_file)
    if not known.attempts or not known.attempts[-1].is_billed:
        return known
    last = known.attempts[-1]
    if last.egress_gib is not None or last.uploaded_gib is None:
        return known
    fetched = [folder.record_file, *folder.checkpoints.glob("*")]
    gib = sum(path.stat().st_size for path in fetched if path.is_file()) / _GIB
    last = last.model_copy(update={"egress_gib": gib})
    return known.model_copy(update={"attempts": (*known.attempts[:-1], last)})


def _with_forecast(
    report: CostReport, folder: RunFolder, run: RunRecord, known: Launch | None
) -> CostReport:
    """Adds the forecast of the plan, and warnings on nodes that were not observed."""
    path = folder.path / plans.FILE_NAME
    found: tuple[ForecastVsActual, ...] = ()
    if path.exists():
        plan = plans.read(path)
        is_billed = report.billed_attempts and plan.cost is not None
        cost = plan.cost if is_billed else None
        found = forecast_vs_actual(report, plan.forecast, run.finished_epochs(), cost)
    unseen = [
        f"node {node.name} of attempt {number} terminated between"
        f" {node.last_seen_at:%Y-%m-%d %H:%M} and {node.terminated_at:%Y-%m-%d %H:%M} UTC, not observed in"
        " between; it is billed until the latter"
        for number, attempt in enumerate(known.attempts if known else (), start=1)
        for node in attempt.nodes
        if node.unseen_seconds() > _LONG_UNSEEN_SECONDS
    ]
    warnings = (*report.warnings, *unseen)
    return report.model_copy(update={"forecast_vs_actual": found, "warnings": warnings})


def _with_bill(report: CostReport, folder: RunFolder, files: tuple[Path, ...]) -> CostReport:
    """Adds the reconciliation with the cloud's bill."""
    missing = [path for path in files if not path.is_file()]
    if missing:
        raise DataError(f"--billing-export={missing[0]}: the file does not exist")
    known = read_launch(folder)
    run = known.run if known else report.run
    bill = reconcile(read_bill(files, run), files, report, known)
    usd = bill.billed_usd if bill.lines and not bill.other_currencies else None
    rows = tuple(
        row.model_copy(update={"billed": usd}) if row.metric == USD else row
        for row in report.forecast_vs_actual
    )
    return report.model_copy(update={"bill": bill, "forecast_vs_actual": rows})
