"""`cloudgan cost`: what a run cost, and would cost elsewhere; or what larger runs would take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.output import show_json
from cloudgan.core.errors import ConfigError

if TYPE_CHECKING:
    from cloudgan.cli.fit import FitReport
    from cloudgan.reports.page import Page

_SHOWN_OFFERS = 20


def cost(
    run: str | None = None,
    *,
    as_: str | None = None,
    fit: str | None = None,
    predict: str | None = None,
    billed: str | None = None,
    report: str | None = None,
    json: bool = False,
) -> None:
    """Prices a run in parts and elsewhere, and writes cost.json; or predicts times from a CSV.

    A run on rented nodes has the prices that it was launched by. What a laptop costs per hour nobody
    knows, so its run's cost is unknown until you name an offer to price it as.

    Args:
        run: Folder of the run.
        as_: Price a run that nobody bills as one such node: cloud/node/region/market, such as
            gcp/n1-standard-8+1xT4/us-central1/spot (see `cloudgan offers`).
        fit: CSV file of timings instead, with the columns n, seconds and, maybe, nodes.
        predict: Numbers of accelerators to predict the time of, such as 32,64,128; with --fit.
        billed: Billing exports of the run's cloud, such as bill.json,bill2.csv.gz: Google's detailed
            usage, AWS' Cost and Usage Report, Azure's cost details or FOCUS; only lines with this
            run's label count.
        report: File to write as well: .html, .md or .csv.
        json: Print the result as JSON.
    """
    _check(run, as_, fit, predict)
    if billed is not None and run is None:
        raise ConfigError(f"--billed={billed} is the bill of a run: name it, and leave --fit out")
    if report is not None:
        from cloudgan.cli.report_file import check_report

        check_report(report)
    if fit is not None:
        _fit(Path(fit), predict or "", report, as_json=json)
    elif run is not None:
        _price(run, as_, billed, report, as_json=json)


def _check(run: str | None, as_: str | None, fit: str | None, predict: str | None) -> None:
    if run is not None and fit is not None:
        raise ConfigError(
            "a run or --fit, not both: `cloudgan cost RUN` prices a run,"
            " `cloudgan cost --fit=CSV --predict=32,64` predicts times"
        )
    if run is None and fit is None:
        raise ConfigError(
            "cost of what? Type `cloudgan cost RUN`, such as runs/NAME, or"
            " `cloudgan cost --fit=CSV --predict=32,64,128`"
        )
    if fit is not None and predict is None:
        raise ConfigError(f"--fit={fit}: for which numbers? Add such as --predict=32,64,128")
    if fit is None and predict is not None:
        raise ConfigError(f"--predict={predict} is for timings; add --fit=CSV and leave RUN out")
    if fit is not None and as_ is not None:
        raise ConfigError(f"--as={as_} prices a run; --fit predicts seconds. Leave one of them out")


def _price(
    run: str, offer: str | None, billed: str | None, report: str | None, *, as_json: bool
) -> None:
    from cloudgan.cli import bill_tables, pricing_tables
    from cloudgan.cli.pricing import price
    from cloudgan.cli.table_view import show_table
    from cloudgan.run_folder import RunFolder

    files = tuple(Path(name) for name in (billed or "").split(",") if name)
    prices = price(RunFolder(run), offer=offer, billed=files)
    found = prices.report
    if report is not None:
        _write(pricing_tables.cost_page(found, prices.own_cost()), report)
    if as_json:
        show_json(prices.as_json())
        return
    show_table(pricing_tables.parts_table(found))
    show_table(pricing_tables.figures_table(found))
    if found.rows:
        show_table(pricing_tables.rows_table(found))
    for table in bill_tables.tables(found):
        show_table(table)
    elsewhere = pricing_tables.elsewhere_table(found, _SHOWN_OFFERS)
    if elsewhere is not None:
        show_table(elsewhere)
    print(f"cost of this run: {prices.own_cost()}")
    for line in bill_tables.notes(found):
        print(line)
    for hint in found.hints:
        print(f"hint: {hint.describe()}")
    for warning in found.warnings:
        print(f"about the record: {warning}")
    if offer is not None and found.billed:
        print("--as is for machines that nobody bills: the rented nodes kept their own prices")


def _fit(csv: Path, predict: str, report: str | None, *, as_json: bool) -> None:
    from cloudgan.cli.fit import fit_and_predict, fit_table, sizes_to_predict
    from cloudgan.cli.table_view import show_table

    found = fit_and_predict(csv, sizes_to_predict(predict))
    if report is not None:
        measured = (size.n for regime in found.fit.regimes for size in regime.sizes)
        sizes = sorted({*measured, *sizes_to_predict(predict)})
        _write(_fit_page(csv, found, fit_and_predict(csv, tuple(sizes))), report)
    if as_json:
        show_json(found.model_dump(mode="json"))
        return
    show_table(fit_table(found))


def _fit_page(csv: Path, found: FitReport, drawn: FitReport) -> Page:
    """`drawn` predicts the measured sizes too, so that the line begins where they do."""
    from cloudgan.cli.fit import fit_table
    from cloudgan.reports.page import Page, Section
    from cloudgan.reports.plots import Axis, BandLine, BandPlot, Point, PointSeries

    measured = tuple(
        PointSeries(
            f"measured, {regime.name}",
            tuple(Point(size.n, size.seconds, f"{size.n}") for size in regime.sizes),
        )
        for regime in found.fit.regimes
    )
    order = drawn.predictions
    line = BandLine(
        "A/n + C + B log2 n",
        tuple(float(one.n) for one in order),
        tuple(one.seconds for one in order),
        tuple(one.low_seconds for one in order),
        tuple(one.high_seconds for one in order),
    )
    plot = BandPlot(
        "Time against accelerators",
        Axis("accelerators", log=True),
        Axis("seconds", log=True),
        measured,
        (line,),
        band_label="90 % band",
        extrapolated_from=max(size.n for regime in found.fit.regimes for size in regime.sizes),
    )
    title = f"Times of {csv.name}, predicted"
    lead = f"{found.fit.not_in_it[0].upper()}{found.fit.not_in_it[1:]}."
    return Page(title, lead, (Section("Scaling", (plot, fit_table(found))),))


def _write(page: Page, report: str) -> None:
    from cloudgan.cli.report_file import write_report_file

    write_report_file(page, Path(report))
