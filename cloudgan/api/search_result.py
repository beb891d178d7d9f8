"""Result of a search, read from its folder: its trials, the best of them, and the front of two objectives."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cloudgan.api.run import Run
from cloudgan.core.errors import ConfigError, DataError, install_command
from cloudgan.reports.page import Graphic, KeyFigures, Page, Section, fragment
from cloudgan.reports.table import Mark, Table
from cloudgan.schema.record import read_if_whole
from cloudgan.schema.run_folder import RunFolder, find_run_folder
from cloudgan.schema.words import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from optuna.trial import FrozenTrial

    from cloudgan.schema.record import RunRecord
    from cloudgan.schema.search import Point, SearchConfig
    from cloudgan.schema.search_exchange import TrialRun
    from cloudgan.search.study import SearchFolder, SearchStudy

_SECOND_LABELS = {"seconds": "program time of the trial (s)", "usd": "price of the trial (USD)"}


@dataclass(frozen=True)
class Fold:
    """One fold of a trial.

    Attributes:
        number: Its first held-out shower.
        value: Its objective; None without one.
        seconds: As of a trial.
        run: Its folder, an ordinary run.
    """

    number: int
    value: float | None
    seconds: float | None
    run: Path


@dataclass(frozen=True)
class Trial:
    """One trial of a search.

    Attributes:
        number: From 0.
        state: complete, pruned, failed or running.
        value: Its objective, with folds their mean; None without one.
        point: Values by key of run.yaml.
        seconds: Program time of all its processes, of a killed one until its last line of the record;
            None: no process recorded any.
        run: Its folder, an ordinary run; with folds that of the first one.
        reason: Why it failed.
        second: Its second objective; None without one.
        folds: Its folds; empty: the trial is one run.
    """

    number: int
    state: str
    value: float | None
    point: Point
    seconds: float | None
    run: Path
    reason: str = ""
    second: float | None = None
    folds: tuple[Fold, ...] = ()

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the objective over the folds; None without a number of each."""
        values = [fold.value for fold in self.folds if fold.value is not None]
        return statistics.stdev(values) if values and len(values) == len(self.folds) else None

    def as_json(self) -> dict[str, Any]:
        """Returns all figures."""
        folds = [vars(fold) | {"run": str(fold.run)} for fold in self.folds]
        return vars(self) | {"run": str(self.run), "folds": folds, "deviation": self.deviation}


