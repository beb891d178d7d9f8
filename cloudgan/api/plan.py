"""The command `plan`: what `deploy` would do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from cloudgan.api.sweep import Sweep, SweepPlan
from cloudgan.core.atomic_file import atomic_writer
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Progress, Silent
from cloudgan.launch.clouds.planner import BUILT_IN_CLOUDS, Clouds
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
from cloudgan.launch.operations.targets import open_backend
from cloudgan.launch.plan.environment import check_variables_set
from cloudgan.launch.plan.launch_plan import make_launch_plan
from cloudgan.schema.plan import Plan

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
def plan(
    options: PlanOptions, *, progress: Progress | None = None, clouds: Clouds = BUILT_IN_CLOUDS
) -> PlanResult | SweepPlan:
    """Returns the plan of a run: every request in order, the forecast and the cost; sends no request.

    Args:
        options: What is launched, and where.
        progress: Receives what is written.
        clouds: The available clouds.

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
        found = Sweep(options.seeds, options, clouds=clouds).plan()
    else:
        made = make_launch_plan(options, known_wheels, clouds=clouds)
        found = PlanResult(plan=made)
        if options.output:
            write_plan(made, options.output)
            progress.say(f"written to {options.output}")
    if options.save:
        save_job(options, options.save)
        progress.say(f"written to {options.save}")
    return found
