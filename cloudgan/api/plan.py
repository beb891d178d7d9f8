"""The command `plan`: what `deploy` would do, for one run or for a run per seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from cloudgan.core.atomic_file import atomic_writer
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError, PlanError, counted, shorten
from cloudgan.core.labels import checked_name
from cloudgan.core.progress import Progress, Silent
from cloudgan.core.ranges import MAX_SEED, Range, parse_whole
from cloudgan.launch.kubernetes.manifests import (
    COMPONENT,
    PLAN_PLACEHOLDER,
    PORT_PROBE,
    filled_secret,
)
from cloudgan.launch.operations.launch_options import (
    PlanOptions,
    check_new,
    save_job,
    with_job_file,
)
from cloudgan.launch.operations.plan_result import PlanResult
from cloudgan.launch.operations.staging import known_wheels
from cloudgan.launch.operations.targets import open_backend, run_of_seed
from cloudgan.launch.plan.environment import check_variables_set
from cloudgan.launch.plan.launch_job import asked_job
from cloudgan.launch.plan.launch_plan import make_launch_plan
from cloudgan.launch.plan.request import LaunchRequest
from cloudgan.money.forecast import without_startup
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import usd_range
from cloudgan.schema.options.training import Training
from cloudgan.schema.plan import Plan, Workers

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
        first, rest = self.plan.usd, len(self.seeds) - 1
        if first is None:
            return None
        later = first
        if self.shares_nodes and (ready := without_startup(self.plan)):
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


class SeedPlans:
    """A request for several seeds, and the plans of their runs.

    Attributes:
        seeds: In the order of their runs.
        name: --name, or that of a run without them.
        shares_nodes: Whether one run after another uses the same nodes.
        previous: Plan of the last run that ended; None: none yet.
    """

    def __init__(self, text: str, request: LaunchRequest) -> None:
        """`text` is that of --seeds."""
        self.seeds, self.request = _seeds(text, request.training), request
        job = asked_job(request)
        if job.kind.no_seeds:
            raise ConfigError(job.kind.no_seeds)
        workers = Workers(nodes=request.nodes or 1, cpus=1, memory_gib=1)
        self.name = request.name or job.on(workers).name
        for seed in self.seeds:
            checked_name(run_of_seed(self.name, seed))
        self.shares_nodes = (
            request.is_provisioned
            and len(self.seeds) > 1
            and not (request.flex_start or request.reservation)
        )
        self.previous: Plan | None = None

    def plan(self) -> SweepPlan:
        """Returns the plan of the sweep from its first seed on; sends no request.

        It decides whether the runs share nodes.
        """
        try:
            found = self._plan_first()
        except PlanError:
            if not self.shares_nodes:
                raise
            self.shares_nodes = False  # such as Cloud TPU VMs, which end with their run
            found = self._plan_first()
        return SweepPlan(
            name=self.name,
            seeds=self.seeds,
            plan=found,
            shares_nodes=self.shares_nodes,
        )

    def _plan_first(self) -> Plan:
        return make_launch_plan(self.request_of(0), known_wheels)

    def request_of(self, number: int) -> LaunchRequest:
        """Returns the request of a seed: its share of the limits, on the nodes of the run before."""
        request, previous, count = self.request, self.previous, len(self.seeds)
        seed, (keys, file) = self.seeds[number], request.training
        # Equal shares: the nodes live for as many of the first run's deadlines as there are seeds.
        share: dict[str, Any] = {
            "name": run_of_seed(self.name, seed),
            "seeds": None,
            "max_hours": request.max_hours / count,
            "budget_usd": request.budget_usd and request.budget_usd / count,
        }
        given: dict[str, Any] = keys | {_SEED: seed}
        if self.shares_nodes:
            keep = request.keep_nodes_seconds
            if number + 1 < count:
                keep = max(keep, _WAIT_SECONDS)
            share |= {"keep_nodes_seconds": keep, "served_runs": count}
        if previous is not None and previous.target.is_provisioned:
            share["nodes"] = previous.workers.nodes
            if (batch := previous.config.training.global_batch_size) is not None:
                given |= {_GLOBAL_BATCH: batch, _BATCH: None}
            if self.shares_nodes and previous.target.zone:
                share["zone"] = previous.target.zone
        return request.model_copy(update=share).with_training((given, file))


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


_SHARED, _PRIVATE = 0o666, 0o600


def write_plan(plan: Plan, folder: Path) -> list[Path]:
    """Writes the files of a plan; returns their paths.

    For Kubernetes a manifest per object, for `kubectl apply -f FOLDER`; for Slurm job.sh as `deploy` hands
    it to sbatch, with the files that it reads. Slurm's own programs are asked for the partition, as
    `deploy` does.
    """
    writers = {"kubernetes": _manifests, "slurm": _job_files}
    if plan.target.provider not in writers:
        raise ConfigError(
            "--output writes Kubernetes manifests or the script of a Slurm job: give --provider=kubernetes"
            f" or --provider=slurm, not {plan.target.provider}"
        )
    check_variables_set(plan.workers)
    found = list(writers[plan.target.provider](plan))
    for name, text, mode in found:
        with atomic_writer(folder / name, mode=mode) as file:
            file.write(text.encode())
    return [folder / name for name, _, _ in found]


def _manifests(plan: Plan) -> Iterator[tuple[str, str, int]]:
    if plan.workers.secrets:
        raise ConfigError(
            f"--output would write the value of {plan.workers.secrets[0]} to a file; create a Kubernetes Secret"
            " of it and give its name: --kubernetes-secrets=NAME"
        )
    for number, step in enumerate(plan.steps):
        body: Any = step.body
        if not body or body["metadata"]["labels"].get(COMPONENT) == PORT_PROBE:
            continue  # `deploy` alone reads the result of the port probe, and deletes it
        data = body.get("data")
        if isinstance(data, dict) and data.get("plan.json") == PLAN_PLACEHOLDER:
            body = body | {"data": data | {"plan.json": plan.model_dump_json()}}
        is_secret = body["kind"] == "Secret"  # `kubectl delete -f FOLDER` deletes it
        body = filled_secret(body, None) if is_secret else body
        name = f"{number}-{str(body['kind']).lower()}.yaml"
        yield name, yaml.safe_dump(body, sort_keys=False), _PRIVATE if is_secret else _SHARED


def _job_files(plan: Plan) -> Iterator[tuple[str, str, int]]:
    for step in open_backend(plan.target).steps(plan):
        if step.method == "PUT" and step.body != PLAN_PLACEHOLDER:
            yield Path(step.path).name, str(step.body), _SHARED


@command
def plan(options: PlanOptions, *, progress: Progress | None = None) -> PlanResult | SweepPlan:
    """Returns the plan of a run: every request in order, the forecast and the cost; sends no request.

    Args:
        options: What is launched, and where.
        progress: Receives what is written.

    Raises:
        ConfigError: A value is not valid.
        PlanError: No offer matches the request.
        BudgetError: The budget is too small.
    """
    options, progress = with_job_file(options), progress or Silent()
    if options.save:
        check_new(options.save)
    found: PlanResult | SweepPlan
    if options.seeds is not None:
        found = SeedPlans(options.seeds, options).plan()
    else:
        made = make_launch_plan(options, known_wheels)
        found = PlanResult(plan=made)
        if options.output:
            write_plan(made, options.output)
            progress.say(f"written to {options.output}")
    if options.save:
        save_job(options, options.save)
        progress.say(f"written to {options.save}")
    return found
