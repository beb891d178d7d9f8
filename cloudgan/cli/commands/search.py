"""`cloudgan search`: hyper-parameters on this machine, or in the pods of deployments."""

from __future__ import annotations

from typing import Any, Literal

from cloudgan.api.search import run_search
from cloudgan.api.search_forecast import forecast_search
from cloudgan.api.search_result import read_search
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.options.training_flags import training_flags
from cloudgan.cli.views.output import (
    check_report,
    print_json,
    print_table,
    progress_bars,
    write_report_file,
)
from cloudgan.core.errors import ConfigError

_COLUMNS = 120


@with_flags(training=training_flags)
def search(
    space: str,
    *,
    run: str | None = None,
    trials: int | None = None,
    blocks: int | None = None,
    folds: int | None = None,
    store: str | None = None,
    sampler: Literal["gp", "evolution", "cmaes", "tpe", "nsgaii", "random", "grid"] | None = None,
    objective: str | None = None,
    direction: Literal["minimize", "maximize"] | None = None,
    prune: Literal["none", "median", "halving"] | None = None,
    second: Literal["seconds", "usd"] | None = None,
    price_as: str | None = None,
    price_file: str | None = None,
    max_hours: float | None = None,
    budget_usd: float | None = None,
    describe: bool = False,
    like: str | None = None,
    show: bool = False,
    report: str | None = None,
    json: bool = False,
    training: tuple[dict[str, Any], str | None] = ({}, None),
) -> None:
    """Searches hyper-parameters on this machine or in pods; each trial is an ordinary run.

    Args:
        space: YAML file with ranges or choices by key of run.yaml, or the folder of a search to continue.
        run: Folder of a new search. Default: runs/search.
        trials: How many. Default: 25.
        blocks: Trials at the same time, each with its share of the cores or GPUs. Default: 1.
        store: URL or folder through which the nodes of `cloudgan deploy --join=NAME` train the trials
            instead; NAME is that of the search's folder.
        sampler: gp (Gaussian process, expected improvement), evolution, cmaes, tpe, nsgaii, random, or
            grid.
            Default: gp.
        folds: Runs of a trial, which hold out every N-th shower from number 0, 1, ... on; the mean over
            all ranks the trial. Default: one run, with data.held_out_fraction.
        objective: Validation number that ranks the trials, as in --until, or generator_loss, its total on
            held-out showers. Default: metric.
        direction: Whether a small or a large objective is good. Default: minimize.
        prune: Stop trials early whose validations are below the median of the others, or by successive
            halving. Default: none.
        second: Second objective, the program time or the price of a trial; prints the Pareto front. The
            sampler is nsgaii or random.
        price_as: Offer whose price this machine has, for --second=usd and --budget-usd:
            cloud/node/region/market, such as gcp/n1-standard-8+1xV100/us-central1/spot.
        price_file: YAML file with the prices of your own nodes; --price-as names one of them.
        max_hours: After this time, save the running trials and end with the best so far.
        budget_usd: The same when this machine has cost so much since the search began.
        describe: Print how long the trials take and what they cost, from the time of one trial, and start
            nothing.
        like: Run of this machine that takes the time of a trial, for --describe. Default: the mean of the
            finished trials of the search folder.
        show: Print the trials of a search folder, and start nothing.
        report: File to write as well: .html, .md or .csv.
        json: Print the result as JSON.
        training: The shared training flags; all trials share these values.
    """
    check_report(report)
    settings = {
        "trials": trials,
        "blocks": blocks,
        "folds": folds,
        "max_hours": max_hours,
        "budget_usd": budget_usd,
        "store": store,
        "sampler": sampler,
        "objective": objective,
        "direction": direction,
        "prune": prune,
        "second": second,
        "price_as": price_as,
        "price_file": price_file,
    }
    if like and not describe:
        raise ConfigError(f"--like={like} is only valid with --describe")
    if describe:
        _print_forecast(space, training, run, settings, like, as_json=json)
        return
    if show:
        found = read_search(space)
    else:
        keys, config = training
        with progress_bars(as_json=json) as progress:
            found = run_search(
                space, keys, config=config, run=run, settings=settings, progress=progress
            )
    if report:
        write_report_file(found.page(), report)
    if json:
        print_json(found.as_json())
        return
    for table in found.tables():
        print_table(table, width=_COLUMNS)


def _print_forecast(
    space: str,
    training: tuple[dict[str, Any], str | None],
    run: str | None,
    settings: dict[str, Any],
    like: str | None,
    *,
    as_json: bool,
) -> None:
    keys, config = training
    found = forecast_search(space, keys, config=config, run=run, settings=settings, like=like)
    if as_json:
        print_json(found.as_json())
    else:
        print_table(found.table(), width=_COLUMNS)
