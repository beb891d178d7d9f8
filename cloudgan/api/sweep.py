"""Sweeps of seeds: the same plan once per seed, one run after another on the same nodes.

Each seed is a run of its own, NAME-seed-SEED. On a cloud the nodes of a run wait for the next one, as
with --keep-nodes, and the last run deletes them. The result has cost and quality of each run, their mean and spread.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic import Field

from cloudgan.api.cost import price
from cloudgan.api.plan import SeedPlans, SweepPlan
from cloudgan.core.errors import (
    CloudganError,
    ConfirmationError,
    DataError,
    Interrupted,
    counted,
)
from cloudgan.core.progress import Progress
from cloudgan.launch.operations.deployment import deploy_run
from cloudgan.launch.operations.targets import open_backend, run_of_seed
from cloudgan.launch.plan.request import LaunchRequest
from cloudgan.reports.notebook_progress import usual_progress
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Cell, Number, Table, usd_text
from cloudgan.schema import record
from cloudgan.schema.cost_report import at_least, least
from cloudgan.schema.plan import Plan
from cloudgan.schema.run_folder import RUNS, RunFolder
from cloudgan.schema.run_state import RunState

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
    def unknown_usd(self) -> tuple[str, ...]:
        """What the cost of all runs lacks."""
        names = [name for run in self.runs for name in run.unknown_usd]
        names += [f"all of {run.run}" for run in self.runs if run.usd is None]
        return tuple(dict.fromkeys(names))

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
            "unknown_usd": list(self.unknown_usd),
        }

    def view(self) -> View:
        """Returns a row per seed, and one of all."""
        usd = f", {least(self.unknown_usd)}{usd_text(self.usd)} USD" if self.usd is not None else ""
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
        seconds = [run.train_seconds for run in self.runs if run.train_seconds is not None]
        is_timed = len(seconds) == len(self.runs)
        total: tuple[Cell, ...] = (
            "all",
            "",
            "",
            sum(seconds) if is_timed else None,
            _usd(self.usd, self.unknown_usd),
            *(self._mean_cell(name) for name in self.metrics),
        )
        note = (
            "Metrics of the best validation; all: mean and standard deviation over the seeds."
            if self.metrics
            else "No run was validated: --validate-every=1 adds the quality of each seed."
        )
        return Table((*_FIRST_HEADS, *self.metrics), (*rows, total), note)

    def _mean_cell(self, metric: str) -> Cell:
        mean, spread = self.mean(metric), self.spread(metric)
        if mean is None:
            return None
        return Number(mean, f"{mean:.4g}" if spread is None else f"{mean:.4g} ± {spread:.2g}")


def _usd(usd: float | None, unknown: tuple[str, ...]) -> Cell:
    return None if usd is None else Number(usd, at_least(usd, unknown))


class Sweep(SeedPlans):
    """The runs of several seeds, and how far they are carried out; the same request resumes them."""

    def __init__(
        self,
        text: str,
        request: LaunchRequest,
        *,
        progress: Progress | None = None,
        approve: Callable[[SweepPlan], None] = lambda _: None,
    ) -> None:
        """`text` is that of --seeds.

        `approve` is called with the plan before the first run starts, and again if a later run would need other
        nodes; it raises ConfirmationError to stop.
        """
        super().__init__(text, request)
        self._approve = approve
        self._progress = progress or usual_progress()
        self._approved: Plan | None = None
        self._waiting: list[Plan] = []
        """Plans whose nodes or cluster may wait for a run of this sweep."""

    def run(self) -> SweepResult:
        """Runs all seeds, one after another, and returns their cost and quality.

        Raises:
            CloudganError: As `deploy_run`; the nodes of the sweep are deleted.
            Interrupted: Ctrl-C; the run continues, and the seeds after it are not started.
        """
        self.plan()
        name, seeds, done = self.name, self.seeds, []
        for number, seed in enumerate(seeds):
            run, rest = run_of_seed(name, seed), seeds[number + 1 :]
            self._say(f"seed {seed}, {number + 1} of {len(seeds)}: run {run}")
            try:
                result = self._deploy(number)
            except Interrupted as error:
                raise Interrupted(f"{error}.{_not_started(rest)}") from error
            except KeyboardInterrupt as error:
                raise Interrupted(
                    f"sweep {name} is interrupted; `cloudgan down {name}` deletes what waits"
                    f" for its next run.{_not_started(rest)}"
                ) from error
            except CloudganError as error:
                self._end_waiting()
                if rest and not isinstance(error, ConfirmationError):
                    self._say(_not_started(rest).strip())
                raise
            self._note(*result, keeps=bool(rest))
            done.append(seed_result(seed, RunFolder(RUNS / run), self.request))
        self._end_waiting()
        return SweepResult(sweep=name, runs=tuple(done))

    def _deploy(self, number: int) -> tuple[Plan, RunState | None]:
        def approve(plan: Plan, price_warning: str) -> None:
            if self._approved and _is_as_approved(plan, self._approved):
                return
            found = SweepPlan(
                name=self.name,
                seeds=self.seeds[number:],
                plan=plan,
                shares_nodes=self.shares_nodes,
                price_warning=price_warning,
            )
            self._approve(found)
            self._approved = plan

        previous = self.previous
        return deploy_run(
            self.request_of(number),
            approve,
            progress=self._progress,
            preferred_offer=previous.price.offer if previous and previous.price else None,
        )

    def _note(self, plan: Plan, state: RunState | None, *, keeps: bool) -> None:
        """Remembers the plan of a run that ended, and whose nodes wait now."""
        self.previous = plan
        reused = plan.node_pool.reused if plan.node_pool else None
        self._waiting = [one for one in self._waiting if not reused or one.run != reused.previous]
        if self.shares_nodes and keeps and state is not None:
            self._waiting.append(plan)

    def _end_waiting(self) -> None:
        """Deletes what waits for a run of this sweep that does not come."""
        for plan in self._waiting:
            try:
                backend = open_backend(plan.target, self._say, store=plan.store)
                for deleted in backend.destroy(plan.run):
                    self._say(f"deleted: {deleted}")
            except CloudganError as error:
                self._say(f"{error}; run `cloudgan down {plan.run}`")
        self._waiting = []

    def _say(self, line: str) -> None:
        self._progress.say(line)


def _not_started(seeds: tuple[int, ...]) -> str:
    if not seeds:
        return ""
    names = ", ".join(map(str, seeds))
    return f" Not started: seed {names}; rerun the command to continue the sweep"


def _is_as_approved(plan: Plan, approved: Plan) -> bool:
    """Whether a run needs no other nodes than the run that the user approved."""
    one, two = plan.usd_per_hour, approved.usd_per_hour
    return (
        plan.target.provider == approved.target.provider
        and plan.workers.nodes <= approved.workers.nodes
        and (one == two or (one or math.inf) <= (two or 0.0))
    )
