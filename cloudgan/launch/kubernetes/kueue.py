"""Kueue: starts the Job of a run when the quota of its queue allows it.

Kueue makes a Workload of a Job with the label of a queue, and suspends and resumes the Job
(https://kueue.sigs.k8s.io/docs/tasks/run/jobs/, read 2026-11-30). The conditions and their messages are those of
Kueue 0.17 as tests/realcluster runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from cloudgan.schema.plan import Plan
from cloudgan.schema.run_state import RunState

Object = Mapping[str, Any]

GROUP: Final = "kueue.x-k8s.io"
QUEUE_LABEL: Final = f"{GROUP}/queue-name"
JOB_LABEL: Final = f"{GROUP}/job-uid"
"""Of a Workload."""
TIME_LABEL: Final = f"{GROUP}/max-exec-time-seconds"
"""Ends a Job after so many seconds in all; its own deadline starts again each time that Kueue resumes it."""
_STEPS: Final = ("QuotaReserved", "Admitted")
_TIME_IS_OVER: Final = "MaximumExecutionTimeExceeded"


def labels(plan: Plan) -> dict[str, str]:
    """Returns the labels with which Kueue takes a Job; none without --queue."""
    queue, seconds = plan.target.queue, plan.limits.deadline_seconds
    return {QUEUE_LABEL: queue, TIME_LABEL: str(seconds)} if queue else {}


def in_queue(found: RunState, job: Object, workload: Object | None) -> RunState:
    """Returns the state of a run whose Job is suspended.

    Args:
        found: From its Job and pods.
        job: The Job.
        workload: What Kueue made of it; None: nothing yet, or unknown.
    """
    queue = (job["metadata"].get("labels") or {}).get(QUEUE_LABEL)
    if queue is None:
        return replace(found, reason="the Job of this run was suspended with another program")
    why = f"waits in queue {queue} until Kueue admits it"
    status = (workload or {}).get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    if workload and workload["spec"].get("active") is False:
        evicted = conditions.get("Evicted") or {}
        if str(evicted.get("reason", "")).endswith(_TIME_IS_OVER):
            why = f"its deadline of {job['spec'].get('activeDeadlineSeconds')} s has passed"
            ended = evicted.get("lastTransitionTime")
            return replace(found, phase="failed", reason=why, cause="deadline", ended_at=ended)
        why = f"was deactivated in queue {queue}; an administrator of Kueue activates it"
    for step in _STEPS:
        condition = conditions.get(step) or {}
        if condition.get("status") == "False" and condition.get("message"):
            return replace(found, reason=f"{why} ({' '.join(condition['message'].split())})")
    return replace(found, reason=why)
