"""Sweeps of seeds: the same plan once per seed, one run after another on the same nodes.

Each seed is a run of its own, NAME-seed-SEED. On a cloud the nodes of a run wait for the next one, as
with --keep-nodes, and the last run deletes them. The result has cost and quality of each run, their mean and spread.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic import Field

from cloudgan.api.cost import price
from cloudgan.core.errors import (
    CloudganError,
    ConfigError,
    ConfirmationError,
    DataError,
    Interrupted,
    PlanError,
    counted,
    shorten,
)
from cloudgan.core.labels import checked_name
from cloudgan.core.progress import Progress
from cloudgan.core.ranges import MAX_SEED, Range, parse_whole
from cloudgan.launch.operations.deployment import deploy_run
from cloudgan.launch.operations.plan_result import PlanResult
from cloudgan.launch.operations.staging import known_wheels
from cloudgan.launch.operations.targets import open_backend, run_of_seed
from cloudgan.launch.plan.launch_job import asked_job
from cloudgan.launch.plan.launch_plan import make_launch_plan
from cloudgan.launch.plan.request import LaunchRequest
from cloudgan.money.forecast import without_startup
from cloudgan.reports.notebook_progress import usual_progress
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Cell, Number, Table, usd_range, usd_text
from cloudgan.schema import record
from cloudgan.schema.cost_report import at_least
from cloudgan.schema.options.training import Training
from cloudgan.schema.plan import Plan, Workers
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
        least = "at least " if self.unknown_usd else ""
        usd = f", {least}{usd_text(self.usd)} USD" if self.usd is not None else ""
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


_SEED, _BATCH, _GLOBAL_BATCH = (
    "training.seed",
    "training.batch_per_replica",
    "training.global_batch_size",
)
_WAIT_SECONDS = 600.0
"""How long nodes wait for the next seed: it is planned and started within about a minute."""


class SweepPlan(Result):
    """Plan of a sweep: that of its next run, and the cost of all runs that are left."""

    name: str
    seeds: tuple[int, ...] = Field(description="that are left; the run of the first is planned")
    plan: Plan = Field(description="of that run; the others differ in name, seed and limits")
    shares_nodes: bool = Field(description="whether one run after another uses the same nodes")
    price_warning: str = ""

    @property
    def runs(self) -> tuple[str, ...]:
        """Names of the runs."""
        return tuple(run_of_seed(self.name, seed) for seed in self.seeds)

    @property
    def usd(self) -> tuple[float, float] | None:
        """Lowest and highest known cost of all runs; None: unknown. Only the first starts nodes."""
        first, cost, rest = self.plan.usd, self.plan.cost, len(self.seeds) - 1
        if first is None:
            return None
        later = first
        if cost and self.shares_nodes:
            ready = without_startup(cost)
            later = ready.known_low_usd, ready.known_usd
        return first[0] + rest * later[0], first[1] + rest * later[1]

    @property
    def unknown(self) -> tuple[str, ...]:
        """Parts of the cost that are unknown."""
        return self.plan.cost.unknown if self.plan.cost else ()

    def as_json(self) -> dict[str, Any]:
        """Returns the sweep and the plan of its first run."""
        low, high = self.usd or (None, None)
        return {
            "schema_version": self.schema_version,
            "sweep": self.name,
            "seeds": list(self.seeds),
            "runs": list(self.runs),
            "shares_nodes": self.shares_nodes,
            "low_usd": low,
            "high_usd": high,
            "unknown": list(self.unknown),
            "plan": self.plan.model_dump(mode="json"),
        }

    def _first(self) -> PlanResult:
        return PlanResult(plan=self.plan, price_warning=self.price_warning, is_first=True)

    def view(self) -> View:
        """Returns the plan of the next run below the cost of all."""
        view, count = self._first().view(), len(self.seeds)
        nodes = ", on the nodes of the first" if self.shares_nodes else ""
        if self.usd is None:
            usd = "unknown, as that of the first"
        else:
            rest = f", plus {', '.join(self.unknown)} (unknown)" if self.unknown else ""
            usd = f"{usd_range(*self.usd)} USD{rest}"
        line = f"Sweep {self.name}: {count} runs, one after another{nodes}\n{view.line}"
        return replace(view, line=line, notes=(f"all runs {usd}", *view.notes))

    def question(self) -> str:
        """Returns the question before the sweep is carried out."""
        return f"{self._first().question()[:-1]} for {counted(len(self.seeds), 'run')}?"


class Sweep:
    """A request for several seeds, and how far it is carried out; the same request resumes it."""

    def __init__(
        self,
        text: str,
        request: LaunchRequest,
        *,
        progress: Progress | None = None,
        approve: Callable[[SweepPlan], None] = lambda _: None,
    ) -> None:
        """`text` is that of --seeds; the name is --name, or that of a run without them.

        `approve` is called with the plan before the first run starts, and again if a later run would need other
        nodes; it raises ConfirmationError to stop.
        """
        self._seeds, self._request = _seeds(text, request.training), request
        job = asked_job(request)
        if job.kind.no_seeds:
            raise ConfigError(job.kind.no_seeds)
        workers = Workers(nodes=request.nodes or 1, cpus=1, memory_gib=1)
        self._name = request.name or job.on(workers).name
        for seed in self._seeds:
            checked_name(run_of_seed(self._name, seed))
        self._approve = approve
        self._progress = progress or usual_progress()
        self._approved: Plan | None = None
        self._waiting: list[Plan] = []
        """Plans whose nodes or cluster may wait for a run of this sweep."""
        self._shares_nodes = (
            request.is_provisioned
            and len(self._seeds) > 1
            and not (request.flex_start or request.reservation)
        )
        self._previous: Plan | None = None
        """Of the last run that ended; None: none yet."""

    def plan(self) -> SweepPlan:
        """Returns the plan of the sweep from its first seed on; sends no request.

        It decides whether the runs share nodes.
        """
        try:
            found = self._plan_first()
        except PlanError:
            if not self._shares_nodes:
                raise
            self._shares_nodes = False  # such as Cloud TPU VMs, which end with their run
            found = self._plan_first()
        return SweepPlan(
            name=self._name,
            seeds=self._seeds,
            plan=found,
            shares_nodes=self._shares_nodes,
        )

    def _plan_first(self) -> Plan:
        return make_launch_plan(self._request_of(0), known_wheels)

    def run(self) -> SweepResult:
        """Runs all seeds, one after another, and returns their cost and quality.

        Raises:
            CloudganError: As `deploy_run`; the nodes of the sweep are deleted.
            Interrupted: Ctrl-C; the run continues, and the seeds after it are not started.
        """
        self.plan()
        name, seeds, done = self._name, self._seeds, []
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
            done.append(seed_result(seed, RunFolder(RUNS / run), self._request))
        self._end_waiting()
        return SweepResult(sweep=name, runs=tuple(done))

    def _deploy(self, number: int) -> tuple[Plan, RunState | None]:
        def approve(plan: Plan, price_warning: str) -> None:
            if self._approved and _is_as_approved(plan, self._approved):
                return
            found = SweepPlan(
                name=self._name,
                seeds=self._seeds[number:],
                plan=plan,
                shares_nodes=self._shares_nodes,
                price_warning=price_warning,
            )
            self._approve(found)
            self._approved = plan

        previous = self._previous
        return deploy_run(
            self._request_of(number),
            approve,
            progress=self._progress,
            preferred_offer=previous.price.offer if previous and previous.price else None,
        )

    def _request_of(self, number: int) -> LaunchRequest:
        """Returns the request of a seed: its share of the limits, on the nodes of the run before."""
        request, previous, count = self._request, self._previous, len(self._seeds)
        seed, (keys, file) = self._seeds[number], request.training
        # Equal shares: the nodes live for as many of the first run's deadlines as there are seeds.
        share: dict[str, Any] = {
            "name": run_of_seed(self._name, seed),
            "seeds": None,
            "max_hours": request.max_hours / count,
            "budget_usd": request.budget_usd and request.budget_usd / count,
        }
        given: dict[str, Any] = keys | {_SEED: seed}
        if self._shares_nodes:
            keep = request.keep_nodes_seconds
            if number + 1 < count:
                keep = max(keep, _WAIT_SECONDS)
            share |= {"keep_nodes_seconds": keep, "served_runs": count}
        if previous is not None and previous.target.is_provisioned:
            share["nodes"] = previous.workers.nodes
            if (batch := previous.config.training.global_batch_size) is not None:
                given |= {_GLOBAL_BATCH: batch, _BATCH: None}
            if self._shares_nodes and previous.target.zone:
                share["zone"] = previous.target.zone
        return request.model_copy(update=share).with_training((given, file))

    def _note(self, plan: Plan, state: RunState | None, *, keeps: bool) -> None:
        """Remembers the plan of a run that ended, and whose nodes wait now."""
        self._previous = plan
        reused = plan.node_pool.reused if plan.node_pool else None
        self._waiting = [one for one in self._waiting if not reused or one.run != reused.previous]
        if self._shares_nodes and keeps and state is not None:
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


def _seeds(text: str, training: Training) -> tuple[int, ...]:
    if training[0].get(_SEED) is not None:
        raise ConfigError(
            f"--seed={training[0][_SEED]} and --seeds={shorten(text)} exclude each other: give one of them"
        )
    seeds = [parse_whole("--seeds", part, Range(0, MAX_SEED)) for part in text.split(",")]
    repeated = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    if repeated:
        raise ConfigError(
            f"--seeds={shorten(text)} has {', '.join(map(str, repeated))} more than once: each seed is a"
            " run of its own; give different whole numbers, such as --seeds=1,2,3"
        )
    return tuple(seeds)


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
