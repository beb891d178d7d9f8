"""Supervises the worker processes of a run, as Job controller and kubelet do with pods.

Its state is in `pods/state.json`; the lock that it holds beside is the sign that it runs.
"""

from __future__ import annotations

import fcntl
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from cloudgan.core.children import hold_port, number_of
from cloudgan.core.clock import monotonic_seconds, utc_now
from cloudgan.core.document import Document
from cloudgan.core.documents import read_json, write_json
from cloudgan.core.errors import ConfigError
from cloudgan.core.loopback_network import LoopbackNetwork
from cloudgan.core.run_secret import write_secret
from cloudgan.core.settings import child_environment
from cloudgan.launch.kubernetes.job_state import (
    CONFIG,
    KEY_FILE,
    KEY_FOLDER,
    RESTART_CODES,
    WORK,
    command,
    describe_exit_code,
    environment,
)
from cloudgan.launch.kubernetes.manifests import CLAIM_FOLDER, trainer
from cloudgan.schema.heartbeat import TimeStamp
from cloudgan.schema.run_state import STOPPING, Cause, Phase, WorkerPhase

_LOCK_TRIES = 25
_LOCK_PAUSE_SECONDS = 0.02
_POLL_SECONDS = 0.1
_INITIAL_BACKOFF_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 60.0
_KILLED = 137
_OPEN_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
"""Opens URLs without a proxy: the workers are on this machine."""


def _tries() -> Iterator[int]:
    for number in range(_LOCK_TRIES):
        yield number
        time.sleep(_LOCK_PAUSE_SECONDS)


class SavedWorkerState(Document):
    """State of one worker process."""

    index: int
    phase: WorkerPhase
    pid: int | None = None
    start_time: str = ""
    """Start time of the process, because process IDs are reused."""
    restarts: int = 0
    reason: str = ""
    cause: Cause = ""


class SavedState(Document):
    """State of the run, written by a supervisor with this process ID."""

    phase: Phase
    supervisor: int = 0
    workers: tuple[SavedWorkerState, ...] = ()
    reason: str = ""
    cause: Cause = ""
    started_at: TimeStamp | None = None
    ended_at: TimeStamp | None = None


class StateFile:
    """The state file and its lock."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "pods" / "state.json"
        self._lock = folder / "pods" / ".lock"

    def read(self) -> SavedState | None:
        """Returns the state; None if the run was never started."""
        return read_json(self._path, SavedState) if self._path.exists() else None

    def write(self, note: SavedState) -> None:
        """Replaces the state."""
        write_json(self._path, note)

    def supervisor(self) -> int | None:
        """Returns the process ID of the supervisor; None if none runs."""
        if not self._lock.exists():
            return None
        with self._lock.open("r") as file:
            for _ in _tries():
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except OSError:
                    file.seek(0)
                    text = file.read().strip()
                    if text.isdecimal():
                        return int(text)
                else:
                    return None
        return None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Holds the lock during the block, which makes this process the supervisor."""
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with self._lock.open("a+") as file:
            for _ in _tries():
                with suppress(OSError):  # a reader may hold it briefly
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
            else:
                raise ConfigError(f"{self._path.parent} already has a supervisor process")
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield


@dataclass(frozen=True)
class LocalJob:
    """The manifest of a Job whose workers are processes on this machine; isolated: trainers have a network of their own."""

    body: Mapping[str, Any]
    folder: Path
    is_isolated: bool = False

    @property
    def key_file(self) -> Path:
        """File with the secret of the run."""
        return self.folder / "pods" / "secret" / KEY_FILE

    def environment_of(self, index: int, peers: str) -> dict[str, str]:
        """Returns the environment variables of worker `index`; `peers` has all addresses."""
        folders = {
            CONFIG: str(self.folder / "pods" / "config"),
            WORK: str(self.work(index)),
            KEY_FOLDER: str(self.key_file.parent),
            CLAIM_FOLDER: str(self.folder / "store"),
        }
        own = {"JOB_COMPLETION_INDEX": str(index), "CLOUDGAN_PEERS": peers}
        return environment(self.body, folders) | own

    def work(self, index: int) -> Path:
        """Returns the folder of worker `index`."""
        return self.folder / "pods" / f"worker-{index}"


