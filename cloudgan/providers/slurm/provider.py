"""Runs on a Slurm cluster, from a machine of it that may send jobs."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cloudgan.core import plan as plans
from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import LaunchError, PlanError
from cloudgan.core.growing_file import lines_of
from cloudgan.core.labels import RUN
from cloudgan.core.run_state import LogLine, RunState
from cloudgan.core.whole_file import write_other
from cloudgan.kubernetes.manifests import PLAN_PLACEHOLDER
from cloudgan.providers.slurm.commands import Commands, RefusedError
from cloudgan.providers.slurm.job_state import run_state
from cloudgan.providers.slurm.jobs import Jobs
from cloudgan.providers.slurm.notes import Notes
from cloudgan.providers.slurm.partitions import fitting, gres_of, read_partitions
from cloudgan.providers.slurm.requests import PLAN_FILE, SCRIPT_FILE, run_folder, steps
from cloudgan.providers.slurm.script import FOLDER_LABEL, JOB_FOLDER
from cloudgan.providers.standing_machines import StandingMachines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.core.plan import Plan, Step

_POLL_SECONDS: Final = 2.0
_GONE_SECONDS: Final = 90.0
"""After all were told to end and killed; Slurm's own patience (KillWait) is 30 s."""


class SlurmProvider(StandingMachines):
    """The jobs of this user, and the folders of their runs."""

    def __init__(
        self,
        runs: Path,
        commands: Commands | None = None,
        *,
        python: str = sys.executable,
        poll_seconds: float = _POLL_SECONDS,
        gone_seconds: float = _GONE_SECONDS,
    ) -> None:
        """Takes the folder of runs here, and the Python that has cloudgan on all nodes."""
        self._runs, self._commands = runs.absolute(), commands or Commands()
        self._jobs, self._python = Jobs(self._commands), python
        self._poll_seconds, self._gone_seconds = poll_seconds, gone_seconds

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Asks whether the cluster has what is wanted, before anything is made.

        Raises:
            ConfigError: Slurm's programs are not here.
            UnknownNameError: There is no such partition.
            PlanError: It has not enough nodes, time or accelerators.
        """
        self._commands.require()
        fitting(plan, read_partitions(self._commands))
        return ()

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        """Returns the plan's steps with this Python, and accelerators as they are called here."""
        nodes = fitting(plan, read_partitions(self._commands))
        gres = gres_of(plan, nodes[0]) or None
        return steps(plan, runs=self._runs, python=self._python, gres=gres)

    def intent(self, run: str) -> Plan | None:
        """Returns the plan that a run was started with: as noted here, or where its job says."""
        path = self._runs / run / PLAN_FILE
        if not path.exists():
            job = self._jobs.of(run)
            if job is None or FOLDER_LABEL not in job.labels:
                return None
            path = Path(job.labels[FOLDER_LABEL]) / PLAN_FILE
            if not path.exists():
                return None
        found = plans.read(path)
        return found if found.place.provider == "slurm" else None

    def ensure(self, step: Step, plan: Plan) -> bool:
        """Writes a file, or sends the job unless there is one; whether something was done.

        Raises:
            PlanError: Slurm does not take the job; carries its words.
        """
        folder = run_folder(plan, self._runs)
        if step.method == "RUN":
            return self._send(plan, folder)
        text = plan.model_dump_json(indent=2) if step.body == PLAN_PLACEHOLDER else str(step.body)
        return write_other(folder / step.path, text)

    def mark(self, run: str, state: str) -> None:
        """What is wanted of a run stands in its folder already."""

    def state(self, run: str) -> RunState:
        """Returns how a run is doing."""
        job = self._jobs.of(run)
        plan = self.intent(run)
        if plan is None:
            return RunState("absent")
        notes = self._notes(plan)
        past, number = None, notes.job()
        if job is None and number and notes.end() is None:
            past = self._jobs.past(number)
        return run_state(job, past, notes, plan.workers.nodes)

    def wait_for_change(self, run: str, seconds: float) -> None:
        """Returns when the state changed, at the latest in `seconds`."""
        before, deadline = self.state(run), monotonic_seconds() + seconds
        while monotonic_seconds() < deadline:
            time.sleep(min(self._poll_seconds, max(0.0, deadline - monotonic_seconds())))
            if self.state(run) != before:
                return

    def log_sources(self, run: str) -> dict[str, Callable[[bool], Iterator[LogLine]]]:
        """Returns, for each worker, what yields its lines; True follows them."""
        plan = self.intent(run)
        found = self._notes(plan).logs() if plan else {}
        return {path.stem: self._source(run, rank, path) for rank, path in found.items()}

    def stop(self, run: str) -> None:
        """Ends the job, whose workers save first. Returns when nothing computes.

        Raises:
            LaunchError: It does not end.
        """
        job, plan = self._jobs.of(run), self.intent(run)
        if job is None or plan is None:
            return
        self._notes(plan).ask_to_stop()
        if job.state == "RUNNING":
            # To the workers only: the script lives on and notes their end.
            self._cancel("--signal=TERM", job.id)
            if self._is_gone(run, plan.workers.grace_seconds + self._poll_seconds):
                return
        self._cancel(job.id)
        if not self._is_gone(run, self._gone_seconds):
            raise LaunchError(
                f"job {job.id} of run {run} does not end; `scontrol show job {job.id}` may say why."
                f" `cloudgan down {run}` tries again"
            )

    def remove(self, run: str) -> Iterator[str]:
        """Ends the job and removes what it worked with; record and checkpoints stay."""
        job, plan = self._jobs.of(run), self.intent(run)
        self.stop(run)
        if job is not None:
            yield f"job {job.id}"
        folder = run_folder(plan, self._runs) / JOB_FOLDER if plan else None
        if folder and folder.exists():
            shutil.rmtree(folder)
            yield f"{folder} (script, notes and logs of the job)"

    def runs(self) -> tuple[str, ...]:
        """Returns the names of all runs that were started here, or whose jobs are not over."""
        here = (path.parent.name for path in self._runs.glob(f"*/{PLAN_FILE}"))
        known = {name for name in here if self.intent(name)}
        return tuple(sorted(known | {job.labels[RUN] for job in self._jobs.all()}))

    def _notes(self, plan: Plan) -> Notes:
        return Notes(run_folder(plan, self._runs) / JOB_FOLDER)

    def _send(self, plan: Plan, folder: Path) -> bool:
        if self._jobs.of(plan.run) is not None:
            return False
        notes = Notes(folder / JOB_FOLDER)
        notes.clear()
        try:
            sent = self._commands.run("sbatch", "--parsable", str(folder / SCRIPT_FILE))
        except RefusedError as error:
            raise PlanError(
                f"Slurm does not take the job: {error}. Nothing runs; `sinfo` lists the partitions"
                f" and `scontrol show partition` what each allows. The script is"
                f" {folder / SCRIPT_FILE}"
            ) from error
        notes.write_job(sent.strip().partition(";")[0])  # behind it the cluster's name may follow
        return True

    def _cancel(self, *arguments: str) -> None:
        try:
            self._commands.run("scancel", *arguments)
        except RefusedError as error:
            if "Invalid job id" not in str(error):  # it has ended meanwhile
                raise

    def _is_gone(self, run: str, seconds: float) -> bool:
        deadline = monotonic_seconds() + seconds
        while self._jobs.of(run) is not None:
            if monotonic_seconds() > deadline:
                return False
            time.sleep(self._poll_seconds)
        return True

    def _source(self, run: str, rank: int, path: Path) -> Callable[[bool], Iterator[LogLine]]:
        def lines(follow: bool) -> Iterator[LogLine]:
            is_over = (lambda: self.state(run).is_over) if follow else None
            for line in lines_of(path, is_over):
                yield LogLine(rank, "", line)

        return lines