@dataclass(frozen=True)
class Search:
    """A search and its trials; a notebook shows them as a table.

    Attributes:
        path: Folder of the search; ``trials/NNNN`` in it are ordinary runs.
        objective: Validation number that ranks the trials.
        trials: By number.
        best_trial: The complete trial with the best objective; None without any.
        second: Second objective, minimized: ``seconds`` or ``usd``; None: there is one objective.
        front: Complete trials that no other beats in both objectives, by the second one.
        limit: Limit that ended the search before its last trial; empty: none.
        direction: ``minimize`` or ``maximize`` the objective.
        importances: Of each key of the space, the largest first; empty: too few trials.
    """

    path: Path
    objective: str
    trials: tuple[Trial, ...]
    best_trial: Trial | None
    second: str | None = None
    front: tuple[Trial, ...] = ()
    limit: str = ""
    direction: str = "minimize"
    importances: Mapping[str, float] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Returns such as ``Search lr``."""
        return "Search" if self.path.name == "search" else f"Search {self.path.name}"

    @property
    def best(self) -> Run | None:
        """The run of the best trial, with folds that of its first one."""
        return Run(self.best_trial.run) if self.best_trial else None

    def seconds_by_state(self) -> dict[str, float]:
        """Returns the program time of the trials that are complete, pruned, failed and running."""
        found: dict[str, float] = {}
        for trial in self.trials:
            found[trial.state] = found.get(trial.state, 0.0) + (trial.seconds or 0.0)
        return found

    def as_json(self) -> dict[str, Any]:
        """Returns all figures."""
        return {
            "search": str(self.path),
            "objective": self.objective,
            "best": self.best_trial.number if self.best_trial else None,
            "second": self.second,
            "front": [trial.number for trial in self.front],
            "seconds_by_state": {k: round(v, 1) for k, v in self.seconds_by_state().items()},
            "limit": self.limit,
            "importances": dict(self.importances),
            "trials": [trial.as_json() for trial in self.trials],
        }

    def table(self) -> Table:
        """Returns a row per trial."""
        note = f"Trials by number; {self.objective} is the median of the last three validations."
        if self._has_folds:
            note += " It is the mean over the folds, with their standard deviation."
        if self.best_trial:
            note += f" The best is trial {self.best_trial.number}, {self.best_trial.run}."
        if self.limit:
            note += f" {self.limit} ended the search; `cloudgan search {self.path}` continues it."
        return self._rows(self.trials, note)

    @property
    def _has_folds(self) -> bool:
        return any(trial.folds for trial in self.trials)

    def front_table(self) -> Table:
        """Returns a row per trial of the front, the one with the smallest second objective first."""
        note = f"Pareto front: no other trial is better in {self.objective} and in {self.second}."
        return self._rows(self.front, note)

    def tables(self) -> tuple[Table, ...]:
        """Returns the trials, and with two objectives the front."""
        return (self.table(), self.front_table()) if self.second else (self.table(),)

    def page(self) -> Page:
        """Returns the report: the best trial, history, importance, parallel coordinates and all trials."""
        sections: list[Section] = []
        if self.best_trial:
            sections = [
                Section("Best trial", (self._best_figures(self.best_trial),)),
                *self._figures(),
            ]
        if self.second and self.front:
            sections.append(Section("Pareto front", (self._plot(), self.front_table())))
        sections.append(Section("Trials", (replace(self.table(), interactive=True),)))
        states = [trial.state for trial in self.trials]
        lead = ", ".join(f"{states.count(name)} {name}" for name in dict.fromkeys(states))
        return Page(self.title, f"Trials: {lead or 'none'}.", tuple(sections))

    def _best_figures(self, best: Trial) -> KeyFigures:
        better = "lower" if self.direction == "minimize" else "higher"
        return KeyFigures(
            (
                (f"{best.value:.4g}", in_words(self.objective), f"{better} is better"),
                (f"trial {best.number}", "the best", str(best.run)),
                *((_value_text(value), key_name(key), "") for key, value in best.point.items()),
            )
        )

    def _figures(self) -> Iterator[Section]:
        from cloudgan.api.search_figures import history, importance, parallel

        complete = [
            (trial.number, trial.value, trial.point)
            for trial in self.trials
            if trial.state == "complete" and trial.value is not None
        ]
        others = {
            state: [one.number for one in self.trials if one.state == state]
            for state in ("pruned", "failed")
        }
        best = self.best_trial.number if self.best_trial else 0
        label, sign = in_words(self.objective), 1 if self.direction == "minimize" else -1
        shown = {state: numbers for state, numbers in others.items() if numbers}
        yield Section("History", (history(complete, shown, best, label=label, sign=sign),))
        if self.importances:
            yield Section("Importance of the keys", (importance(self.importances),))
        if len(complete) > 1:
            yield Section("Parallel coordinates", (parallel(complete, best, label=label),))

    def _rows(self, trials: tuple[Trial, ...], note: str) -> Table:
        keys = list(dict.fromkeys(key for trial in self.trials for key in trial.point))
        names = list(map(key_name, keys))
        second = ("usd",) if self.second == "usd" else ()
        spread = ("deviation",) if self._has_folds else ()
        rows = tuple(
            (
                trial.number,
                Mark(True, "best") if trial is self.best_trial else trial.state,
                trial.value,
                *(trial.deviation for _ in spread),
                *(trial.point.get(key) for key in keys),
                trial.seconds,
                *(trial.second for _ in second),
            )
            for trial in trials
        )
        heads = ("trial", "state", self.objective, *spread, *names, "seconds")
        heads += tuple("USD" for _ in second)
        priority = f"010{'3' * len(spread)}{'2' * len(names)}4{'3' * len(second)}"
        return Table(heads, rows, note, priority=priority)

    def _plot(self) -> Graphic:
        from cloudgan.api.search_figures import two_objectives

        others = tuple(trial for trial in self.trials if trial not in self.front)
        series = {"Pareto front": self.front, "other trials": others}
        return two_objectives(
            {
                name: [
                    (trial.second, trial.value, trial.number)
                    for trial in trials
                    if trial.value is not None and trial.second is not None
                ]
                for name, trials in series.items()
            },
            (_SECOND_LABELS[self.second or "seconds"], in_words(self.objective)),
        )

    def __repr__(self) -> str:
        best = self.best_trial
        said = (
            f"best trial {best.number}, {self.objective} {best.value:.4g}"
            if best
            else "no complete trial"
        )
        return f"<{self.title}: {len(self.trials)} trials, {said}>"

    def _repr_html_(self) -> str:
        return fragment((Section(self.title, self.tables()),))


def key_name(key: str) -> str:
    """Returns a key of run.yaml in words: ``learning rate`` for ``model.learning_rate``."""
    group, _, name = key.rpartition(".")
    words = name.replace("_", " ")
    return f"weight of {words}" if group.endswith("loss_weights") else words


def _value_text(value: float | str | bool) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def read_search(path: str | Path) -> Search:
    """Reads a search from its folder; nothing is started.

    Raises:
        DataError: The folder holds no search.
    """
    folder, config, study = open_search(path)
    return search_result(folder, config, study)


def open_search(path: str | Path) -> tuple[SearchFolder, SearchConfig, SearchStudy]:
    """Returns the folder of a search, its configuration and its history; nothing is started.

    Raises:
        DataError: The folder holds no search.
    """
    check_extra()
    from cloudgan.search.study import SearchFolder, SearchStudy

    folder = SearchFolder(find_run_folder(path).path)
    config = folder.read_config()
    if config is None:
        raise DataError(f"{path}: no search.json; start a search with `cloudgan search SPACE.yaml`")
    return folder, config, SearchStudy(folder, config, read_only=True)


def check_extra() -> None:
    """Checks that the packages of a search are installed.

    Raises:
        ConfigError: One is missing.
    """
    for name in ("optuna", "sklearn"):
        if find_spec(name) is None:
            raise ConfigError(f"a search needs {name}: {install_command('search')}")


def search_result(
    folder: SearchFolder, config: SearchConfig, study: SearchStudy, limit: str = ""
) -> Search:
    """Returns the trials of a search.

    Args:
        folder: Of the search.
        config: Of the search.
        study: Its history.
        limit: That ended it before its last trial; empty: none.
    """
    trials = tuple(_trial(folder, config, study, one) for one in study.trials())
    best = study.best()
    return Search(
        folder.path,
        config.objective,
        trials,
        trials[best.number] if best else None,
        second=config.second,
        front=tuple(trials[one.number] for one in study.front()),
        limit=limit,
        direction=config.direction,
        importances=study.importances(),
    )


def _trial(
    folder: SearchFolder, config: SearchConfig, study: SearchStudy, one: FrozenTrial
) -> Trial:
    from cloudgan.search.objectives import seconds_of_runs
    from cloudgan.search.study import REASON, state_name

    values: list[float] = one.values or []
    runs = config.runs_of(one.number)
    records = {run: read_if_whole(RunFolder(folder.run(run)).record_file) for run in runs}
    return Trial(
        number=one.number,
        state=state_name(one),
        value=values[0] if values else None,
        point=dict(one.params),
        seconds=seconds_of_runs(records.values()),
        run=folder.run(runs[0]),
        reason=str(one.user_attrs.get(REASON, "")),
        second=values[1] if len(values) > 1 else None,
        folds=_folds(folder, study.run_objectives(one.number), records) if config.folds > 1 else (),
    )


def _folds(
    folder: SearchFolder,
    objectives: Mapping[TrialRun, Sequence[float]],
    records: Mapping[TrialRun, RunRecord],
) -> tuple[Fold, ...]:
    from cloudgan.search.objectives import spent_seconds

    found = []
    for run, record in records.items():
        value = objectives[run][0] if run in objectives else None
        found.append(Fold(run.fold or 0, value, spent_seconds(record), folder.run(run)))
    return tuple(found)
