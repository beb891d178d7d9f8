"""Derives the state of a run from Slurm's jobs and from the status files of job.sh."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cloudgan.launch.backends.slurm.client import EndedJob, Job
from cloudgan.launch.kubernetes.job_state import RESTART_CODES, describe_exit_code
from cloudgan.schema.run_state import STOPPING, Cause, Phase, RunState, WorkerPhase, WorkerState

_SAVED, _KILLED = 75, 137
_ON_NODES: Final = ("RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT")
_STARTING: Final = ("CONFIGURING", "RESIZING")

_WAITS: Final[dict[str, tuple[str, Cause]]] = {
    "Resources": ("waits for free nodes", ""),
    "Priority": ("waits behind other jobs", ""),
    "None": ("waits for the scheduler", ""),
    "BeginTime": ("was requeued and starts again in some minutes", ""),
    "PartitionTimeLimit": (
        "exceeds the partition's time limit; lower --max-hours",
        "placement",
    ),
    "PartitionNodeLimit": ("exceeds the partition's node limit", "placement"),
    "PartitionConfig": ("requests what the partition does not have", "placement"),
    "PartitionDown": ("waits: its partition is down", "placement"),
    "BadConstraints": ("requests what no node has", "placement"),
    "JobHeldUser": ("is held; run `scontrol release`", "placement"),
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
    "OUT_OF_MEMORY": ("failed", "a worker exceeded its memory limit", "memory"),
}

_BY_SCRIPT: Final[dict[str, tuple[Phase, str, Cause]]] = {
    "finished": _ENDS["COMPLETED"],
    "stopped": ("stopped", "", ""),
    "deadline": _ENDS["TIMEOUT"],
}


def run_state(job: Job | None, past: EndedJob | None, files: JobFiles, world: int) -> RunState:
    """Returns the state of a run of `world` workers; `past` is the record of its last job."""
    seen = [files.history(rank) for rank in range(world)]
    workers = tuple(_worker(rank, text, is_over=job is None) for rank, text in enumerate(seen))
    began = files.began()
    if job is None:
        return _ended(past, files, workers, began)
    if job.state in _ON_NODES:
        if files.is_stopped():
            return RunState("stopping", workers, STOPPING, started_at=began)
        up = all(worker.phase in ("running", "done") for worker in workers)
        return RunState("running" if up else "starting", workers, started_at=began)
    if job.state in _STARTING:
        return RunState("starting", workers, started_at=began)
    what, cause = _WAITS.get(job.reason.strip("()"), (f"waits: {job.reason}", ""))
    if job.state != "PENDING":
        what = f"is {job.state.lower()}"
    return RunState("waiting", (), f"job {job.id} {what}", cause, began)


def _ended(
    past: EndedJob | None, files: JobFiles, workers: tuple[WorkerState, ...], began: str | None
) -> RunState:
    end, number = files.end(), files.job()
    if not (end or number or any(files.history(one.index) for one in workers)):
        return RunState("absent")
    if end is not None and (number is None or end.job == number):
        phase, why, cause = _BY_SCRIPT.get(end.outcome, ("failed", "", "program"))
        if end.outcome not in _BY_SCRIPT:
            why, cause = describe_exit_code(end.exit_code)
            failed = next((one.index for one in workers if one.cause), None)
            log = files.folder / f"job-{end.job}.log"
            unknown = f"its job failed with exit code {end.exit_code}; see {log}"
            why = unknown if failed is None else f"worker {failed}: {why}"
        return RunState(phase, workers, why, cause, began, end.time)
    if past is None:
        why = "" if files.is_stopped() else "its job has ended, and Slurm has no record of it"
        return RunState("stopped", workers, why, started_at=began)
    if files.is_stopped():
        return RunState("stopped", workers, "", started_at=began, ended_at=past.ended)
    other: tuple[Phase, str, Cause] = ("failed", describe_exit_code(past.exit_code)[0], "program")
    phase, why, cause = _ENDS.get(past.state, other)
    return RunState(phase, workers, why, cause, began, past.ended)


def _worker(index: int, history: str, *, is_over: bool) -> WorkerState:
    """Returns the state by lines such as ``started TIME NODE`` and ``ended TIME CODE``; none before the first start."""
    lines = [line.split() for line in history.splitlines() if line.strip()]
    nodes = ["".join(words[2:3]) for words in lines if words[0] == "started"]
    if not nodes:
        return WorkerState(index, "stopped" if is_over else "waiting")
    codes = [words[2] for words in lines if words[0] == "ended" and words[2:]]
    code = int(codes[-1]) if codes and codes[-1].isdecimal() else None
    runs = lines[-1][0] == "started"
    why = ""
    cause: Cause = ""
    phase: WorkerPhase = "running" if runs else "waiting"
    if not runs and code == 0:
        phase = "done"
    elif code:
        why, kind = describe_exit_code(code)
        if code == _SAVED:
            why = f"it was stopped or lost a peer (exit code {code})"
        if code == _KILLED:
            why += ", perhaps out of memory"
        if code not in RESTART_CODES and not runs:
            phase, cause = "failed", kind
    if is_over and phase in ("running", "waiting"):
        phase = "stopped"
    return WorkerState(index, phase, nodes[-1], len(nodes) - 1, why, cause)


STOP: Final = "stop"
JOB: Final = "job"
LOGS: Final = "logs"
_OF_ONE_JOB: Final = ("began", "end", "job", STOP, "failed-*", "stopped-*", "worker-*.txt")
_END_WORDS: Final = 4


@dataclass(frozen=True, slots=True)
class ScriptEnd:
    """End of a job, as the script recorded it."""

    job: str
    outcome: str
    exit_code: int
    time: str


class JobFiles:
    """The files in `slurm/` of one run; a new job has none yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def clear(self) -> None:
        """Removes the status files of the last job; keeps logs."""
        for pattern in _OF_ONE_JOB:
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)

    def write_job(self, job_id: str) -> None:
        """Stores the job ID, for jobs that have left the queue."""
        (self.folder / JOB).write_text(job_id, encoding="utf-8")

    def request_stop(self) -> None:
        """Marks the job as stopped by the user, for the script."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / STOP).touch()

    def is_stopped(self) -> bool:
        """Whether the user stopped the job."""
        return (self.folder / STOP).exists()

    def job(self) -> str | None:
        """Returns the ID of the last submitted job."""
        return self._read(JOB).strip() or None

    def began(self) -> str | None:
        """Returns the first start of the job, ISO 8601."""
        words = self._read("began").split()
        seconds = words[-1] if words else ""
        if not seconds.isdecimal():
            return None
        return datetime.fromtimestamp(int(seconds), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def end(self) -> ScriptEnd | None:
        """Returns the recorded end of the job; None if its script was killed."""
        words = self._read("end").split()
        if len(words) != _END_WORDS or not words[2].isdecimal():
            return None
        return ScriptEnd(words[0], words[1], int(words[2]), words[3])

    def history(self, rank: int) -> str:
        """Returns the recorded starts and ends of a rank."""
        return self._read(f"worker-{rank}.txt")

    def logs(self) -> dict[int, Path]:
        """Returns the log file of each rank."""
        found = (self.folder / LOGS).glob("worker-*.log")
        named = {path.stem.rpartition("-")[2]: path for path in found}
        return {int(rank): path for rank, path in sorted(named.items()) if rank.isdecimal()}

    def _read(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
