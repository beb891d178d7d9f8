"""Runs on this machine: the same plan, kept by a process in the background."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from cloudgan.core import plan as plans
from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import ConfigError, LaunchError
from cloudgan.core.growing_file import lines_of
from cloudgan.core.run_state import LogLine, RunState, WorkerState
from cloudgan.core.settings import child_environment
from cloudgan.core.whole_file import write_other
from cloudgan.kubernetes.manifests import PLAN_PLACEHOLDER
from cloudgan.providers.local.process import kill_session, process_mark
from cloudgan.providers.local.requests import PLAN_FILE, SUPERVISOR, steps
from cloudgan.providers.local.state_file import StateFile
from cloudgan.providers.standing_machines import StandingMachines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cloudgan.core.plan import Plan, Step

_POLL_SECONDS = 0.2
_START_SECONDS = 30.0
_STOP_SECONDS = 90.0
_STARTED: list[subprocess.Popen[bytes]] = []
"""Supervisors that this process started: they may outlive it, and are waited for if they don't."""


class LocalProvider(StandingMachines):
    """The folders of runs below one folder, such as runs/."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Looks whether this machine can train.

        Raises:
            ConfigError: TensorFlow is not installed.
        """
        del plan
        if find_spec("tensorflow") is None:
            raise ConfigError(
                "--provider=local trains on this machine, and TensorFlow is not installed; type: pip"
                " install 'cloudgan[train]'"
            )
        return ()

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        """Returns the plan's steps."""
        return steps(plan)

    def intent(self, run: str) -> Plan | None:
        """Returns the plan that a run was started with; None where none was, or it was removed."""
        path = self._runs / run / PLAN_FILE
        if not path.exists() or not (self._runs / run / "pods").exists():
            return None
        found = plans.read(path)
        return found if found.place.provider == "local" else None

    def ensure(self, step: Step, plan: Plan) -> bool:
        """Writes a file, or starts the process that keeps the workers, unless it lives.

        Raises:
            LaunchError: That process did not start.
        """
        folder = self._runs / plan.run
        if step.method == "RUN":
            return self._start(folder)
        there = self.intent(plan.run) if step.find == PLAN_FILE else None
        if there and there.spec != plan.spec and StateFile(folder).supervisor():
            raise ConfigError(
                f"run {plan.run} is running with other settings; take another --name, or end it"
                f" first: cloudgan down {plan.run}"
            )
        body = plan.model_dump_json(indent=2) if step.body == PLAN_PLACEHOLDER else step.body
        text = body if isinstance(body, str) else json.dumps(body, indent=2)
        return write_other(folder / step.path, text)

    def mark(self, run: str, state: str) -> None:
        """What is wanted of a run stands in its state file already."""

    def state(self, run: str) -> RunState:
        """Returns how a run is doing."""
        folder = self._runs / run
        file = StateFile(folder)
        lives = file.supervisor() is not None
        note = file.read()
        if note is None:
            return RunState("starting" if lives else "absent")
        workers = tuple(
            WorkerState(w.index, w.phase, "this machine", w.replaced, w.why, w.cause)
            for w in note.workers
        )
        found = RunState(note.phase, workers, note.why, note.cause, note.began, note.ended)
        if lives or note.ended:
            return replace(found, phase="starting") if lives and note.ended else found
        return replace(
            found,
            phase="stopped",
            why="the process that kept its workers is gone; was this machine restarted?",
        )

    def wait_for_change(self, run: str, seconds: float) -> None:
        """Returns when the state changed, at the latest in `seconds`."""
        before, deadline = self.state(run), monotonic_seconds() + seconds
        while monotonic_seconds() < deadline and self.state(run) == before:
            time.sleep(_POLL_SECONDS)

    def log_sources(self, run: str) -> dict[str, Callable[[bool], Iterator[LogLine]]]:
        """Returns, for each worker, what yields its lines; True follows them."""
        folder = self._runs / run / "pods" / "logs"
        return {
            path.stem: self._source(run, int(path.stem.rpartition("-")[2]), path)
            for path in sorted(folder.glob("worker-*.log"))
        }

    def stop(self, run: str) -> None:
        """Ends the workers, which save first, and whatever a lost supervisor left.

        Raises:
            LaunchError: They do not end.
        """
        file = StateFile(self._runs / run)
        pid = file.supervisor()
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        deadline = monotonic_seconds() + _STOP_SECONDS
        while file.supervisor() is not None:
            if monotonic_seconds() > deadline:
                raise LaunchError(f"process {pid} keeps the workers of {run} and does not end")
            time.sleep(_POLL_SECONDS)
        _reap(pid)
        note = file.read()
        for worker in note.workers if note else ():
            if worker.pid and worker.mark and process_mark(worker.pid) == worker.mark:
                kill_session(worker.pid)

    def remove(self, run: str) -> Iterator[str]:
        """Ends the workers and removes what they worked with; record and checkpoints stay."""
        self.stop(run)
        folder = self._runs / run / "pods"
        if folder.exists():
            shutil.rmtree(folder)
            yield f"{folder} (processes and their working folders)"

    def runs(self) -> tuple[str, ...]:
        """Returns the names of all runs that were started here."""
        found = self._runs.glob(f"*/{PLAN_FILE}")
        return tuple(sorted(path.parent.name for path in found if self.intent(path.parent.name)))

    def _start(self, folder: Path) -> bool:
        file = StateFile(folder)
        if file.supervisor() is not None:
            return False
        note = file.read()
        if note is not None:
            fresh = {"phase": "starting", "why": "", "cause": "", "began": None, "ended": None}
            file.write(note.model_copy(update=fresh))
        log = folder / "pods" / f"{SUPERVISOR}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            process = subprocess.Popen(  # noqa: S603
                (sys.executable, "-m", "cloudgan.providers.local", str(folder.resolve())),
                env=child_environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _STARTED.append(process)
        deadline = monotonic_seconds() + _START_SECONDS
        while file.supervisor() is None:
            if process.poll() is not None or monotonic_seconds() > deadline:
                said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
                raise LaunchError(
                    f"the workers could not be started ({said[-1] if said else 'without a word'});"
                    f" see {log}"
                )
            time.sleep(_POLL_SECONDS / 4)
        return True

    def _source(self, run: str, index: int, path: Path) -> Callable[[bool], Iterator[LogLine]]:
        def lines(follow: bool) -> Iterator[LogLine]:
            is_over = (lambda: self.state(run).is_over) if follow else None
            for line in lines_of(path, is_over):
                yield LogLine(index, "", line)

        return lines


def _reap(pid: int | None) -> None:
    """Waits for a supervisor that lets go of its run, if it is this process' child; and its like."""
    for process in _STARTED:
        if process.pid == pid:
            process.wait()
    _STARTED[:] = [process for process in _STARTED if process.poll() is None]


__all__ = ["SUPERVISOR", "LocalProvider"]
