"""Reads the result of a search from its study and the records of its trials."""

from __future__ import annotations

import statistics

from optuna.trial import FrozenTrial

from cloudgan.schema.record import read_if_whole
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.search import SearchConfig
from cloudgan.search.folder import SearchFolder
from cloudgan.search.objectives import seconds_of_runs, spent_seconds
from cloudgan.search.result import Search
from cloudgan.search.study import REASON, SearchStudy, state_name
from cloudgan.search.trials import Fold, Trial

_MORE = 25


def search_result(
    folder: SearchFolder, config: SearchConfig, study: SearchStudy, limit: str = ""
) -> Search:
    """Returns the trials of a search."""
    trials = tuple(_trial(folder, config, study, one) for one in study.trials())
    best = study.best()
    return Search(
        path=folder.path,
        objective=config.objective,
        trials=trials,
        size=study.size,
        more=0 if config.sampler == "grid" else _MORE,
        best=best.number if best else None,
        second=config.second,
        front=tuple(one.number for one in study.front()),
        limit=limit,
        direction=config.direction,
        importances=dict(study.importances()),
    )


def _trial(
    folder: SearchFolder, config: SearchConfig, study: SearchStudy, one: FrozenTrial
) -> Trial:
    values: list[float] = one.values or []
    runs = config.runs_of(one.number)
    records = {run: read_if_whole(RunFolder(folder.run(run)).record_file) for run in runs}
    known = study.run_objectives(one.number)
    folds = tuple(
        Fold(
            number=run.fold or 0,
            value=known[run][0] if run in known else None,
            seconds=spent_seconds(record),
            run=folder.run(run),
        )
        for run, record in (records.items() if config.folds > 1 else ())
    )
    numbers = [fold.value for fold in folds if fold.value is not None]
    return Trial(
        number=one.number,
        state=state_name(one),
        value=values[0] if values else None,
        point=dict(one.params),
        seconds=seconds_of_runs(records.values()),
        run=folder.run(runs[0]),
        reason=str(one.user_attrs.get(REASON, "")),
        second=values[1] if len(values) > 1 else None,
        folds=folds,
        deviation=statistics.stdev(numbers) if numbers and len(numbers) == len(folds) else None,
    )
