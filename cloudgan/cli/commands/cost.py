"""`cloudgan cost`: the cost of a run, here and on other offers; or predicted times of larger runs."""

from __future__ import annotations

from pathlib import Path

from cloudgan.cli.views.output import check_report, print_json, print_table, write_report_file
from cloudgan.core.errors import ConfigError

_SHOWN_OFFERS = 20


def cost(
    run: str | None = None,
    *,
    price_as: str | None = None,
    fit: str | None = None,
    predict: str | None = None,
    billing_export: str | None = None,
    report: str | None = None,
    json: bool = False,
) -> None:
    """Prices a run by item and on other offers, and writes cost.json; or predicts times from a CSV.

    A run on cloud nodes has the prices of its launch. A run on your own machine has no price per hour:
    its cost is unknown until --price-as names an offer.

    Args:
        run: Folder of the run.
        price_as: Offer that prices a run on your own machine: cloud/node/region/market, such as
            gcp/n1-standard-8+1xT4/us-central1/spot (see `cloudgan offers`).
        fit: Instead of a run: CSV file of timings with the columns n, seconds and, optionally, nodes.
        predict: Numbers of accelerators whose times are predicted, such as 32,64,128; with --fit.
        billing_export: Billing exports of the run's cloud, such as bill.json,bill2.csv.gz: Google
            detailed usage, AWS Cost and Usage Report, Azure cost details, or FOCUS; only lines with
            this run's label count.
        report: File to write as well: .html, .md or .csv.
        json: Print the result as JSON.
    """
    _check(run, price_as, fit, predict, billing_export)
    check_report(report)
    if fit is not None:
        _predict(Path(fit), predict or "", report, as_json=json)
    elif run is not None:
        _price(run, price_as, billing_export, report, as_json=json)


def _check(
    run: str | None,
    price_as: str | None,
    fit: str | None,
    predict: str | None,
    billing_export: str | None,
) -> None:
    if run is not None and fit is not None:
        raise ConfigError(
            "a run or --fit, not both: `cloudgan cost RUN` prices a run,"
            " `cloudgan cost --fit=CSV --predict=32,64` predicts times"
        )
    if run is None and fit is None:
        raise ConfigError(
            "no run given: run `cloudgan cost RUN`, such as runs/NAME, or"
            " `cloudgan cost --fit=CSV --predict=32,64,128`"
        )
    if fit is not None and predict is None:
        raise ConfigError(f"--fit={fit} needs the sizes to predict, such as --predict=32,64,128")
    if fit is None and predict is not None:
        raise ConfigError(f"--predict={predict} is only valid with --fit=CSV, without RUN")
    if fit is not None and price_as is not None:
        raise ConfigError(f"--price-as={price_as} is only valid with RUN, not with --fit")
    if billing_export is not None and run is None:
        raise ConfigError(
            f"--billing-export={billing_export} is only valid with RUN, not with --fit"
        )


def _price(
    run: str, offer: str | None, exports: str | None, report: str | None, *, as_json: bool
) -> None:
    from cloudgan.api import cost as api
    from cloudgan.api import cost_page

    files = [name for name in (exports or "").split(",") if name]
    result = api.cost(run, price_as=offer, billing_export=files)
    found = result.report
    if report is not None:
        write_report_file(cost_page.cost_page(found, result.own_cost()), Path(report))
    if as_json:
        print_json(result.as_json())
        return
    for table in cost_page.tables(found, _SHOWN_OFFERS):
        print_table(table)
    print(f"cost of this run: {result.own_cost()}")
    for line in cost_page.bill_notes(found):
        print(line)
    for recommendation in found.recommendations:
        print(f"recommendation: {recommendation.describe()}")
    for warning in found.warnings:
        print(f"warning: {warning}")
    if offer is not None and found.billed_attempts:
        print(
            "--price-as applies to your own machine only: attempts on cloud nodes keep their prices"
        )


def _predict(csv: Path, predict: str, report: str | None, *, as_json: bool) -> None:
    from cloudgan.api.fit import fit_and_predict, fit_page, fit_table, sizes_to_predict

    found = fit_and_predict(csv, sizes_to_predict(predict))
    if report is not None:
        write_report_file(fit_page(csv, found), Path(report))
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    print_table(fit_table(found))
