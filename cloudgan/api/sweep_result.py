"""Result of a sweep of seeds: cost and quality of each run, their mean and spread."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import Field

from cloudgan.api.cost import price
from cloudgan.core.errors import DataError, counted
from cloudgan.launch.plan.request import LaunchRequest
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Cell, Number, Table, usd_text
from cloudgan.schema import record
from cloudgan.schema.cost_report import at_least
from cloudgan.schema.run_folder import RunFolder

_FIRST_HEADS = ("run", "seed", "epochs", "train s", "USD")


class SeedResult(NamedTuple):
    """The run of one seed; None: unknown.

    The time is that of all its processes, `unknown_usd` names line items with unknown cost, and the metrics are
    those of the best validation, or of the last one if none is the best.
    """

    run: str
    seed: int
    epochs: int | None
    train_seconds: float | None
    usd: float | None
    unknown_usd: tuple[str, ...]
    metrics: Mapping[str, float]


def seed_result(seed: int, folder: RunFolder, request: LaunchRequest) -> SeedResult:
    """Returns cost and quality of a run that ended; unknown without its record on this machine.

    The offer or price file of the request prices a run on your own nodes.
    """
    name = folder.path.name
    try:
        found = record.read(folder.record_file)
        report = price(folder, offer=request.price_as, price_file=request.price_file).report
    except DataError:
        return SeedResult(name, seed, None, None, None, (), {})
    stopped, validations = found.stopped(), found.validations()
    chosen = [*validations[-1:], *(one for one in validations if one.best)]
    return SeedResult(
        run=name,
        seed=seed,
        epochs=found.finished_epochs(),
        train_seconds=stopped.train_seconds if stopped else None,
        usd=report.known_usd,
        unknown_usd=() if report.known_usd is None else report.totals.unknown,
        metrics=dict(chosen[-1].metrics) if chosen else {},
    )


class SweepResult(Result):
    """Runs of a sweep."""

    sweep: str = Field(description="its name")
    runs: tuple[SeedResult, ...] = Field(description="one per seed")

    @property
    def usd(self) -> float | None:
        """Known cost of all runs; None: no price is known."""
        known = [run.usd for run in self.runs if run.usd is not None]
        return sum(known) if known else None

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics that a run has."""
        return tuple(dict.fromkeys(name for run in self.runs for name in run.metrics))

    def mean(self, metric: str) -> float | None:
        """Mean of a metric over the seeds; None: not finite for a run, or missing."""
        values = self._values(metric)
        return statistics.fmean(values) if values else None

    def spread(self, metric: str) -> float | None:
        """Standard deviation of a metric over the seeds (n - 1); None for fewer than two runs."""
        values = self._values(metric)
        return statistics.stdev(values) if len(values) > 1 else None

    def _values(self, metric: str) -> list[float]:
        values = [run.metrics.get(metric, math.nan) for run in self.runs]
        return values if all(map(math.isfinite, values)) else []

    def as_json(self) -> dict[str, Any]:
        """Returns the runs, mean and spread of the metrics, and the cost of all runs."""
        finite = {
            run.run: {
                name: value if math.isfinite(value) else None for name, value in run.metrics.items()
            }
            for run in self.runs
        }
        return {
            "schema_version": self.schema_version,
            "sweep": self.sweep,
            "state": "finished",
            "runs": [run._asdict() | {"metrics": finite[run.run]} for run in self.runs],
            "mean": {name: self.mean(name) for name in self.metrics},
            "spread": {name: self.spread(name) for name in self.metrics},
            "usd": self.usd,
        }

    def view(self) -> View:
        """Returns a row per seed, and one of all."""
        usd = f", {usd_text(self.usd)} USD" if self.usd is not None else ""
        compare = f"cloudgan compare 'runs/{self.sweep}-seed-*'"
        return View(
            f"{self.sweep}: {counted(len(self.runs), 'run')} finished{usd}",
            self.table(),
            commands=(
                (compare, "shows speed and cost"),
                (f"cloudgan down {self.sweep}", "deletes their resources"),
            ),
            done=True,
        )

    def table(self) -> Table:
        """Returns a row per seed, and one of all."""
        rows: list[tuple[Cell, ...]] = [
            (
                run.run,
                run.seed,
                run.epochs,
                run.train_seconds,
                _usd(run.usd, run.unknown_usd),
                *(run.metrics.get(name) for name in self.metrics),
            )
            for run in self.runs
        ]
        unknown = tuple(dict.fromkeys(name for run in self.runs for name in run.unknown_usd))
        seconds = [run.train_seconds for run in self.runs if run.train_seconds is not None]
        is_timed = len(seconds) == len(self.runs)
        total: tuple[Cell, ...] = (
            "all",
            "",
            "",
            sum(seconds) if is_timed else None,
            _usd(self.usd, unknown or (() if self._all_priced() else ("a run",))),
            *(self._mean_cell(name) for name in self.metrics),
        )
        note = (
            "Metrics of the best validation; all: mean and standard deviation over the seeds."
            if self.metrics
            else "No run was validated: --validate-every=1 adds the quality of each seed."
        )
        return Table((*_FIRST_HEADS, *self.metrics), (*rows, total), note)

    def _all_priced(self) -> bool:
        return all(run.usd is not None for run in self.runs)

    def _mean_cell(self, metric: str) -> Cell:
        mean, spread = self.mean(metric), self.spread(metric)
        if mean is None:
            return None
        return Number(mean, f"{mean:.4g}" if spread is None else f"{mean:.4g} ± {spread:.2g}")


def _usd(usd: float | None, unknown: tuple[str, ...]) -> Cell:
    return None if usd is None else Number(usd, at_least(usd, unknown))
