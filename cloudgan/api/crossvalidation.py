"""Cross-validation on this machine: the use case of `cloudgan crossvalidate`.

Fold f of K holds out every K-th shower from number f on. The runs are the trials of a search over the
folds (and seeds), so blocks, continuation after a kill, and `--show` are those of `cloudgan search`.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.api.run_options import resolve
from cloudgan.api.search import start_search
from cloudgan.api.search_result import read_search
from cloudgan.core import ranges
from cloudgan.core.errors import DataError
from cloudgan.reports.page import Section, fragment
from cloudgan.reports.table import Table
from cloudgan.schema.search import FOLD, Dimension, parse_search, with_folds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cloudgan.api.search_result import Search
    from cloudgan.core.progress import Progress

DEFAULT_RUN = "runs/crossvalidation"
SEED = "training.seed"


@dataclass(frozen=True)
class CrossValidation:
    """The runs of all folds; a notebook shows them as a table.

    Attributes:
        search: The runs, one trial each.
        mean: Of the objective over all folds and repeats; None: a fold has no number.
        deviation: Standard deviation over the folds (means over their repeats); None as `mean`.
        variance_shares: Of the variance between all runs: between folds (data), between repeats
            (initial weights), and the rest; None with one repeat.
    """

    search: Search
    mean: float | None
    deviation: float | None
    variance_shares: dict[str, float] | None

    def as_json(self) -> dict[str, Any]:
        """Returns all figures."""
        figures = {"mean": self.mean, "deviation": self.deviation, "shares": self.variance_shares}
        return figures | self.search.as_json()

    def table(self) -> Table:
        """Returns a row per run, with mean and spread below."""
        found = self.search.table()
        name = self.search.objective
        if self.mean is None or self.deviation is None:
            note = f"Incomplete: a fold without a {name} is not left out, so there is no mean yet."
        else:
            note = f"{name} {self.mean:.4g} ± {self.deviation:.2g} (standard deviation over folds)."
        if self.variance_shares:
            shares = ", ".join(
                f"{name} {share:.0%}" for name, share in self.variance_shares.items()
            )
            note += f" Shares of the variance: {shares}."
        return Table(found.columns, found.rows, note)

    def _repr_html_(self) -> str:
        return fragment((Section(f"Cross-validation {self.search.path.name}", (self.table(),)),))


def run_crossvalidation(
    keys: Mapping[str, Any],
    *,
    config: str | None,
    run: str | None,
    folds: int,
    repeats: int,
    blocks: int,
    objective: str,
    progress: Progress,
) -> CrossValidation:
    """Trains one run per fold and repeat, and returns mean and spread of the objective.

    Args:
        keys: Options of `train` by their dotted keys; None is not set.
        config: A run.yaml that all runs share; options override its keys.
        run: Folder; the same call continues it. Default: runs/crossvalidation.
        folds: K; each holds out one shower of K.
        repeats: Runs of each fold, with consecutive seeds.
        blocks: Runs at the same time.
        objective: Validation number, the median of the last three.
        progress: Receives a line for each finished run.

    Raises:
        ConfigError: An option is not valid, or a fold has too few showers to validate.
        CloudganError: Five runs in a row failed.
    """
    ranges.check(folds=folds, repeats=repeats, blocks=blocks)
    base, folder = resolve(keys, config=config, run=run or DEFAULT_RUN, fresh=True)
    base = with_folds(base, folds)
    seed = base.training.seed
    space = {FOLD: Dimension(choices=tuple(range(folds)))}
    if repeats > 1:
        space[SEED] = Dimension(choices=tuple(range(seed, seed + repeats)))
    asked: dict[str, Any] = {"sampler": "grid", "trials": folds * repeats, "blocks": blocks}
    search = parse_search({"base": base, "space": space, "objective": objective} | asked)
    return summarize(start_search(folder.path, search, progress))


def read_crossvalidation(path: str | Path) -> CrossValidation:
    """Reads a cross-validation from its folder; nothing is started.

    Raises:
        DataError: The folder holds none.
    """
    found = read_search(path)
    if found.trials and not any(FOLD in trial.point for trial in found.trials):
        raise DataError(
            f"{path} holds a search, not a cross-validation; see `cloudgan search --show`"
        )
    return summarize(found)


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
        return CrossValidation(search, None, None, None)
    mean = statistics.mean(known.values())
    by_fold = [statistics.mean(known[fold, seed] for seed in seeds) for fold in folds]
    by_seed = [statistics.mean(known[fold, seed] for fold in folds) for seed in seeds]
    shares = None
    total = sum((value - mean) ** 2 for value in known.values())
    if len(seeds) > 1 and total:
        data = len(seeds) * sum((value - mean) ** 2 for value in by_fold) / total
        weights = len(folds) * sum((value - mean) ** 2 for value in by_seed) / total
        shares = {"data": data, "initial weights": weights, "rest": max(0.0, 1 - data - weights)}
    return CrossValidation(search, mean, statistics.stdev(by_fold), shares)
