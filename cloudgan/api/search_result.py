"""Result of a search: its trials, the best of them, and the front of two objectives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.api.run import Run
from cloudgan.reports.page import Page, Section, fragment
from cloudgan.reports.plot_frame import Axis
from cloudgan.reports.scatter import Point as PlotPoint
from cloudgan.reports.scatter import PointSeries, Scatter
from cloudgan.reports.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.schema.search import Point

_SECOND_LABELS = {"seconds": "program time of the trial (s)", "usd": "price of the trial (USD)"}


@dataclass(frozen=True)
class Trial:
    """One trial of a search.

    Attributes:
        number: From 0.
        state: complete, pruned, failed or running.
        value: Its objective; None without one.
        point: Values by key of run.yaml.
        seconds: Program time of all its processes, of a killed one until its last line of the record;
            None: no process recorded any.
        run: Its folder, an ordinary run.
        reason: Why it failed.
        second: Its second objective; None without one.
    """

    number: int
    state: str
    value: float | None
    point: Point
    seconds: float | None
    run: Path
    reason: str = ""
    second: float | None = None


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
    """

    path: Path
    objective: str
    trials: tuple[Trial, ...]
    best_trial: Trial | None
    second: str | None = None
    front: tuple[Trial, ...] = ()

    @property
    def best(self) -> Run | None:
        """The run of the best trial."""
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
            "trials": [vars(trial) | {"run": str(trial.run)} for trial in self.trials],
        }

    def table(self) -> Table:
        """Returns a row per trial."""
        note = f"Trials by number; {self.objective} is the median of the last three validations."
        if self.best_trial:
            note += f" The best is {self.best_trial.run}."
        return self._rows(self.trials, note)

    def front_table(self) -> Table:
        """Returns a row per trial of the front, the one with the smallest second objective first."""
        note = f"Pareto front: no other trial is better in {self.objective} and in {self.second}."
        return self._rows(self.front, note)

    def tables(self) -> tuple[Table, ...]:
        """Returns the trials, and with two objectives the front."""
        return (self.table(), self.front_table()) if self.second else (self.table(),)

    def page(self) -> Page:
        """Returns the report: the tables, and with two objectives the trials between both."""
        sections = [Section("Trials", (self.table(),))]
        if self.second:
            sections.insert(0, Section("Pareto front", (self._plot(), self.front_table())))
        states = [trial.state for trial in self.trials]
        lead = ", ".join(f"{states.count(name)} {name}" for name in dict.fromkeys(states))
        return Page(f"Search {self.path.name}", f"Trials: {lead or 'none'}.", tuple(sections))

    def _rows(self, trials: tuple[Trial, ...], note: str) -> Table:
        keys = list(self.trials[0].point) if self.trials else []
        names = [key.rpartition(".")[2].replace("_", " ") for key in keys]
        second = ("usd",) if self.second == "usd" else ()
        rows = tuple(
            (
                trial.number,
                trial.state,
                trial.value,
                *(trial.point[key] for key in keys),
                trial.seconds,
                *(trial.second for _ in second),
            )
            for trial in trials
        )
        heads = ("trial", "state", self.objective, *names, "seconds", *("USD" for _ in second))
        return Table(heads, rows, note)

    def _plot(self) -> Scatter:
        others = tuple(trial for trial in self.trials if trial not in self.front)
        series = (("Pareto front", self.front), ("other trials", others))
        return Scatter(
            f"{self.objective} against {self.second}",
            Axis(_SECOND_LABELS[self.second or "seconds"]),
            Axis(self.objective),
            tuple(PointSeries(name, _points(trials)) for name, trials in series),
        )

    def _repr_html_(self) -> str:
        return fragment((Section(f"Search {self.path.name}", self.tables()),))


def _points(trials: tuple[Trial, ...]) -> tuple[PlotPoint, ...]:
    return tuple(
        PlotPoint(
            trial.second,
            trial.value,
            f"trial {trial.number}",
            "\n".join(f"{key} = {value}" for key, value in trial.point.items()),
        )
        for trial in trials
        if trial.value is not None and trial.second is not None
    )
