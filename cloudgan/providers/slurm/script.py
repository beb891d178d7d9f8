"""The sbatch script of a run: what Slurm reads, what the worker gets, and job.sh as it stands."""

from __future__ import annotations

import math
import shlex
from importlib import resources
from typing import TYPE_CHECKING, Final

from cloudgan.kubernetes.job_body import CONFIG, WORK, JobBody
from cloudgan.kubernetes.manifests import job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cloudgan.core.plan import Plan

JOB_FOLDER: Final = "slurm"
"""What lies here in the run's folder is the job's, and goes with it."""
FOLDER_LABEL: Final = "cloudgan-folder"
_LONGEST_GRACE_SECONDS = 65535


def job_name(run: str) -> str:
    """Returns what the job of a run is called."""
    return f"cloudgan-{run}"


def comment(plan: Plan, folder: Path) -> str:
    """Returns the labels of a run; its folder is the last, since a path may hold commas."""
    labels = plan.labels().as_dict() | {FOLDER_LABEL: str(folder)}
    return ",".join(f"{name}={value}" for name, value in labels.items())


def script(plan: Plan, folder: Path, *, python: str, gres: str | None) -> str:
    """Returns the script.

    Args:
        plan: What is wanted.
        folder: Of the run, which all nodes see.
        python: The Python that has cloudgan, as all nodes see it.
        gres: The accelerators of a node, as Slurm calls them; None: none.
    """
    body = JobBody(job(plan))
    head = [f"#SBATCH {option}" for option in _options(plan, folder, gres)]
    parts = ("#!/bin/bash", *head, "", *_values(plan, body, folder), *_worker(body, folder, python))
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
    yield f"--cpus-per-task={math.ceil(workers.cpus)}"
    yield f"--mem={round(workers.memory_gib * 1024)}M"
    yield f"--time={math.ceil(plan.limits.deadline_seconds / 60)}"
    if plan.place.queue:
        yield f"--partition={shlex.quote(plan.place.queue)}"
    if gres:
        yield f"--gres={shlex.quote(gres)}"
    yield f"--signal=TERM@{min(workers.grace_seconds, _LONGEST_GRACE_SECONDS)}"
    yield "--requeue"
    yield "--open-mode=append"
    yield f"--output={shlex.quote(log)}"


def _values(plan: Plan, body: JobBody, folder: Path) -> Iterator[str]:
    yield f"folder={shlex.quote(str(folder / JOB_FOLDER))}"
    yield f"world={body.world}"
    yield f"cpus={math.ceil(plan.workers.cpus)}"
    yield f"deadline_seconds={body.deadline_seconds:.0f}"
    yield f"grace_seconds={body.grace_seconds:.0f}"
    yield f"again='{' '.join(map(str, body.tried_again()))}'"
    yield ""


def _worker(body: JobBody, folder: Path, python: str) -> Iterator[str]:
    """One worker, as the manifest's container has it; `work` is known on its node only."""
    yield "# shellcheck disable=SC2154,SC2317"
    yield "worker() {"
    yield "  unset TF_CONFIG"
    for name, value in body.environment({CONFIG: str(folder / JOB_FOLDER)}).items():
        yield f"  export {name}={_on_its_node(value)}"
    yield f"  exec {shlex.join(body.command(python))}"
    yield "}"


def _on_its_node(value: str) -> str:
    if value == WORK or value.startswith(f"{WORK}/"):
        return '"$work"' + (shlex.quote(value[len(WORK) :]) if value != WORK else "")
    return shlex.quote(value)
