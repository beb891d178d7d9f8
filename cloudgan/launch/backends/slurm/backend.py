"""Runs on a Slurm cluster, from a login node."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cloudgan.core.atomic_file import write_if_changed
from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import LaunchError, PlanError
from cloudgan.core.labels import RUN
from cloudgan.core.run_secret import write_secret
from cloudgan.core.settings import slurm_environment
from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.launch.backends.remote_command import CommandStreams, run_process
from cloudgan.launch.backends.run_document import RunSource, check_inside, read_plan
from cloudgan.launch.backends.slurm.client import (
    SlurmCommands,
    SlurmError,
    all_jobs,
    check_exclusive_nodes,
    job_of,
    matching_nodes,
    partition_gres,
    past_job,
    read_partitions,
)
from cloudgan.launch.backends.slurm.job_state import JobFiles, run_state
from cloudgan.launch.backends.slurm.requests import (
    FOLDER_LABEL,
    JOB_FOLDER,
    KEY,
    PLAN_FILE,
    SCRIPT_FILE,
    run_folder,
    slurm_steps,
)
from cloudgan.launch.kubernetes.job_state import KEY_FILE
from cloudgan.launch.kubernetes.manifests import PLAN_PLACEHOLDER, has_secret, must_guard_ports
from cloudgan.schema.plan import Plan, Step
from cloudgan.schema.run_state import LogLine, RunState

_POLL_SECONDS: Final = 2.0
_GONE_SECONDS: Final = 90.0
"""Time for a cancelled job to end; Slurm's KillWait is 30 s."""


