"""`cloudgan cost`: the cost of a run, its difference to another, or predicted times of larger runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.views.output import (
    write_report_file,
)
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.reports.result import Result
from cloudgan.schema.options.money import CostOptions

if TYPE_CHECKING:
    from collections.abc import Mapping


@command
def cost(options: CostOptions) -> Result:
    """Returns the cost, its difference to another, or predicted times."""
    of_fit = {
        "predict": options.predict,
        "showers": options.showers,
        "batch": options.batch,
        "feed": options.feed,
    }
    _check(options.run, options.price_as, options.fit, of_fit, options.billing_export)
    _check_ci(options.run, options.ci, options.budget_usd, options.billing_export)
    if options.price_file and not options.price_as:
        raise ConfigError(
            f"--price-file={options.price_file} needs --price-as=OFFER, one of its nodes"
        )
    if options.fit is not None:
        from cloudgan.api.fit import fit_and_predict, fit_page, sizes_to_predict

        fitted = fit_and_predict(
            Path(options.fit),
            sizes_to_predict(options.predict or ""),
            showers=options.showers,
            batch=options.batch,
            feed=options.feed,
        )
        if options.report is not None:
            write_report_file(fit_page(Path(options.fit), fitted), options.report)
        return fitted
    file, run = options.price_file, options.run or ""
    own = local_path(file, source="--price-file") if file else None
    if options.ci is None:
        return _price(run, options.price_as, own, options.billing_export, options.report)
    base = local_path(options.ci, source="--ci")
    return _compare(base, run, options.price_as, own, budget_usd=options.budget_usd)


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
    base: Path, run: str, offer: str | None, own: Path | None, *, budget_usd: float | None
) -> Result:
    from cloudgan.api import cost as api
    from cloudgan.api import cost_difference

    old = cost_difference.read_figures(base)
    if Path(run).is_file():
        if offer is not None:
            raise ConfigError(f"--price-as={offer} is only valid with the folder of a run")
        new = cost_difference.read_figures(Path(run))
    else:
        new = cost_difference.figures_of_run(api.cost(run, price_as=offer, price_file=own).report)
    return cost_difference.CostDifference(base=old, new=new, budget_usd=budget_usd)


def _price(
    run: str, offer: str | None, own: Path | None, exports: str | None, report: str | None
) -> Result:
    from cloudgan.api import cost as api
    from cloudgan.api.cost_page import cost_page

    files = [name for name in (exports or "").split(",") if name]
    found = api.cost_of(run, price_as=offer, price_file=own, billing_export=files)
    if report is not None:
        if not isinstance(found, api.RunCost):
            raise ConfigError("--report is of runs that train; omit it")
        write_report_file(cost_page(found.report, found.own_cost()), report)
    return found
