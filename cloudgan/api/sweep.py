"""Sweeps of seeds: the same plan once per seed, one run after another on the same nodes.

Each seed is a run of its own, NAME-seed-SEED. On a cloud the nodes of a run wait for the next one, as
with --keep-nodes, and the last run deletes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic import Field

from cloudgan.api.sweep_result import SweepResult, seed_result
from cloudgan.core import ranges
from cloudgan.core.errors import (
    CloudganError,
    ConfigError,
    ConfirmationError,
    Interrupted,
    PlanError,
    counted,
    shorten,
)
from cloudgan.core.labels import checked_name
from cloudgan.core.progress import Progress
from cloudgan.core.ranges import MAX_SEED, Range
from cloudgan.launch.clouds.planner import BUILT_IN_CLOUDS, Clouds
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
from cloudgan.reports.table import usd_range
from cloudgan.schema.options.training import Training
from cloudgan.schema.plan import Plan, Workers
from cloudgan.schema.run_folder import RUNS, RunFolder
from cloudgan.schema.run_state import RunState

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
        rest, cost = len(self.seeds) - 1, self.plan.cost
        if cost is None:
            low, high = self.plan.forecast.low_usd, self.plan.forecast.high_usd
            return None if low is None or high is None else (low * (rest + 1), high * (rest + 1))
        later = without_startup(cost) if self.shares_nodes else cost
        return (
            cost.known_low_usd + rest * later.known_low_usd,
            cost.known_usd + rest * later.known_usd,
        )

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
        if self.usd is None or self.plan.forecast.high_usd is None:
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
        clouds: Clouds = BUILT_IN_CLOUDS,
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
        self._clouds, self._approve = clouds, approve
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
        return make_launch_plan(self._request_of(0), known_wheels, clouds=self._clouds)

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
            clouds=self._clouds,
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
                backend = open_backend(
                    plan.target, self._say, store=plan.store, clouds=self._clouds
                )
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
    seeds = [ranges.parse_whole("--seeds", part, Range(0, MAX_SEED)) for part in text.split(",")]
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
