"""What a run on Slurm consists of, as values: plan, run.yaml, a script, and sbatch that takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cloudgan.core.plan import Plan, Step
from cloudgan.kubernetes.manifests import PLAN_PLACEHOLDER, run_yaml
from cloudgan.providers.slurm.script import JOB_FOLDER, job_name, script

PLAN_FILE: Final = "plan.json"
CONFIG_FILE: Final = f"{JOB_FOLDER}/run.yaml"
SCRIPT_FILE: Final = f"{JOB_FOLDER}/job.sh"
_RUNS = Path("runs")


def steps(
    plan: Plan, *, runs: Path = _RUNS, python: str = "python", gres: str | None = None
) -> tuple[Step, ...]:
    """Returns what is ensured in the run's folder, in this order.

    Args:
        plan: What is wanted; its steps are not looked at.
        runs: Folder of runs here, for a store that is no folder.
        python: The Python that has cloudgan, as all nodes see it.
        gres: The cluster's own name of the accelerators; None: as the plan names them.
    """
    body = script(plan, run_folder(plan, runs), python=python, gres=gres or asked_gres(plan))
    return (
        Step(ensure="plan", method="PUT", path=PLAN_FILE, find=PLAN_FILE, body=PLAN_PLACEHOLDER),
        Step(ensure="run.yaml of the workers", method="PUT", path=CONFIG_FILE, body=run_yaml(plan)),
        Step(ensure="script of the job", method="PUT", path=SCRIPT_FILE, body=body),
        Step(
            ensure=f"job {job_name(plan.run)}, {plan.workers.nodes} nodes",
            method="RUN",
            path=f"sbatch {SCRIPT_FILE}",
            find=job_name(plan.run),
        ),
    )


def run_folder(plan: Plan, runs: Path = _RUNS) -> Path:
    """Returns where the files of a run lie that all nodes see: in the store where it is a folder."""
    return (runs if "://" in plan.store else Path(plan.store) / "runs") / plan.run


def asked_gres(plan: Plan) -> str | None:
    """Returns the accelerators as ``--gres`` takes them; None where none are asked for."""
    workers = plan.workers
    if not workers.accelerators_per_node:
        return None
    kind = f":{workers.accelerator.lower()}" if workers.accelerator else ""
    return f"gpu{kind}:{workers.accelerators_per_node}"
