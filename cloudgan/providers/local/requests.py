"""What a run on this machine consists of, as values: two files and one process that keeps N others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.core.plan import Step
from cloudgan.kubernetes.manifests import PLAN_PLACEHOLDER, job, run_yaml

if TYPE_CHECKING:
    from cloudgan.core.plan import Plan

PLAN_FILE = "plan.json"
CONFIG_FILE = "pods/config/run.yaml"
JOB_FILE = "pods/job.json"
SUPERVISOR = "supervisor"


def steps(plan: Plan) -> tuple[Step, ...]:
    """Returns what is ensured in the run's folder, in this order."""
    body: dict[str, Any] = job(plan)
    return (
        Step(ensure="plan", method="PUT", path=PLAN_FILE, find=PLAN_FILE, body=PLAN_PLACEHOLDER),
        Step(ensure="run.yaml of the workers", method="PUT", path=CONFIG_FILE, body=run_yaml(plan)),
        Step(ensure="job of the workers", method="PUT", path=JOB_FILE, body=body),
        Step(
            ensure=f"{plan.workers.nodes} worker processes",
            method="RUN",
            path="python -m cloudgan.providers.local",
            find=SUPERVISOR,
        ),
    )