@dataclass
class _Slot:
    """One rank and its present process."""

    index: int
    process: Process | None = None
    restarts: int = 0
    start_at: float = 0.0
    started_at: float = 0.0
    misses: int = 0
    probed_at: float = 0.0
    done: bool = False
    reason: str = ""
    cause: Cause = ""


class Supervisor:
    """Starts the workers, restarts them as the Job's failure policy says, and stops them together."""

    def __init__(self, job: LocalJob, state: StateFile) -> None:
        self._job, self._state = job, state
        self._spec, self._worker = job.body["spec"], trainer(dict(job.body))
        self._slots = [_Slot(index) for index in range(self._spec["completions"])]
        self._held = _port_pairs(len(self._slots))
        self._ports = [number_of(one) for one, _ in self._held]
        self._network: LoopbackNetwork | None = None
        self._stop = False
        self._began: str | None = None
        self._written: SavedState | None = None

    def run(self) -> None:
        """Runs until all workers finish, one fails permanently, the deadline passes, or SIGTERM."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._request_stop)
        if len(self._slots) > 1:
            write_secret(self._job.key_file)
        if self._job.is_isolated:
            self._network = LoopbackNetwork.create()
        self._began = utc_now()
        seconds = self._spec["activeDeadlineSeconds"]
        deadline = monotonic_seconds() + seconds
        while True:
            now = monotonic_seconds()
            for slot in self._slots:
                self._update(slot, now)
            if self._stop:
                return self._end("stopped", "")
            if now >= deadline:
                why = f"its deadline of {seconds:.0f} s has passed"
                return self._end("failed", why, "deadline")
            for slot in self._slots:
                if slot.cause in ("program", "no progress"):
                    return self._end("failed", f"worker {slot.index}: {slot.reason}", slot.cause)
            if all(slot.done for slot in self._slots):
                return self._end("finished", "")
            is_up = all(slot.done or slot.process for slot in self._slots)
            self._write("running" if is_up else "starting")
            time.sleep(_POLL_SECONDS)

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._stop = True

    def _update(self, slot: _Slot, now: float) -> None:
        if slot.done or self._stop:
            return
        if slot.process is None:
            if now >= slot.start_at:
                self._start(slot, now)
            return
        code = slot.process.exit_code()
        if code is None:
            self._probe(slot, now)
            return
        slot.process.kill()  # also ends remaining child processes
        slot.process = None
        if code == 0:
            slot.done = True
        else:
            self._restart(slot, code, now)

    def _start(self, slot: _Slot, now: float) -> None:
        peers = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        changes = self._job.environment_of(slot.index, peers)
        network = self._network
        slot.process = Process(
            command(self._job.body, sys.executable),
            child_environment(
                TF_CONFIG=None, CLOUDGAN_NETWORK=str(network) if network else None, **changes
            ),
            self._job.folder / "pods" / "logs" / f"worker-{slot.index}.log",
            self._job.work(slot.index),
            pass_fds=network.descriptors if network else (),
        )
        slot.started_at, slot.misses, slot.probed_at = now, 0, now

    def _restart(self, slot: _Slot, code: int, now: float) -> None:
        slot.reason, cause = describe_exit_code(code)
        if code not in RESTART_CODES:
            slot.cause = cause
            return
        slot.restarts += 1
        pause = min(_INITIAL_BACKOFF_SECONDS * 2 ** (slot.restarts - 1), _MAX_BACKOFF_SECONDS)
        slot.start_at = now + pause

    def _probe(self, slot: _Slot, now: float) -> None:
        """Runs the manifest's livenessProbe, and kills a worker that fails it."""
        probe = self._worker["livenessProbe"]
        is_early = now - slot.started_at < probe["initialDelaySeconds"]
        if is_early or now - slot.probed_at < probe["periodSeconds"]:
            return
        slot.probed_at = now
        url = f"http://127.0.0.1:{self._ports[slot.index] + 1}{probe['httpGet']['path']}"
        try:
            with _OPEN_DIRECT(url, timeout=probe["timeoutSeconds"]) as answer:
                answer.read()
            slot.misses = 0
        except (urllib.error.URLError, http.client.HTTPException, OSError):
            slot.misses += 1
        if slot.misses >= probe["failureThreshold"] and slot.process:
            slot.process.kill()
            slot.process = None
            self._restart(slot, _KILLED, now)
            slot.reason = "it failed the liveness probe and was killed"

    def _end(self, phase: Phase, reason: str, cause: Cause = "") -> None:
        processes = [slot.process for slot in self._slots if slot.process]
        if processes:
            self._write("stopping", reason or STOPPING, cause)
        for process in processes:
            process.signal(signal.SIGTERM)
        grace = self._spec["template"]["spec"]["terminationGracePeriodSeconds"]
        until = monotonic_seconds() + grace
        while any(p.exit_code() is None for p in processes) and monotonic_seconds() < until:
            time.sleep(_POLL_SECONDS)
        for process in processes:
            process.kill()
        for slot in self._slots:
            slot.process = None
        self._job.key_file.unlink(missing_ok=True)
        self._write(phase, reason, cause, ended_at=utc_now())

    def _write(
        self, phase: Phase, reason: str = "", cause: Cause = "", ended_at: str | None = None
    ) -> None:
        workers = tuple(_note(slot, is_over=ended_at is not None) for slot in self._slots)
        note = SavedState(
            phase=phase,
            supervisor=os.getpid(),
            workers=workers,
            reason=reason,
            cause=cause,
            started_at=self._began,
            ended_at=ended_at,
        )
        if note != self._written:
            self._state.write(note)
            self._written = note


