"""`cloudgan cost`: the cost of a run, its difference to another, or predicted times of larger runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.views.output import (
    check_report,
    mark_printed,
    print_json,
    print_table,
    write_report_file,
)
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.schema.options.money import CostOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloudgan.api.fit import FitReport
    from cloudgan.api.search_cost import SearchCost
    from cloudgan.api.simulation_cost import SimulationCost
    from cloudgan.schema.run_folder import RunFolder


_SHOWN_OFFERS = 20


@command
def cost(options: CostOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
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
    check_report(options.report)
    if options.fit is not None:
        from cloudgan.api.fit import fit_and_predict, sizes_to_predict

        sizes = sizes_to_predict(options.predict or "")
        found = fit_and_predict(
            Path(options.fit),
            sizes,
            showers=options.showers,
            batch=options.batch,
            feed=options.feed,
        )
        _print_fit(Path(options.fit), found, options.report, as_json=as_json)
    elif options.run is not None:
        own = local_path(options.price_file, source="--price-file") if options.price_file else None
        if options.ci is None:
            _price(
                options.run,
                options.price_as,
                own,
                options.billing_export,
                options.report,
                as_json=as_json,
            )
        else:
            base = local_path(options.ci, source="--ci")
            _compare(
                base,
                options.run,
                options.price_as,
                own,
                budget_usd=options.budget_usd,
                report=options.report,
                as_json=as_json,
            )


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
    from cloudgan.reports.page import page_markdown

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
    if as_json:
        print_json(found.as_json())
    else:
        print(page_markdown(found.page()), end="")
    problem = found.problem()
    if problem is not None:
        raise mark_printed(problem, as_json=as_json)


def _print_other(folder: RunFolder, offer: str | None, own: Path | None, *, as_json: bool) -> None:
    """Prints the cost of a simulation, of trials of a search, or of a grid of cells."""
    from cloudgan.api.grid_cost import GridCost, grid_cost
    from cloudgan.api.search_cost import (
        SearchCost,
        is_joined,
        is_search,
        joined_cost,
        search_cost,
    )
    from cloudgan.api.simulation_cost import is_simulation, simulation_cost

    price: Callable[..., GridCost | SearchCost | SimulationCost]
    price = simulation_cost if is_simulation(folder) else grid_cost
    if is_search(folder):
        price = search_cost
    elif is_joined(folder):
        price = joined_cost
    found = price(folder, offer=offer, price_file=own)
    if as_json:
        print_json(found.as_json())
        return
    if isinstance(found, GridCost | SearchCost):
        print_table(found.table())
    print("\n".join(found.lines()))


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
    from cloudgan.api import cost_page
    from cloudgan.api.grid_samples import is_grid
    from cloudgan.api.run import open_run
    from cloudgan.api.search_cost import is_joined, is_search
    from cloudgan.api.simulation_cost import is_simulation

    folder = open_run(run).folder
    if is_search(folder) or is_simulation(folder) or is_joined(folder) or is_grid(folder):
        if exports or report:
            raise ConfigError("--report and --billing-export are of runs that train; omit them")
        _print_other(folder, offer, own, as_json=as_json)
        return
    files = [name for name in (exports or "").split(",") if name]
    result = api.cost(run, price_as=offer, price_file=own, billing_export=files)
    found = result.report
    if report is not None:
        write_report_file(cost_page.cost_page(found, result.own_cost()), report)
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


def _print_fit(csv: Path, found: FitReport, report: str | None, *, as_json: bool) -> None:
    from cloudgan.api.fit import fit_page, fit_table

    if report is not None:
        write_report_file(fit_page(csv, found), report)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    print_table(fit_table(found))
    for warning in found.warnings:
        print(f"warning: {warning}")
