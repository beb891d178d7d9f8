"""What Slurm and the script say, as the state of a run and one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cloudgan.core.run_state import RunState, WorkerState
from cloudgan.kubernetes.job_body import why_failed

if TYPE_CHECKING:
    from cloudgan.core.run_state import Cause, Phase, WorkerPhase
    from cloudgan.providers.slurm.jobs import Job, Past
    from cloudgan.providers.slurm.notes import Notes, WorkerNote

TRIED_AGAIN: Final = (75, 137, 143)
_SAVED, _KILLED = 75, 137
_ON_NODES: Final = ("RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT")
_STARTING: Final = ("CONFIGURING", "RESIZING")

_WAITS: Final[dict[str, tuple[str, Cause]]] = {
    "Resources": ("waits for free nodes", ""),
    "Priority": ("waits behind other jobs", ""),
    "None": ("waits to be looked at", ""),
    "BeginTime": ("was put back into the queue and begins again in some minutes", ""),
    "PartitionTimeLimit": (
        "asks for more time than the partition gives; lower --max_hours",
        "placement",
    ),
    "PartitionNodeLimit": ("asks for more nodes than the partition gives", "placement"),
    "PartitionConfig": ("asks for what the partition never has", "placement"),
    "PartitionDown": ("waits: its partition is down", "placement"),
    "BadConstraints": ("asks for what no node has", "placement"),
    "JobHeldUser": ("is held; `scontrol release` lets it go on", "placement"),
    "JobHeldAdmin": ("is held by an administrator", "placement"),
}
_ENDS: Final[dict[str, tuple[Phase, str, Cause]]] = {
    "COMPLETED": ("finished", "", ""),
    "CANCELLED": ("stopped", "its job was cancelled in Slurm", ""),
    "PREEMPTED": ("stopped", "another job took its nodes", ""),
    "NODE_FAIL": ("stopped", "a node was lost", ""),
    "BOOT_FAIL": ("stopped", "a node did not start", ""),
    "TIMEOUT": ("failed", "its job reached its time limit", "deadline"),
    "DEADLINE": ("failed", "its job reached its time limit", "deadline"),
    "OUT_OF_MEMORY": ("failed", "a worker needed more memory than it was given", "memory"),
}


def run_state(job: Job | None, past: Past | None, notes: Notes, world: int) -> RunState:
    """Returns how a run is doing.

    Args:
        job: Its job, as long as Slurm has one; a job that ends has one too.
        past: What Slurm remembers of the last one.
        notes: What the script wrote.
        world: How many workers it has.
    """
    seen = notes.workers(world)
    began = notes.began()
    if job is None:
        return _ended(past, notes, seen, began)
    if job.state in _ON_NODES:
        workers = _workers(seen, is_over=False)
        up = all(worker.phase in ("running", "done") for worker in workers)
        return RunState("running" if up else "starting", workers, began=began)
    if job.state in _STARTING:
        return RunState("starting", _workers(seen, is_over=False), began=began)
    what, cause = _WAITS.get(job.reason.strip("()"), (f"waits: Slurm says {job.reason}", ""))
    if job.state != "PENDING":
        what = f"is {job.state.lower()}"
    return RunState("waiting", (), f"job {job.id} {what}", cause, began)


def _ended(
    past: Past | None, notes: Notes, seen: tuple[WorkerNote | None, ...], began: str | None
) -> RunState:
    end, number = notes.end(), notes.job()
    workers = _workers(seen, is_over=True)
    if end is None and number is None and not any(seen):
        return RunState("absent")
    if end is not None and (number is None or end.job == number):
        log = notes.folder / f"job-{end.job}.log"
        phase, why, cause = _by_script(end.word, end.exit_code, workers, str(log))
        return RunState(phase, workers, why, cause, began, end.time)
    if past is None:
        why = "" if notes.is_stopped() else "its job is gone, and Slurm does not say why"
        return RunState("stopped", workers, why, began=began)
    if notes.is_stopped():
        return RunState("stopped", workers, "", began=began, ended=past.ended)
    other: tuple[Phase, str, Cause] = ("failed", why_failed(past.exit_code)[0], "program")
    phase, why, cause = _ENDS.get(past.state, other)
    return RunState(phase, workers, why, cause, began, past.ended)


def _by_script(
    word: str, exit_code: int, workers: tuple[WorkerState, ...], log: str
) -> tuple[Phase, str, Cause]:
    if word == "finished":
        return "finished", "", ""
    if word == "stopped":
        return "stopped", "", ""
    if word == "deadline":
        return "failed", "its job reached its time limit", "deadline"
    why, cause = why_failed(exit_code)
    guilty = next((one.index for one in workers if one.cause), None)
    if guilty is None:
        return (
            "failed",
            f"no worker says why its job failed (exit code {exit_code}); see {log}",
            cause,
        )
    return "failed", f"worker {guilty}: {why}", cause


def _workers(seen: tuple[WorkerNote | None, ...], *, is_over: bool) -> tuple[WorkerState, ...]:
    return tuple(_worker(index, note, is_over=is_over) for index, note in enumerate(seen))


def _worker(index: int, note: WorkerNote | None, *, is_over: bool) -> WorkerState:
    if note is None:
        return WorkerState(index, "failed" if is_over else "waiting")
    why = ""
    cause: Cause = ""
    phase: WorkerPhase = "running" if note.runs else "waiting"
    code = note.exit_code
    if not note.runs and code == 0:
        phase = "done"
    elif code:
        why, kind = why_failed(code)
        if code == _SAVED:
            why = f"it was told to stop, or lost another one (exit code {code})"
        if code == _KILLED:
            why += ": killed, perhaps because its memory was too small"
        if code not in TRIED_AGAIN and not note.runs:
            phase, cause = "failed", kind
    if is_over and phase in ("running", "waiting"):
        phase = "failed"
    return WorkerState(index, phase, note.node, note.starts - 1, why, cause)