def _note(slot: _Slot, *, is_over: bool) -> SavedWorkerState:
    phase: WorkerPhase = "done" if slot.done else "running" if slot.process else "waiting"
    if slot.cause:
        phase = "failed"
    elif is_over and not slot.done:
        phase = "stopped"
    return SavedWorkerState(
        index=slot.index,
        phase=phase,
        pid=slot.process.pid if slot.process else None,
        start_time=slot.process.start_time if slot.process else "",
        restarts=slot.restarts,
        reason=slot.reason,
        cause=slot.cause,
    )


def _port_pairs(count: int) -> list[tuple[socket.socket, socket.socket]]:
    """Holds pairs of a port and the next one: for TensorFlow and for the control server."""
    found: list[tuple[socket.socket, socket.socket]] = []
    while len(found) < count:
        first = hold_port()
        try:
            found.append((first, hold_port(port=number_of(first) + 1)))
        except (OSError, OverflowError):
            first.close()
    return found


_START_FIELD = 18  # after the state in /proc/PID/stat: ticks since boot, proc(5)


class Process:
    """A worker process in its own session."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        work: Path,
        *,
        pass_fds: Sequence[int] = (),
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        work.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            self._popen = subprocess.Popen(  # noqa: S603
                list(command),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        self.pid = self._popen.pid
        self.start_time = process_start_time(self.pid)

    def exit_code(self) -> int | None:
        """Returns the exit code, 128 plus the signal number after a signal; None while it runs."""
        found = self._popen.poll()
        return None if found is None else found if found >= 0 else 128 - found

    def signal(self, number: int) -> None:
        """Sends a signal to the worker only."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kills the worker and all processes that it started."""
        kill_session(self.pid)
        self._popen.wait()


def kill_session(pid: int) -> None:
    """Kills a session leader and its process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def names_folder(pid: int, folder: Path) -> bool:
    """Whether the command or the environment of a process names a folder of a run.

    A state file can name any process; only the supervisor and the workers of its run are stopped.
    Without /proc, as on macOS, the answer is yes.
    """
    if not Path("/proc/self/environ").exists():
        return True
    path = os.fsencode(folder.resolve())
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    own = (one for one in variables if one.startswith(b"CLOUDGAN_"))
    return path in words or any(one.partition(b"=")[2].startswith(path + b"/") for one in own)


def process_start_time(pid: int) -> str:
    """Returns the start time of a process; empty if there is none or it is unknown."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            state, *fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if state in "ZX" else fields[_START_FIELD]
    done = subprocess.run(  # noqa: S603
        ("ps", "-o", "lstart=,stat=", "-p", str(pid)),  # noqa: S607  macOS
        capture_output=True,
        text=True,
        check=False,
    )
    text = " ".join(done.stdout.split())
    started, _, state = text.rpartition(" ")
    return "" if state.startswith("Z") else started
