"""`cloudgan crossvalidate`: one run per fold on this machine."""

from __future__ import annotations

from typing import Any

from cloudgan.api.crossvalidation import read_crossvalidation, run_crossvalidation
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.options.training_flags import training_flags
from cloudgan.cli.views.output import print_json, print_table, progress_bars
from cloudgan.schema.stop_criterion import METRIC

_COLUMNS = 120


@with_flags(training=training_flags)
def crossvalidate(
    folder: str | None = None,
    *,
    folds: int = 5,
    repeats: int = 1,
    run: str | None = None,
    blocks: int = 1,
    objective: str = METRIC,
    json: bool = False,
    training: tuple[dict[str, Any], str | None] = ({}, None),
) -> None:
    """Trains one run per fold, and prints mean and spread of a validation number.

    Args:
        folder: A cross-validation whose runs are printed; nothing is started.
        folds: Fold f holds out every N-th shower from number f on.
        repeats: Runs of each fold, with consecutive seeds: what initial weights change beside the data.
        run: Folder. Default: runs/crossvalidation. The same command continues it.
        blocks: Runs at the same time, each with its share of the cores or GPUs.
        objective: Validation number, as in --until.
        json: Print the result as JSON.
        training: The shared training flags.
    """
    keys, config = training
    if folder:
        found = read_crossvalidation(folder)
    else:
        with progress_bars(as_json=json) as progress:
            found = run_crossvalidation(
                keys,
                config=config,
                run=run,
                folds=folds,
                repeats=repeats,
                blocks=blocks,
                objective=objective,
                progress=progress,
            )
    if json:
        print_json(found.as_json())
    else:
        print_table(found.table(), width=_COLUMNS)
