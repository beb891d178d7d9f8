"""Cross-validation on this machine: the use case of `cloudgan crossvalidate`.

Fold f of K holds out every K-th shower from number f on. The runs are the trials of a search over the
folds (and seeds), so blocks, continuation after a kill, and `--show` are those of `cloudgan search`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic import Field

from cloudgan.api.search import check_pods, read_search, shared_store, start_search
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.progress import Progress
from cloudgan.reports.notebook_progress import usual_progress
from cloudgan.reports.page import Page, Section
from cloudgan.reports.page import write as write_page
from cloudgan.reports.result import Result, View
from cloudgan.schema.options.training import CrossvalidateOptions
from cloudgan.schema.search import FOLD, Dimension, parse_search, with_folds
from cloudgan.search.result import PAGE, Search
from cloudgan.training.run_options import resolve

SEED = "training.seed"


class CrossValidation(Result):
    """The runs of all folds, and mean and spread of their objective."""

    search: Search = Field(description="the runs, one trial each")
    mean: float | None = Field(
        None, description="of the objective over all folds and repeats; null: a fold has no number"
    )
    deviation: float | None = Field(
        None, description="standard deviation over the folds (means over their repeats)"
    )
    variance_shares: dict[str, float] | None = Field(
        None,
        description="of the variance between all runs: between folds (data), between repeats (initial"
        " weights), and the rest; null with one repeat",
    )

    def view(self) -> View:
        """Returns a row per run, below mean and spread."""
        found, name, notes = self.search.view(), self.search.objective, []
        said = f"incomplete: a fold has no {name} and is not left out, so there is no mean yet"
        if self.mean is not None and self.deviation is not None:
            said = f"{name} {self.mean:.4g} ± {self.deviation:.2g} (standard deviation over folds)"
        if self.variance_shares:
            shares = (f"{name} {share:.0%}" for name, share in self.variance_shares.items())
            notes.append(f"shares of the variance: {', '.join(shares)}")
        path = self.search.path
        shown = (f"cloudgan crossvalidate --show={path}", "shows it again")
        return replace(
            found,
            line=f"{path}: {self.search.states()}; {said}",
            notes=(*found.notes, *notes),
            commands=(shown, (f"cloudgan compare {path}/trials/*", "the runs side by side")),
            done=self.mean is not None,
        )

    def page(self) -> Page:
        """Returns the table of the runs, below mean and spread."""
        view = self.view()
        tables = tuple(one for one in (view.table,) if one)
        title = f"Cross-validation {self.search.path.name}"
        return Page(title, f"{view.line}.", (Section("Runs", tables),))


@command
def crossvalidate(
    options: CrossvalidateOptions, *, progress: Progress | None = None
) -> CrossValidation:
    """Trains one run per fold and repeat, or continues; with `show` starts nothing.

    Args:
        options: What the runs share, and the folds.
        progress: Receives a line for each finished run.

    Raises:
        ConfigError: An option is not valid, or a fold has too few showers to validate.
        DataError: The folder of `show` holds no cross-validation.
        CloudganError: Five runs in a row failed.
    """
    if options.show:
        search = read_search(options.show)
        if search.trials and not any(FOLD in trial.point for trial in search.trials):
            raise DataError(
                f"{options.show} holds a search, not a cross-validation; see `cloudgan search --show`"
            )
        return summarize(search)
    return coordinate(options, "", None, progress or usual_progress())


def coordinate(
    options: CrossvalidateOptions,
    store: str,
    launch: Callable[[], object] | None,
    progress: Progress,
) -> CrossValidation:
    """Trains one run per fold and repeat on this machine, or in the pods of a store.

    Args:
        options: As of `crossvalidate`.
        store: Of the pods; empty: this machine trains.
        launch: As of `search.coordinate`.
        progress: Receives a line for each finished run.

    Raises:
        ConfigError: As of `crossvalidate`, or the options start nothing.
    """
    if options.show:
        raise ConfigError(f"--show={options.show} starts nothing: give it without `deploy`")
    run, folds, repeats = options.run, options.folds, options.repeats
    base, folder = resolve(options.run_keys, config=options.config, run=run, fresh=True)
    base = with_folds(base, folds)
    seed = base.training.seed
    space = {FOLD: Dimension(choices=tuple(range(folds)))}
    if repeats > 1:
        space[SEED] = Dimension(choices=tuple(range(seed, seed + repeats)))
    asked: dict[str, Any] = {
        "sampler": "grid",
        "trials": folds * repeats,
        "blocks": options.blocks,
        "objective": options.objective,
        "store": shared_store(store) if store else "",
    }
    config = parse_search({"base": base, "space": space} | asked)
    if store:
        own = {"blocks": options.blocks} if "blocks" in options.model_fields_set else {}
        check_pods(folder.path.name, config, own)
    found = summarize(start_search(folder.path, config, progress, launch=launch))
    write_page(found.page(), folder.path / PAGE)
    return found


def summarize(search: Search) -> CrossValidation:
    """Returns mean, spread and shares of the variance (two-way analysis of variance)."""
    values = {
        (int(trial.point[FOLD]), int(trial.point.get(SEED, 0))): trial.value
        for trial in search.trials
        if FOLD in trial.point
    }
    folds = sorted({fold for fold, _ in values})
    seeds = sorted({seed for _, seed in values})
    known = {key: value for key, value in values.items() if value is not None}
    if len(folds) < 2 or len(known) < max(len(search.trials), len(folds) * len(seeds)):  # noqa: PLR2004 - a spread needs two
        return CrossValidation(search=search)
    mean = statistics.mean(known.values())
    by_fold = [statistics.mean(known[fold, seed] for seed in seeds) for fold in folds]
    by_seed = [statistics.mean(known[fold, seed] for fold in folds) for seed in seeds]
    shares = None
    total = sum((value - mean) ** 2 for value in known.values())
    if len(seeds) > 1 and total:
        data = len(seeds) * sum((value - mean) ** 2 for value in by_fold) / total
        weights = len(folds) * sum((value - mean) ** 2 for value in by_seed) / total
        shares = {"data": data, "initial weights": weights, "rest": max(0.0, 1 - data - weights)}
    return CrossValidation(
        search=search,
        mean=mean,
        deviation=statistics.stdev(by_fold),
        variance_shares=shares,
    )
