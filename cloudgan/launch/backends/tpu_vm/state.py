"""State of a run from Cloud TPU, the VM's status file and the worker's heartbeat."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import Field

from cloudgan.core.clock import parse_time
from cloudgan.core.document import Document
from cloudgan.core.ranges import MAX_SECONDS
from cloudgan.launch.kubernetes.job_state import describe_exit_code
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.run_state import Cause, Phase, RunState, WorkerPhase, WorkerState

WAITING: Final[dict[str, str]] = {
    "CREATING": "Google validates the request",
    "ACCEPTED": "the request is queued",
    "WAITING_FOR_RESOURCES": "no such TPU is available; the request is queued",
    "PROVISIONING": "the TPU is being provisioned",
}
PREEMPTED: Final = ("SUSPENDING", "SUSPENDED")
_SKEW_SECONDS = 60.0
"""Clock skew between Google's creation time and the VM's clock."""
_DEADLINE: Cause = "deadline"
_MAX_UNIX_SECONDS: Final = 253_402_300_799
"""End of the year 9999."""


class VmStatus(Document):
    """The status file that the VM's startup.sh writes to the store."""

    phase: Literal["installing", "training", "ended"]
    exit_code: int | None = Field(description="of the worker, or of the wheel installation")
    stop_reason: Literal["", "stopped", "preempted", "deadline", "shutdown"] = Field(
        description="why the worker was stopped; empty: it was not"
    )
    booted_at: int = Field(
        ge=0,
        le=_MAX_UNIX_SECONDS,
        description="time of the first boot by the VM's clock, Unix seconds",
    )
    deadline_seconds: int = Field(ge=0, le=int(MAX_SECONDS), description="time limit from then on")
    written_at: int = Field(
        ge=0, le=_MAX_UNIX_SECONDS, description="time of this file, Unix seconds"
    )


def _iso(seconds: int) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat()


def state_name(queued: Mapping[str, Any]) -> str:
    """Returns Google's state of a queued resource."""
    return str((queued.get("state") or {}).get("state") or "CREATING")


def failure(queued: Mapping[str, Any]) -> tuple[int, str]:
    """Returns error code and message of a failed queued resource."""
    error = ((queued.get("state") or {}).get("failedData") or {}).get("error") or {}
    return int(error.get("code") or 0), str(error.get("message") or "no reason is given")


def was_preempted(queued: Mapping[str, Any] | None, status: VmStatus | None) -> bool:
    """Returns whether Google preempted the VMs, according to the service or the VM itself."""
    if queued is not None and state_name(queued) in PREEMPTED:
        return True
    return bool(status and status.phase == "ended" and status.stop_reason == "preempted")


def current_status(status: VmStatus | None, queued: Mapping[str, Any] | None) -> VmStatus | None:
    """Returns the status unless VMs before the present ones wrote it."""
    created = queued.get("createTime") if queued else None
    if status is None or created is None:
        return status
    created_seconds = parse_time(str(created)).timestamp()
    return status if status.booted_at + _SKEW_SECONDS >= created_seconds else None


def run_state(
    queued: Mapping[str, Any] | None,
    status: VmStatus | None,
    beat: Heartbeat | None,
    *,
    replaced: int = 0,
) -> RunState:
    """Returns the state of a run; `replaced` is the number of preemptions with a new request."""
    status = current_status(status, queued)
    if beat and status and parse_time(beat.time).timestamp() < status.booted_at:
        beat = None
    if was_preempted(queued, status):
        return _waiting("Google preempted the TPU; requesting it again", replaced)
    if status and status.phase == "ended":
        return _ended(status, beat, replaced)
    if queued is None:
        return RunState("stopped", reason="its TPU is gone") if status else RunState("absent")
    if state_name(queued) == "ACTIVE":
        return _active(queued, status, beat, replaced)
    return _inactive(queued, replaced)


def _inactive(queued: Mapping[str, Any], replaced: int) -> RunState:
    state = state_name(queued)
    if state == "FAILED":
        return RunState("failed", reason=failure(queued)[1], cause="placement")
    if state == "DELETING":
        return RunState("stopped", reason="its TPU is being deleted")
    return _waiting(WAITING.get(state, state), replaced)


def _waiting(why: str, replaced: int) -> RunState:
    worker = WorkerState(0, "waiting", restarts=replaced, preemptions=replaced, reason=why)
    return RunState("waiting", (worker,), why)


def _active(
    queued: Mapping[str, Any], status: VmStatus | None, beat: Heartbeat | None, replaced: int
) -> RunState:
    node = str(queued["name"]).rpartition("/")[2]
    why = "its VM boots" if status is None else "it installs its wheels"
    phase: tuple[Phase, WorkerPhase] = ("starting", "starting")
    if status and status.phase == "training":
        why = "its worker starts"
        if beat:
            why, phase = beat.message, ("running", "running")
    worker = WorkerState(0, phase[1], node, replaced, why, preemptions=replaced)
    return RunState(phase[0], (worker,), why, started_at=_iso(status.booted_at) if status else None)


def _ended(status: VmStatus, beat: Heartbeat | None, replaced: int) -> RunState:
    began, ended = _iso(status.booted_at), _iso(status.written_at)
    if status.exit_code == 0:
        workers = (WorkerState(0, "done", restarts=replaced),)
        return RunState("finished", workers, started_at=began, ended_at=ended)
    if status.stop_reason == "deadline":
        why, cause = "the job's deadline has passed", _DEADLINE
    elif status.stop_reason:
        workers = (WorkerState(0, "stopped", restarts=replaced),)
        return RunState("stopped", workers, started_at=began, ended_at=ended)
    else:
        why, cause = describe_exit_code(status.exit_code or 1)
        why = beat.message if beat and beat.message else why
    workers = (WorkerState(0, "failed", "", replaced, why, cause),)
    return RunState("failed", workers, why, cause, began, ended)
