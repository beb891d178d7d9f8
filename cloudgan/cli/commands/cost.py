"""`cloudgan cost`: the cost of a run, its difference to another, or predicted times of larger runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.views.output import (
    check_report,
    mark_printed,
    print_view,
    write_report_file,
)
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.api.fit import FitReport


def cost(
    run: str | None = None,
    *,
    price_as: str | None = None,
    price_file: str | None = None,
    fit: str | None = None,
    predict: str | None = None,
    showers: int | None = None,
    batch: int | None = None,
    feed: float | None = None,
    billing_export: str | None = None,
    ci: str | None = None,
    budget_usd: float | None = None,
    report: str | None = None,
    json: bool = False,
) -> None:
    """Prices a run by item and on other offers, and writes cost.json; or predicts times from a CSV.

    A run on cloud nodes has the prices of its launch. A run on your own machine has no price per hour:
    its cost is unknown until --price-as names an offer.

    Args:
        run: Folder of the run; with --ci, also a file of `cloudgan plan --json`.
        price_as: Offer that prices a run on your own machine: cloud/node/region/market, such as
            gcp/n1-standard-8+1xT4/us-central1/spot (see `cloudgan offers`).
        price_file: YAML file with the prices of your own nodes; --price-as names one of them.
        fit: Instead of a run: CSV file of timings with the columns n, seconds and, optionally, nodes
            and steps (of an epoch).
        predict: Numbers of accelerators whose times are predicted, such as 32,64,128; with --fit.
        showers: Showers of an epoch, which give the steps together with --batch; with --fit.
        batch: Showers per accelerator and step; with --fit.
        feed: Showers per second that the input can supply (see `cloudgan bench input`): no predicted
            epoch is faster than they are read; with --fit, --showers and --batch.
        billing_export: Billing exports of the run's cloud in FOCUS 1.x, such as
            bill.json,bill2.csv.gz; only lines with this run's label count.
        ci: File of an earlier `cloudgan plan --json` or `cloudgan cost RUN --json`: print the
            difference in Markdown, for a comment on a pull request.
        budget_usd: Exit with 6 if the run or plan costs more; with --ci.
        report: File to write as well: .html, .md or .csv.
        json: Print the result as JSON.
    """
    of_fit = {"predict": predict, "showers": showers, "batch": batch, "feed": feed}
    _check(run, price_as, fit, of_fit, billing_export)
    _check_ci(run, ci, budget_usd, billing_export)
    if price_file and not price_as:
        raise ConfigError(f"--price-file={price_file} needs --price-as=OFFER, one of its nodes")
    check_report(report)
    if fit is not None:
        from cloudgan.api.fit import fit_and_predict, sizes_to_predict

        sizes = sizes_to_predict(predict or "")
        found = fit_and_predict(Path(fit), sizes, showers=showers, batch=batch, feed=feed)
        _print_fit(Path(fit), found, report, as_json=json)
    elif run is not None:
        own = local_path(price_file, source="--price-file") if price_file else None
        if ci is None:
            _price(run, price_as, own, billing_export, report, as_json=json)
        else:
            base = local_path(ci, source="--ci")
            _compare(base, run, price_as, own, budget_usd=budget_usd, report=report, as_json=json)


def _check(
    run: str | None,
    price_as: str | None,
    fit: str | None,
    of_fit: Mapping[str, object],
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
    if fit is not None and of_fit["predict"] is None:
        raise ConfigError(f"--fit={fit} needs the sizes to predict, such as --predict=32,64,128")
    for name, value in of_fit.items():
        if fit is None and value is not None:
            raise ConfigError(f"--{name}={value} is only valid with --fit=CSV, without RUN")
    if fit is not None and price_as is not None:
        raise ConfigError(f"--price-as={price_as} is only valid with RUN, not with --fit")
    if billing_export is not None and run is None:
        raise ConfigError(
            f"--billing-export={billing_export} is only valid with RUN, not with --fit"
        )


def _check_ci(
    run: str | None, ci: str | None, budget_usd: float | None, billing_export: str | None
) -> None:
    if ci is not None and run is None:
        raise ConfigError(f"--ci={ci} is only valid with RUN, not with --fit")
    if ci is not None and billing_export is not None:
        raise ConfigError(f"--billing-export={billing_export} is not valid with --ci")
    if budget_usd is not None and ci is None:
        raise ConfigError(
            f"--budget-usd={budget_usd:g} is only valid with --ci=BASE.json; `cloudgan deploy"
            " --budget-usd` limits a run"
        )


def _compare(
    base: Path,
    run: str,
    offer: str | None,
    own: Path | None,
    *,
    budget_usd: float | None,
    report: str | None,
    as_json: bool,
) -> None:
    from cloudgan.api import cost as api
    from cloudgan.api import cost_difference

    old = cost_difference.read_figures(base)
    if Path(run).is_file():
        if offer is not None:
            raise ConfigError(f"--price-as={offer} is only valid with the folder of a run")
        new = cost_difference.read_figures(Path(run))
    else:
        new = cost_difference.figures_of_run(api.cost(run, price_as=offer, price_file=own).report)
    found = cost_difference.CostDifference(base=old, new=new, budget_usd=budget_usd)
    if report is not None:
        write_report_file(found.page(), report)
    print_view(found, as_json=as_json)
    problem = found.problem()
    if problem is not None:
        raise mark_printed(problem, as_json=as_json)


def _price(
    run: str,
    offer: str | None,
    own: Path | None,
    exports: str | None,
    report: str | None,
    *,
    as_json: bool,
) -> None:
    from cloudgan.api import cost as api
    from cloudgan.api.cost_page import cost_page

    files = [name for name in (exports or "").split(",") if name]
    found = api.cost_of(run, price_as=offer, price_file=own, billing_export=files)
    if report is not None:
        if not isinstance(found, api.RunCost):
            raise ConfigError("--report is of runs that train; omit it")
        write_report_file(cost_page(found.report, found.own_cost()), report)
    print_view(found, as_json=as_json)


def _print_fit(csv: Path, found: FitReport, report: str | None, *, as_json: bool) -> None:
    from cloudgan.api.fit import fit_page

    if report is not None:
        write_report_file(fit_page(csv, found), report)
    print_view(found, as_json=as_json)
