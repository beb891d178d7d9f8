"""From what Cloud TPU and the run's store say to the state of a run."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.run_state import RunState, WorkerState
from cloudgan.kubernetes.job_body import why_failed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.core.heartbeat import Heartbeat
    from cloudgan.core.run_state import Cause, Phase, WorkerPhase
    from cloudgan.providers.gcp.tpu_note import Note

WAITING: Final[dict[str, str]] = {
    "CREATING": "Google looks at the request",
    "ACCEPTED": "the request stands in the queue",
    "WAITING_FOR_RESOURCES": "no such TPU is free; the request stands in the queue",
    "PROVISIONING": "the TPU is being made",
}
PREEMPTED: Final = ("SUSPENDING", "SUSPENDED")
_SKEW_SECONDS = 60.0
"""Between Google's clock, which says when a resource was made, and the machine's own."""


def state_name(resource: Mapping[str, Any]) -> str:
    """Returns the state of a queued resource, in Google's words."""
    return str((resource.get("state") or {}).get("state") or "CREATING")


def failure(resource: Mapping[str, Any]) -> tuple[int, str]:
    """Returns code and sentence of why a queued resource failed."""
    error = ((resource.get("state") or {}).get("failedData") or {}).get("error") or {}
    return int(error.get("code") or 0), str(error.get("message") or "nobody says why")


def was_preempted(resource: Mapping[str, Any] | None, note: Note | None) -> bool:
    """Whether Google took the machines back, which the service or the machine itself noticed."""
    if resource is not None and state_name(resource) in PREEMPTED:
        return True
    return bool(note and note.phase == "ended" and note.told == "preempted")


def of_this(note: Note | None, resource: Mapping[str, Any] | None) -> Note | None:
    """Returns a note unless machines wrote it that were there before the present ones."""
    made = resource.get("createTime") if resource else None
    if note is None or made is None:
        return note
    made_seconds = dt.datetime.fromisoformat(str(made)).timestamp()
    return note if note.began + _SKEW_SECONDS >= made_seconds else None


def run_state(
    resource: Mapping[str, Any] | None,
    note: Note | None,
    beat: Heartbeat | None,
    *,
    replaced: int = 0,
) -> RunState:
    """Returns how a run is doing.

    Args:
        resource: Its queued resource; None: there is none.
        note: Of its machine.
        beat: Of its worker.
        replaced: How often its machines were taken back and asked for again.
    """
    note = of_this(note, resource)
    if beat and note and dt.datetime.fromisoformat(beat.time).timestamp() < note.began:
        beat = None
    if was_preempted(resource, note):
        return _waiting("Google took the TPU back; it is asked for again", replaced)
    if note and note.phase == "ended":
        return _ended(note, beat, replaced)
    if resource is None:
        return RunState("stopped", why="its TPU is gone") if note else RunState("absent")
    if state_name(resource) == "ACTIVE":
        return _active(resource, note, beat, replaced)
    return _not_there(resource, replaced)


def _not_there(resource: Mapping[str, Any], replaced: int) -> RunState:
    state = state_name(resource)
    if state == "FAILED":
        return RunState("failed", why=failure(resource)[1], cause="placement")
    if state == "DELETING":
        return RunState("stopped", why="its TPU is being deleted")
    return _waiting(WAITING.get(state, state), replaced)


def _waiting(why: str, replaced: int) -> RunState:
    worker = WorkerState(0, "waiting", replaced=replaced, why=why)
    return RunState("waiting", (worker,), why)


def _active(
    resource: Mapping[str, Any], note: Note | None, beat: Heartbeat | None, replaced: int
) -> RunState:
    node = str(resource["name"]).rpartition("/")[2]
    why = "its machine boots" if note is None else "it installs its wheels"
    phase: tuple[Phase, WorkerPhase] = ("starting", "starting")
    if note and note.phase == "training":
        why = "its worker begins"
        if beat:
            why, phase = beat.sentence, ("running", "running")
    worker = WorkerState(0, phase[1], node, replaced, why)
    return RunState(phase[0], (worker,), why, began=note.moment(of_boot=True) if note else None)


def _ended(note: Note, beat: Heartbeat | None, replaced: int) -> RunState:
    began, ended = note.moment(of_boot=True), note.moment()
    if note.exit_code == 0:
        workers = (WorkerState(0, "done", replaced=replaced),)
        return RunState("finished", workers, began=began, ended=ended)
    if note.told == "deadline":
        why, cause = "the job's time is over", _DEADLINE
    elif note.told:
        workers = (WorkerState(0, "stopped", replaced=replaced),)
        return RunState("stopped", workers, began=began, ended=ended)
    else:
        why, cause = why_failed(note.exit_code or 1)
        why = beat.sentence if beat and beat.sentence else why
    workers = (WorkerState(0, "failed", "", replaced, why, cause),)
    return RunState("failed", workers, why, cause, began, ended)


_DEADLINE: Cause = "deadline"
