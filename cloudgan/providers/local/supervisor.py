"""Keeps the worker processes of a run, as Kubernetes' Job controller and kubelet keep its pods."""

from __future__ import annotations

import http.client
import signal
import socket
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.core.clock import monotonic_seconds, utc_now
from cloudgan.core.settings import child_environment
from cloudgan.kubernetes.job_body import why_failed
from cloudgan.providers.local.process import Process
from cloudgan.providers.local.state_file import StateNote, WorkerNote

if TYPE_CHECKING:
    from types import FrameType

    from cloudgan.core.run_state import Cause, Phase, WorkerPhase
    from cloudgan.providers.local.job_file import JobFile
    from cloudgan.providers.local.state_file import StateFile

_POLL_SECONDS = 0.1
_FIRST_BACK_OFF_SECONDS = 1.0
_LONGEST_BACK_OFF_SECONDS = 60.0
_KILLED = 137
_ASK = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
"""A proxy of this machine's environment is for strangers, not for its own workers."""


@dataclass
class _Slot:
    """The place of one rank: whoever holds it now."""

    index: int
    process: Process | None = None
    replaced: int = 0
    start_at: float = 0.0
    began: float = 0.0
    misses: int = 0
    asked_at: float = 0.0
    done: bool = False
    why: str = ""
    cause: Cause = ""


class Supervisor:
    """Starts N workers, replaces those that the Job's rules replace, and ends them together."""

    def __init__(self, job: JobFile, state: StateFile) -> None:
        self._job, self._state = job, state
        self._slots = [_Slot(index) for index in range(job.world)]
        self._ports = _port_pairs(job.world)
        self._stop = False
        self._began: str | None = None
        self._written: StateNote | None = None

    def run(self) -> None:
        """Runs to the end: all workers done, one failed for good, the deadline, or SIGTERM."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)
        self._began = utc_now()
        deadline = monotonic_seconds() + self._job.deadline_seconds
        while True:
            now = monotonic_seconds()
            for slot in self._slots:
                self._keep(slot, now)
            if self._stop:
                return self._end("stopped", "")
            if now >= deadline:
                limit = f"{self._job.deadline_seconds:.0f}"
                return self._end("failed", f"its deadline of {limit} s is over", "deadline")
            for slot in self._slots:
                if slot.cause in ("program", "no progress"):
                    return self._end("failed", f"worker {slot.index}: {slot.why}", slot.cause)
            if all(slot.done for slot in self._slots):
                return self._end("finished", "")
            self._write(self._phase())
            time.sleep(_POLL_SECONDS)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._stop = True

    def _phase(self) -> Phase:
        up = sum(slot.done or slot.process is not None for slot in self._slots)
        return "running" if up == len(self._slots) else "starting"

    def _keep(self, slot: _Slot, now: float) -> None:
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
        slot.process.kill()  # what it may have left behind
        slot.process = None
        if code == 0:
            slot.done = True
        else:
            self._replace(slot, code, now)

    def _start(self, slot: _Slot, now: float) -> None:
        peers = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        changes = self._job.environment_of(slot.index, peers)
        slot.process = Process(
            self._job.command_here(),
            child_environment(TF_CONFIG=None, **changes),
            self._job.folder / "pods" / "logs" / f"worker-{slot.index}.log",
            self._job.work(slot.index),
        )
        slot.began, slot.misses, slot.asked_at = now, 0, now

    def _replace(self, slot: _Slot, code: int, now: float) -> None:
        slot.why, cause = why_failed(code)
        if not self._job.is_tried_again(code):
            slot.cause = cause
            return
        slot.replaced += 1
        pause = min(_FIRST_BACK_OFF_SECONDS * 2 ** (slot.replaced - 1), _LONGEST_BACK_OFF_SECONDS)
        slot.start_at = now + pause

    def _probe(self, slot: _Slot, now: float) -> None:
        """Asks as the kubelet does by the manifest's livenessProbe; a frozen worker is killed."""
        probe = self._job.probe
        if now - slot.began < probe["initialDelaySeconds"]:
            return
        if now - slot.asked_at < probe["periodSeconds"]:
            return
        slot.asked_at = now
        url = f"http://127.0.0.1:{self._ports[slot.index] + 1}{probe['httpGet']['path']}"
        try:
            with _ASK(url, timeout=probe["timeoutSeconds"]) as answer:
                answer.read()
            slot.misses = 0
        except (urllib.error.URLError, http.client.HTTPException, OSError):
            slot.misses += 1
        if slot.misses >= probe["failureThreshold"] and slot.process:
            slot.process.kill()
            slot.process = None
            self._replace(slot, _KILLED, now)
            slot.why = "it did not answer any more and was killed"

    def _end(self, phase: Phase, why: str, cause: Cause = "") -> None:
        processes = [slot.process for slot in self._slots if slot.process]
        if processes:
            self._write("running", why, cause)
        for process in processes:
            process.signal(signal.SIGTERM)
        until = monotonic_seconds() + self._job.grace_seconds
        while any(p.exit_code() is None for p in processes) and monotonic_seconds() < until:
            time.sleep(_POLL_SECONDS)
        for process in processes:
            process.kill()
        for slot in self._slots:
            slot.process = None
        self._write(phase, why, cause, ended=utc_now())

    def _write(
        self, phase: Phase, why: str = "", cause: Cause = "", ended: str | None = None
    ) -> None:
        workers = tuple(_note(slot, is_over=ended is not None) for slot in self._slots)
        note = StateNote(
            phase=phase, workers=workers, why=why, cause=cause, began=self._began, ended=ended
        )
        if note != self._written:
            self._state.write(note)
            self._written = note


def _note(slot: _Slot, *, is_over: bool) -> WorkerNote:
    phase: WorkerPhase = "done" if slot.done else "running" if slot.process else "waiting"
    if slot.cause:
        phase = "failed"
    elif is_over and not slot.done:
        phase = "stopped"
    return WorkerNote(
        index=slot.index,
        phase=phase,
        pid=slot.process.pid if slot.process else None,
        mark=slot.process.mark if slot.process else "",
        replaced=slot.replaced,
        why=slot.why,
        cause=slot.cause,
    )


def _port_pairs(count: int) -> list[int]:
    """Ports that are free now and whose next one is too: TensorFlow's, and the control server's."""
    held: list[socket.socket] = []
    found: list[int] = []
    try:
        while len(found) < count:
            first, second = socket.socket(), socket.socket()
            held += [first, second]
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            found.append(port)
    finally:
        for one in held:
            one.close()
    return found
