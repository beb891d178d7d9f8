"""Runs on this machine: a background supervisor keeps the worker processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cloudgan.core.atomic_file import write_if_changed
from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import ConfigError, LaunchError, counted, install_command
from cloudgan.core.loopback_network import LoopbackNetwork
from cloudgan.core.settings import child_environment
from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.launch.backends.local.supervisor import (
    LocalJob,
    StateFile,
    kill_session,
    names_folder,
    process_start_time,
)
from cloudgan.launch.backends.remote_command import CommandStreams, run_process
from cloudgan.launch.backends.run_document import ForeignDocumentError, check_inside, read_plan
from cloudgan.launch.kubernetes.manifests import PLAN_PLACEHOLDER, job, must_guard_ports, run_yaml
from cloudgan.schema.plan import Plan, Step
from cloudgan.schema.run_state import LogLine, RunState, WorkerState

_POLL_SECONDS = 0.2
_START_SECONDS = 30.0
_STOP_SECONDS = 90.0
_STARTED: list[subprocess.Popen[bytes]] = []
"""Supervisors started by this process; they may outlive it and are reaped otherwise."""
_NEEDS = {
    "train": ("tensorflow", "TensorFlow", "trains", "train"),
    "jax": ("jax", "JAX", "trains", "jax"),
    "simulate": ("geant4_pybind", "Geant4", "simulates", "geant4"),
}
"""Module of a job or of the engine jax, its name, what the job does, and the extra that has it; other jobs train."""


class LocalBackend(JobBackend):
    """The runs below one folder, such as runs/."""

    _poll_seconds = _POLL_SECONDS

    def __init__(self, runs: Path) -> None:
        self._runs = runs

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Checks that the plan can run here, and that this machine can train, or simulate."""
        workers = plan.workers
        if must_guard_ports(plan):
            who, alone = (
                f"--nodes={workers.nodes}",
                "one node: --nodes=1, with --replicas=N for several replicas",
            )
            if plan.config.join:
                who, alone = (
                    f"--parallel={plan.config.parallel.mode}",
                    "a search without --parallel",
                )
            if "://" in plan.store:
                raise ConfigError(
                    f"the trainers of {who} run without a network, so they cannot copy checkpoints to"
                    f" {plan.store}; use a folder as --store, or {alone.partition(':')[0]}, or"
                    " give them the network and accept that others can reach their ports:"
                    " --allow-open-ports"
                )
            LoopbackNetwork.check(alone)
        job = "jax" if plan.config.uses_jax else plan.config.job
        module, name, does, extra = _NEEDS.get(job, _NEEDS["train"])
        if find_spec(module) is None:
            raise ConfigError(
                f"--provider=local {does} on this machine, but {name} is not installed; run"
                f" {install_command(extra)}"
            )
        return ()

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        """Returns the plan's steps."""
        return local_steps(plan)

    def desired_state(self, run: str) -> Plan | None:
        """Returns the plan of a run; None if it was never started or is destroyed."""
        path = self._runs / run / PLAN_FILE
        if not path.exists() or not (self._runs / run / "pods").exists():
            return None
        found = read_plan(path, run)
        return found if found.target.provider == "local" else None

    def ensure(self, step: Step, plan: Plan) -> bool:
        """Writes a file of a step, or starts the supervisor unless it runs."""
        folder = self._runs / plan.run
        if step.method == "RUN":
            return self._start(folder)
        stored = self.desired_state(plan.run) if step.find == PLAN_FILE else None
        if stored and stored.spec_hash != plan.spec_hash and StateFile(folder).supervisor():
            raise ConfigError(
                f"run {plan.run} is running with other settings; use another --name, or stop it"
                f" first: cloudgan down {plan.run}"
            )
        body = plan.model_dump_json(indent=2) if step.body == PLAN_PLACEHOLDER else step.body
        text = body if isinstance(body, str) else json.dumps(body, indent=2)
        return write_if_changed(folder / step.path, text)

    def state(self, run: str) -> RunState:
        """Returns the state of a run and its workers."""
        folder = self._runs / run
        file = StateFile(folder)
        supervisor, note = file.supervisor(), file.read()
        if note is None:
            return RunState("starting" if supervisor else "absent")
        workers = tuple(
            WorkerState(w.index, w.phase, "this machine", w.restarts, w.reason, w.cause)
            for w in note.workers
        )
        found = RunState(
            note.phase, workers, note.reason, note.cause, note.started_at, note.ended_at
        )
        if supervisor and note.ended_at:
            return replace(found, phase="stopping" if note.supervisor == supervisor else "starting")
        if supervisor or note.ended_at:
            return found
        return replace(
            found,
            phase="stopped",
            reason="the supervisor has ended, perhaps by a restart of this machine",
        )

    def log_sources(self, run: str) -> dict[str, Callable[[bool], Iterator[LogLine]]]:
        """Returns by worker name a function that yields log lines; the argument means follow."""
        folder = self._runs / run / "pods" / "logs"
        return {
            path.stem: self._log_of(run, int(path.stem.rpartition("-")[2]), path)
            for path in sorted(folder.glob("worker-*.log"))
        }

    def execute(
        self, run: str, worker: int, command: Sequence[str], streams: CommandStreams
    ) -> int:
        """Runs a command in the folder of a worker, with its variables except CLOUDGAN_PEERS."""
        plan = self.desired_state(run)
        if plan is None:
            raise LaunchError(f"run {run} has no workers here")
        workers = LocalJob(job(plan), (self._runs / run).resolve())
        own: dict[str, str | None] = {**workers.environment_of(worker, ""), "CLOUDGAN_PEERS": None}
        environment = child_environment(**own)
        return run_process(command, streams, environment=environment, folder=workers.work(worker))

    def stop(self, run: str) -> None:
        """Stops the supervisor and the workers, which save a checkpoint first.

        Raises:
            ForeignDocumentError: The lock names a process of another program.
        """
        folder = self._runs / run
        file = StateFile(folder)
        pid = file.supervisor()
        if pid and not names_folder(pid, folder):
            raise ForeignDocumentError(
                f"{folder / 'pods' / '.lock'}: process {pid} is not the supervisor of run {run};"
                " nothing was stopped"
            )
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        deadline = monotonic_seconds() + _STOP_SECONDS
        while pid and file.supervisor() == pid:  # the next one may have started by then
            if monotonic_seconds() > deadline:
                raise LaunchError(f"supervisor process {pid} of run {run} does not end")
            time.sleep(_POLL_SECONDS)
        for process in _STARTED:
            if process.pid == pid:
                process.wait()
        _STARTED[:] = [process for process in _STARTED if process.poll() is None]
        note = file.read() if file.supervisor() is None else None
        for worker in note.workers if note else ():
            if (
                worker.pid
                and worker.start_time
                and process_start_time(worker.pid) == worker.start_time
                and names_folder(worker.pid, folder)
            ):
                kill_session(worker.pid)

    def destroy(self, run: str) -> Iterator[str]:
        """Stops the workers and deletes their folders; keeps record and checkpoints."""
        self.stop(run)
        folder = self._runs / run / "pods"
        if folder.exists():
            check_inside(folder, self._runs / run)
            shutil.rmtree(folder)
            yield f"{folder} (worker folders)"

    def list_runs(self) -> tuple[str, ...]:
        """Returns the names of all runs in the folder."""
        found = self._runs.glob(f"*/{PLAN_FILE}")
        return tuple(
            sorted(path.parent.name for path in found if self.desired_state(path.parent.name))
        )

    def _start(self, folder: Path) -> bool:
        file = StateFile(folder)
        if file.supervisor() is not None:
            return False
        note = file.read()
        if note is not None:
            fresh = {"phase": "starting", "reason": "", "cause": ""}
            file.write(note.model_copy(update=fresh | {"started_at": None, "ended_at": None}))
        log = folder / "pods" / f"{SUPERVISOR}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            process = subprocess.Popen(  # noqa: S603
                (sys.executable, "-m", "cloudgan.launch.backends.local", str(folder.resolve())),
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
                output = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
                raise LaunchError(
                    f"the supervisor did not start ({output[-1] if output else 'no output'});"
                    f" see {log}"
                )
            time.sleep(_POLL_SECONDS / 4)
        return True


PLAN_FILE = "plan.json"
CONFIG_FILE = "pods/config/run.yaml"
JOB_FILE = "pods/job.json"
SUPERVISOR = "supervisor"


def local_steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the steps in the run's folder: plan, run.yaml, job, supervisor."""
    body: dict[str, Any] = job(plan)
    return (
        Step(ensure="plan", method="PUT", path=PLAN_FILE, find=PLAN_FILE, body=PLAN_PLACEHOLDER),
        Step(ensure="run.yaml of the workers", method="PUT", path=CONFIG_FILE, body=run_yaml(plan)),
        Step(ensure="job of the workers", method="PUT", path=JOB_FILE, body=body),
        Step(
            ensure=counted(plan.workers.nodes, "worker process", "worker processes"),
            method="RUN",
            path="python -m cloudgan.launch.backends.local",
            find=SUPERVISOR,
        ),
    )
