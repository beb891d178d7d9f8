"""Steps of a run on Slurm, and its sbatch script: options, environment, and job.sh."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Final

from cloudgan.core.errors import counted
from cloudgan.launch.kubernetes.job_state import (
    CONFIG,
    KEY_FOLDER,
    RESTART_CODES,
    WORK,
    command,
    environment,
)
from cloudgan.launch.kubernetes.manifests import PLAN_PLACEHOLDER, job, must_guard_ports, run_yaml
from cloudgan.schema.plan import Plan, Step

JOB_FOLDER: Final = "slurm"
"""Subfolder of the run's folder with the files of the job."""
PLAN_FILE: Final = "plan.json"
CONFIG_FILE: Final = f"{JOB_FOLDER}/run.yaml"
SCRIPT_FILE: Final = f"{JOB_FOLDER}/job.sh"
PROLOGUE_FILE: Final = f"{JOB_FOLDER}/prologue.sh"
KEY: Final = "secret"
"""Subfolder of `JOB_FOLDER` with the secret of the run."""
_RUNS = Path("runs")


def slurm_steps(
    plan: Plan, *, runs: Path = _RUNS, python: str = "python", gres: str | None = None
) -> tuple[Step, ...]:
    """Returns the steps in the run's folder: plan, run.yaml, script, sbatch.

    Args:
        runs: Local folder of runs, used unless the store is a folder.
        python: Path on the nodes of the interpreter that has cloudgan.
        gres: GRES of the accelerators; None: derived from the plan.
    """
    body = script(plan, run_folder(plan, runs), python=python, gres=gres or default_gres(plan))
    prologue = plan.target.slurm.prologue if plan.target.slurm else ""
    before = (
        Step(ensure="prologue of the workers", method="PUT", path=PROLOGUE_FILE, body=prologue),
    )
    return (
        Step(ensure="plan", method="PUT", path=PLAN_FILE, find=PLAN_FILE, body=PLAN_PLACEHOLDER),
        Step(ensure="run.yaml of the workers", method="PUT", path=CONFIG_FILE, body=run_yaml(plan)),
        *(before if prologue else ()),
        Step(ensure="script of the job", method="PUT", path=SCRIPT_FILE, body=body),
        Step(
            ensure=f"job {job_name(plan.run)}, {counted(plan.workers.nodes, 'node')}",
            method="RUN",
            path=f"sbatch {SCRIPT_FILE}",
            find=job_name(plan.run),
        ),
    )


def run_folder(plan: Plan, runs: Path = _RUNS) -> Path:
    """Returns the shared folder of a run: in the store if that is a folder, else in `runs`."""
    return (runs if "://" in plan.store else Path(plan.store) / "runs") / plan.run


def default_gres(plan: Plan) -> str | None:
    """Returns the ``--gres`` value from the plan's accelerator names; None without accelerators."""
    workers = plan.workers
    if not workers.accelerators_per_node:
        return None
    kind = f":{workers.accelerator.lower()}" if workers.accelerator else ""
    return f"gpu{kind}:{workers.accelerators_per_node}"


FOLDER_LABEL: Final = "cloudgan-folder"
_MAX_GRACE_SECONDS = 65535


def job_name(run: str) -> str:
    """Returns the name of a run's job."""
    return f"cloudgan-{run}"


def comment(plan: Plan, folder: Path) -> str:
    """Returns the job's comment: the run's labels, and last its folder, which may contain commas."""
    labels = plan.labels().as_dict() | {FOLDER_LABEL: str(folder)}
    return ",".join(f"{name}={value}" for name, value in labels.items())


def script(plan: Plan, folder: Path, *, python: str, gres: str | None) -> str:
    """Returns the sbatch script for the shared folder of a run; without `gres` no GRES is asked for."""
    head = [f"#SBATCH {option}" for option in _options(plan, folder, gres)]
    parts = (
        "#!/bin/bash",
        *head,
        "",
        *_values(plan, folder),
        *_worker(plan, folder, python),
    )
    fixed = resources.files(__package__).joinpath("job.sh").read_text(encoding="utf-8")
    return "\n".join((*parts, "", fixed))


def _options(plan: Plan, folder: Path, gres: str | None) -> Iterator[str]:
    workers = plan.workers
    log = str(folder / JOB_FOLDER).replace("%", "%%") + "/job-%j.log"
    yield f"--job-name={job_name(plan.run)}"
    yield f"--comment={shlex.quote(comment(plan, folder))}"
    yield f"--nodes={workers.nodes}"
    yield f"--ntasks={workers.nodes}"
    yield "--ntasks-per-node=1"
    slurm, cores = plan.target.slurm, math.ceil(workers.cpus)
    per = slurm.memory_per if slurm else "node"
    yield f"--cpus-per-task={cores}"
    if per != "none":
        name, share = ("mem", 1) if per == "node" else ("mem-per-cpu", cores)
        yield f"--{name}={math.ceil(workers.memory_gib * 1024 / share)}M"
    yield f"--time={math.ceil(plan.limits.deadline_seconds / 60)}"
    if plan.target.queue:
        yield f"--partition={shlex.quote(plan.target.queue)}"
    if gres:
        yield f"--gres={shlex.quote(gres)}"
    if slurm:
        for name, value in slurm.model_dump(exclude={"prologue", "memory_per"}).items():
            if value:
                yield f"--{name}={shlex.quote(value)}"
    yield f"--signal=TERM@{min(workers.grace_seconds, _MAX_GRACE_SECONDS)}"
    if must_guard_ports(plan):
        yield "--exclusive"
    yield "--export=ALL"  # a site may export nothing by default
    yield "--requeue"
    yield "--open-mode=append"
    yield f"--output={shlex.quote(log)}"


def _values(plan: Plan, folder: Path) -> Iterator[str]:
    yield f"folder={shlex.quote(str(folder / JOB_FOLDER))}"
    yield f"world={plan.workers.nodes}"
    yield f"exclusive={'yes' if must_guard_ports(plan) else 'no'}"
    yield f"cpus={math.ceil(plan.workers.cpus)}"
    yield f"deadline_seconds={plan.limits.deadline_seconds}"
    yield f"grace_seconds={plan.workers.grace_seconds}"
    yield f"again='{' '.join(map(str, RESTART_CODES))}'"
    yield ""


def _worker(plan: Plan, folder: Path, python: str) -> Iterator[str]:
    """Yields the shell function of a worker; `work` is set on its node."""
    yield "# shellcheck disable=SC2154,SC2317"
    yield "# shellcheck disable=SC2329  # srun calls it"
    yield "worker() {"
    if plan.target.slurm and plan.target.slurm.prologue:
        # A file of its own: a fault in it cannot change the script, and ends the worker alone.
        yield "  # shellcheck disable=SC1091"
        yield f"  source {shlex.quote(str(folder / PROLOGUE_FILE))} || {{"
        yield '    echo "cloudgan: the prologue exited with $?; see --prologue" >&2'
        yield "    exit 2"
        yield "  }"
    yield "  unset TF_CONFIG"
    folders = {CONFIG: str(folder / JOB_FOLDER), KEY_FOLDER: str(folder / JOB_FOLDER / KEY)}
    body = job(plan)
    for name, value in environment(body, folders).items():
        quoted = shlex.quote(value)
        if value == WORK or value.startswith(f"{WORK}/"):  # on its node
            quoted = '"$work"' + (shlex.quote(value[len(WORK) :]) if value != WORK else "")
        yield f"  export {name}={quoted}"
    yield "  export CLOUDGAN_PORTS=random"
    yield f"  exec {shlex.join(command(body, python))}"
    yield "}"
