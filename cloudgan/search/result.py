"""Result of a search: its trials, the best of them, and the front of two objectives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from cloudgan.core.errors import counted
from cloudgan.reports.page import KeyFigures, Page, Section
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Mark, Table
from cloudgan.reports.words import in_words
from cloudgan.schema.search import Direction, Second
from cloudgan.search.figures import search_figures, two_objectives
from cloudgan.search.trials import Trial, key_name

PAGE = "report.html"
_MOST_ROWS = 12
"""Of a screen; a search has 25 trials by default."""


class Search(Result):
    """A search and its trials."""

    path: Path = Field(description="folder; trials/NNNN in it are ordinary runs")
    objective: str = Field(description="validation number that ranks the trials")
    trials: tuple[Trial, ...] = Field(description="by number")
    size: int = Field(description="number of trials that were asked for")
    more: int = Field(0, exclude=True)
    """Trials that can be asked in addition; a grid has an end."""
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
        whole = len(self.trials) + self.more
        longer = (f"cloudgan search {self.path} --trials={whole}", "asks more")
        commands = [longer] if self.more else []
        if self.limit:
            warnings.append(f"{self.limit} ended the search before its last trial")
        if len(self.trials) < self.size or any(one.state == "unfinished" for one in self.trials):
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
        shown = self.trials
        if len(shown) > _MOST_ROWS:
            sign = 1 if self.direction == "minimize" else -1
            ranked = sorted(
                shown,
                key=lambda one: (
                    one.state != "complete",
                    math.inf if one.value is None else sign * one.value,
                ),
            )
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

    def states(self) -> str:
        """Returns such as ``9 of 25 trials (8 complete, 1 failed)``."""
        states = [trial.state for trial in self.trials]
        counts = ", ".join(f"{states.count(name)} {name}" for name in dict.fromkeys(states))
        begun = "" if len(states) >= self.size else f"{len(states)} of "
        whole = counted(max(self.size, len(states)), "trial")
        return f"{begun}{whole}" + (f" ({counts})" if counts else "")

    @property
    def _has_folds(self) -> bool:
        return any(trial.folds for trial in self.trials)

    def page(self) -> Page:
        """Returns the report: the best trial, history, importance, parallel coordinates and all trials."""
        sections: list[Section] = []
        if self.best_trial:
            best = Section("Best trial", (self._best_figures(self.best_trial),))
            figures = search_figures(
                self.trials, self.best_trial, self.objective, self.direction, self.importances
            )
            sections = [best, *figures]
        if self.second and self.front:
            front = self._rows(tuple(self.trials[number] for number in self.front))
            chart = two_objectives(self.trials, self.front, self.objective, self.second)
            sections.append(Section("Pareto front", (chart, front)))
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


def _value_text(value: float | str | bool) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