class SlurmBackend(JobBackend):
    """The jobs of this user and the folders of their runs."""

    def __init__(
        self,
        runs: Path,
        commands: SlurmCommands | None = None,
        *,
        python: str = sys.executable,
        poll_seconds: float = _POLL_SECONDS,
        gone_seconds: float = _GONE_SECONDS,
    ) -> None:
        """Takes the folder of runs and the Python interpreter that has cloudgan on all nodes."""
        self._runs, self._commands = runs.absolute(), commands or SlurmCommands()
        self._python = python
        self._poll_seconds, self._gone_seconds = poll_seconds, gone_seconds

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Checks that the cluster has the nodes before anything is created."""
        self._commands.require()
        nodes = matching_nodes(plan, read_partitions(self._commands))
        if must_guard_ports(plan):
            check_exclusive_nodes(plan, nodes[0].name, self._commands)
        return ()

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        """Returns the plan's steps with this interpreter and the cluster's names of accelerators."""
        nodes = matching_nodes(plan, read_partitions(self._commands))
        gres = partition_gres(plan, nodes[0]) or None
        return slurm_steps(plan, runs=self._runs, python=self._python, gres=gres)

    def desired_state(self, run: str) -> Plan | None:
        """Returns the plan of a run, from the local folder or from the folder in its job's comment.

        None if it was never started or is destroyed: it has neither a job nor its files.
        """
        path, source = self._runs / run / PLAN_FILE, RunSource("", run)
        if not path.exists():
            job = job_of(self._commands, run)
            if job is None or FOLDER_LABEL not in job.labels:
                return None
            path = Path(job.labels[FOLDER_LABEL]) / PLAN_FILE
            if not path.exists():
                return None
            source = RunSource("", run, labels=job.labels)
        found = read_plan(path, run)
        if found.target.provider != "slurm":
            return None
        if not self._job_files(found).folder.exists() and not self._job_id(run):
            return None
        if source.labels and "://" not in found.store:  # then the job is in the store's folder
            source = replace(source, store=str(path.parents[2]))
        return replace(source, place=str(path)).checked_plan(found)

    def ensure(self, step: Step, plan: Plan) -> bool:
        """Writes a file or submits the job if it is missing; returns whether it did.

        Raises:
            PlanError: Slurm rejects the job.
        """
        folder = run_folder(plan, self._runs)
        if step.method == "RUN":
            return self._submit(plan, folder)
        text = plan.model_dump_json(indent=2) if step.body == PLAN_PLACEHOLDER else str(step.body)
        return write_if_changed(folder / step.path, text)

    def state(self, run: str) -> RunState:
        """Returns the state of a run and its workers."""
        job = job_of(self._commands, run)
        plan = self.desired_state(run)
        if plan is None:
            return RunState("absent")
        files = self._job_files(plan)
        past, number = None, files.job()
        if job is None and number and files.end() is None:
            past = past_job(self._commands, number)
        return run_state(job, past, files, plan.workers.nodes)

    def log_sources(self, run: str) -> dict[str, Callable[[bool], Iterator[LogLine]]]:
        """Returns by worker name a function that yields log lines; the argument means follow."""
        plan = self.desired_state(run)
        found = self._job_files(plan).logs() if plan else {}
        return {path.stem: self._log_of(run, rank, path) for rank, path in found.items()}

    def execute(
        self, run: str, worker: int, command: Sequence[str], streams: CommandStreams
    ) -> int:
        """Runs a command as a step of the job on the node of a worker.

        `--overlap` shares the resources with the worker
        (https://slurm.schedmd.com/srun.html#OPT_overlap, read 2026-11-22).
        """
        job, state = job_of(self._commands, run), self.state(run)
        node = next((one.node for one in state.workers if one.index == worker), "")
        if job is None or not node:
            raise LaunchError(f"worker {worker} of run {run} has no node")
        step = ["srun", "--overlap", f"--jobid={job.id}", "--nodes=1", "--ntasks=1"]
        step += [f"--nodelist={node}", *(("--pty",) if streams.terminal else ()), *command]
        return run_process(step, streams, environment=slurm_environment())

    def stop(self, run: str) -> None:
        """Cancels the job after its workers have saved a checkpoint, and waits for its end."""
        job, plan = job_of(self._commands, run), self.desired_state(run)
        if plan is None:
            return
        files, is_gone = self._job_files(plan), False
        if job is not None:
            files.request_stop()
            if job.state == "RUNNING":
                # To the workers only: the script continues and records their end.
                self._cancel("--signal=TERM", job.id)
                is_gone = self._is_gone(run, plan.workers.grace_seconds + self._poll_seconds)
            if not is_gone:
                self._cancel(job.id)
                is_gone = self._is_gone(run, self._gone_seconds)
            if not is_gone:
                raise LaunchError(
                    f"job {job.id} of run {run} does not end; check `scontrol show job {job.id}`, then"
                    f" run: cloudgan down {run}"
                )
        self._forget_secrets(files)  # a job that was killed, or never started, has left them

    def destroy(self, run: str) -> Iterator[str]:
        """Cancels the job and deletes its files; keeps record and checkpoints."""
        job, plan = job_of(self._commands, run), self.desired_state(run)
        self.stop(run)
        if job is not None:
            yield f"job {job.id}"
        folder = run_folder(plan, self._runs) / JOB_FOLDER if plan else None
        if folder and folder.exists():
            check_inside(folder, folder.parent)
            shutil.rmtree(folder)
            yield f"{folder} (script, status files and logs of the job)"

    def list_runs(self) -> tuple[str, ...]:
        """Returns the names of all runs in the folder or with a job in the queue."""
        here = (path.parent.name for path in self._runs.glob(f"*/{PLAN_FILE}"))
        known = {name for name in here if self.desired_state(name)}
        return tuple(sorted(known | {job.labels[RUN] for job in all_jobs(self._commands)}))

    def deprovision(self, run: str, state: str) -> Iterator[str]:
        """Deletes the secrets of a run that has ended, should its script have been killed."""
        if (plan := self.desired_state(run)) and job_of(self._commands, run) is None:
            self._forget_secrets(self._job_files(plan))
        return super().deprovision(run, state)

    @staticmethod
    def _forget_secrets(files: JobFiles) -> None:
        folder = files.folder / KEY
        if folder.exists():
            check_inside(folder, files.folder)
            shutil.rmtree(folder)

    def _job_files(self, plan: Plan) -> JobFiles:
        return JobFiles(run_folder(plan, self._runs) / JOB_FOLDER)

    def _submit(self, plan: Plan, folder: Path) -> bool:
        if self._job_id(plan.run):
            return False
        files = JobFiles(folder / JOB_FOLDER)
        files.clear()
        self._forget_secrets(files)
        if has_secret(plan):
            write_secret(files.folder / KEY / KEY_FILE, plan.workers.secrets)
        command = ("sbatch", "--parsable", str(folder / SCRIPT_FILE))
        try:
            # The controller may queue a job and time out: a second one would write to the same folder.
            output = self._commands.run(
                *command,
                without=plan.workers.secrets,
                done_already=lambda: self._job_id(plan.run),
            )
        except SlurmError as error:
            self._forget_secrets(files)
            raise PlanError(
                f"Slurm rejects the job: {error}. `sinfo` lists the partitions and"
                f" `scontrol show partition` their limits. The script is"
                f" {folder / SCRIPT_FILE}"
            ) from error
        files.write_job(output.strip().partition(";")[0])  # the cluster's name may follow
        return True

    def _job_id(self, run: str) -> str | None:
        job = job_of(self._commands, run)
        return job.id if job else None

    def _cancel(self, *arguments: str) -> None:
        try:
            self._commands.run("scancel", *arguments)
        except SlurmError as error:
            if "Invalid job id" not in str(error):  # it has ended already
                raise

    def _is_gone(self, run: str, seconds: float) -> bool:
        deadline = monotonic_seconds() + seconds
        while job_of(self._commands, run) is not None:
            if monotonic_seconds() > deadline:
                return False
            time.sleep(self._poll_seconds)
        return True
