"""Result of a search, read from its folder: its trials, the best of them, and the front of two objectives."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.reports.page import KeyFigures, Page, Section
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Mark, Table
from cloudgan.schema.record import RunRecord, read_if_whole
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.search import Direction, Point, SearchConfig, Second
from cloudgan.schema.search_exchange import TrialRun
from cloudgan.schema.words import in_words
from cloudgan.search.folder import SearchFolder
from cloudgan.search.opened import open_search

if TYPE_CHECKING:  # Optuna is an extra
    from optuna.trial import FrozenTrial

    from cloudgan.search.study import SearchStudy

PAGE = "report.html"
_MOST_ROWS = 12
"""Of a screen; a search has 25 trials by default."""


class Fold(Document):
    """One fold of a trial."""

    number: int = Field(description="its first held-out shower")
    value: float | None = Field(description="its objective")
    seconds: float | None = Field(description="as of a trial")
    run: Path = Field(description="its folder, an ordinary run")


class Trial(Document):
    """One trial of a search."""

    number: int = Field(description="from 0")
    state: str = Field(description="complete, pruned, failed or running")
    value: float | None = Field(description="its objective, with folds their mean")
    point: Point = Field(description="values by key of run.yaml")
    seconds: float | None = Field(
        description="program time of all its processes, of a killed one until the last line of its record"
    )
    run: Path = Field(description="its folder, an ordinary run; with folds that of the first one")
    reason: str = Field("", description="why it failed")
    second: float | None = Field(None, description="its second objective")
    folds: tuple[Fold, ...] = Field((), description="empty: the trial is one run")
    deviation: float | None = Field(
        None, description="standard deviation of the objective over the folds, if each has a number"
    )


class Search(Result):
    """A search and its trials."""

    path: Path = Field(description="folder; trials/NNNN in it are ordinary runs")
    objective: str = Field(description="validation number that ranks the trials")
    trials: tuple[Trial, ...] = Field(description="by number")
    best: int | None = Field(description="number of the complete trial with the best objective")
    second: Second | None = Field(None, description="second objective, minimized")
    front: tuple[int, ...] = Field(
        (), description="complete trials that no other beats in both objectives, by the second one"
    )
    limit: str = Field("", description="that ended the search before its last trial")
    direction: Direction = "minimize"
    importances: dict[str, float] = Field(
        {}, description="of each key of the space, the largest first; empty: too few trials"
    )

    @property
    def best_trial(self) -> Trial | None:
        """The complete trial with the best objective; None without any."""
        return None if self.best is None else self.trials[self.best]

    def view(self) -> View:
        """Returns the best trials, and how the search or its best trial goes on."""
        best, failed = self.best_trial, [one for one in self.trials if one.state == "failed"]
        said = "no complete trial"
        if best:
            said = f"best: trial {best.number}, {self.objective} {best.value:.4g}"
        warnings = [f"trial {failed[-1].number} failed: {failed[-1].reason}"] if failed else []
        commands = [(f"cloudgan search {self.path} --trials={len(self.trials) + 25}", "asks more")]
        if self.limit:
            warnings.append(f"{self.limit} ended the search before its last trial")
            commands = [(f"cloudgan search {self.path}", "continues it")]
        if best:
            commands += [
                (f"cloudgan validate {best.run}", "the best trial against Monte Carlo"),
                (f"cloudgan train --config={best.run}/run.yaml --run=runs/best", "trains it again"),
            ]
        if (self.path / PAGE).exists():
            commands.insert(0, (f"cloudgan report {self.path}", "history, importance of the keys"))
        notes = [f"{self.objective}: median of the last three validations"]
        if self._has_folds:
            notes.append("objective: the mean over the folds, with their standard deviation")
        if self.second:
            numbers = ", ".join(map(str, self.front)) or "none"
            notes.append(
                f"front: no other trial is better in {self.objective} and in {self.second}: {numbers}"
            )
        shown, ranked = self.trials, self._ranked()
        if len(shown) > _MOST_ROWS:
            shown = tuple(ranked[:_MOST_ROWS])
            notes.insert(0, f"the best {len(shown)} of {len(self.trials)}; -v shows all")
        return View(
            f"{self.path}: {self.states()}; {said}",
            table=self._rows(shown) if shown else None,
            notes=tuple(notes) if shown else (),
            warnings=tuple(warnings),
            commands=tuple(commands),
            basis=(self._rows(self.trials),) if len(shown) < len(self.trials) else (),
            done=bool(best),
        )

    def _ranked(self) -> list[Trial]:
        """Returns the trials, best first, those without an objective last."""
        sign = 1 if self.direction == "minimize" else -1
        return sorted(
            self.trials,
            key=lambda one: (
                one.state != "complete",
                math.inf if one.value is None else sign * one.value,
            ),
        )

    def states(self) -> str:
        """Returns such as ``9 trials (8 complete, 1 failed)``."""
        states = [trial.state for trial in self.trials]
        counts = ", ".join(f"{states.count(name)} {name}" for name in dict.fromkeys(states))
        return f"{len(states)} trials" + (f" ({counts})" if counts else "")

    @property
    def _has_folds(self) -> bool:
        return any(trial.folds for trial in self.trials)

    def page(self) -> Page:
        """Returns the report: the best trial, history, importance, parallel coordinates and all trials."""
        from cloudgan.api.search_figures import search_figures, two_objectives  # they import this

        sections: list[Section] = []
        if self.best_trial:
            best = Section("Best trial", (self._best_figures(self.best_trial),))
            sections = [best, *search_figures(self)]
        if self.second and self.front:
            front = self._rows(tuple(self.trials[number] for number in self.front))
            sections.append(Section("Pareto front", (two_objectives(self), front)))
        note = f"Trials by number; {self.objective} is the median of the last three validations."
        table = replace(self._rows(self.trials), caption=note, interactive=True)
        sections.append(Section("Trials", (table,)))
        title = "Search" if self.path.name == "search" else f"Search {self.path.name}"
        return Page(title, f"{self.states()}.", tuple(sections))

    def _best_figures(self, best: Trial) -> KeyFigures:
        better = "lower" if self.direction == "minimize" else "higher"
        return KeyFigures(
            (
                (f"{best.value:.4g}", in_words(self.objective), f"{better} is better"),
                (f"trial {best.number}", "the best", str(best.run)),
                *((_value_text(value), key_name(key), "") for key, value in best.point.items()),
            )
        )

    def _rows(self, trials: Sequence[Trial]) -> Table:
        keys = list(dict.fromkeys(key for trial in self.trials for key in trial.point))
        names = list(map(key_name, keys))
        second = ("usd",) if self.second == "usd" else ()
        spread = ("deviation",) if self._has_folds else ()
        rows = tuple(
            (
                trial.number,
                self._state(trial),
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
        return Table(heads, rows, priority=priority)

    def _state(self, trial: Trial) -> Mark | str:
        if trial.number == self.best:
            return Mark(True, "best")
        return "front" if trial.number in self.front else trial.state


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
        path=folder.path,
        objective=config.objective,
        trials=trials,
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
    from cloudgan.search.objectives import seconds_of_runs
    from cloudgan.search.study import REASON, state_name

    values: list[float] = one.values or []
    runs = config.runs_of(one.number)
    records = {run: read_if_whole(RunFolder(folder.run(run)).record_file) for run in runs}
    folds = _folds(folder, study.run_objectives(one.number), records) if config.folds > 1 else ()
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


def _folds(
    folder: SearchFolder,
    objectives: Mapping[TrialRun, Sequence[float]],
    records: Mapping[TrialRun, RunRecord],
) -> tuple[Fold, ...]:
    from cloudgan.search.objectives import spent_seconds

    found = []
    for run, record in records.items():
        value = objectives[run][0] if run in objectives else None
        seconds = spent_seconds(record)
        found.append(Fold(number=run.fold or 0, value=value, seconds=seconds, run=folder.run(run)))
    return tuple(found)
