"""Runs Slurm's programs and parses their output: sbatch, squeue, scancel, scontrol, sinfo, sacct."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import ConfigError, LaunchError
from cloudgan.core.labels import RUN
from cloudgan.core.settings import slurm_environment
from cloudgan.launch.backends.slurm.requests import FOLDER_LABEL

REQUIRED: Final = ("sbatch", "squeue", "scancel", "scontrol", "sinfo")
_UNREACHABLE = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Zero Bytes were transmitted",
    "Transport endpoint is not connected",
)
_RETRY_SECONDS = 60.0
_PAUSE_SECONDS = 2.0


class SlurmError(LaunchError):
    """A Slurm program failed; the message is its output."""


class SlurmCommands:
    """Runs Slurm's programs; retries while the controller is unreachable."""

    def __init__(
        self,
        say: Callable[[str], None] = lambda _: None,
        *,
        patience_seconds: float = _RETRY_SECONDS,
        pause_seconds: float = _PAUSE_SECONDS,
    ) -> None:
        self._say, self._patience, self._pause = say, patience_seconds, pause_seconds

    def require(self) -> None:
        """Checks that Slurm's programs are installed."""
        missing = [name for name in REQUIRED if shutil.which(name) is None]
        if missing:
            raise ConfigError(
                f"--provider=slurm needs Slurm's programs, but {', '.join(missing)} cannot be"
                " found; run cloudgan on a login node of the cluster"
                " (`module load slurm` may be needed first)"
            )

    def run(
        self,
        *command: str,
        without: Iterable[str] = (),
        done_already: Callable[[], str | None] = lambda: None,
    ) -> str:
        """Runs a program, in the environment but `without` these; returns its output, with times in UTC.

        Args:
            done_already: Called before a repetition; returns the output of a request that the controller
                carried out without an answer, None: there is none.

        Raises:
            SlurmError: It failed; carries its words.
        """
        until, was_unreachable = monotonic_seconds() + self._patience, False
        while True:
            done = self._once(command, without)
            if done.returncode == 0:
                return done.stdout
            message = _message(done.stderr or done.stdout)
            if not any(sign in message for sign in _UNREACHABLE):
                raise SlurmError(message or f"{command[0]} exited with code {done.returncode}")
            if monotonic_seconds() > until:
                raise LaunchError(
                    f"Slurm's controller does not respond ({message}); its jobs continue. Retry"
                    " later"
                )
            if not was_unreachable:
                self._say(f"Slurm's controller does not respond ({message}); retrying")
                was_unreachable = True
            time.sleep(self._pause)
            if (output := done_already()) is not None:
                return output

    def _once(
        self, command: tuple[str, ...], without: Iterable[str]
    ) -> subprocess.CompletedProcess[str]:
        if shutil.which(command[0]) is None:
            self.require()
            raise SlurmError(f"{command[0]} is not installed")
        return subprocess.run(  # noqa: S603
            command,
            env=slurm_environment(without),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def _message(text: str) -> str:
    """Joins a program's output lines without its name at their start."""
    lines = (line.strip() for line in text.splitlines())
    plain = [line.removeprefix(f"{name}: ") for line in lines for name in (line.partition(":")[0],)]
    return "; ".join(dict.fromkeys(line.removeprefix("error: ") for line in plain if line))


# The comment is last, because it may contain any character.
_SQUEUE: Final = "%i|%T|%r|%k"
_SACCT: Final = "JobIDRaw,State,ExitCode,End"
_UNKNOWN: Final = ("Unknown", "N/A", "None", "")


@dataclass(frozen=True, slots=True)
class Job:
    """A job in Slurm's queue.

    Attributes:
        state: Slurm's state, such as PENDING.
    """

    id: str
    state: str
    reason: str
    labels: dict[str, str]


@dataclass(frozen=True, slots=True)
class EndedJob:
    """Slurm's record of a job that has ended.

    Attributes:
        state: Slurm's state, such as TIMEOUT.
        exit_code: Exit code of its script.
        ended: ISO 8601; None is unknown.
    """

    state: str
    exit_code: int
    ended: str | None


def all_jobs(commands: SlurmCommands) -> tuple[Job, ...]:
    """Returns the jobs of this user that cloudgan submitted and that have not ended."""
    text = commands.run("squeue", "--me", "--noheader", f"--format={_SQUEUE}")
    found = (_job(line) for line in text.splitlines() if line.count("|") >= _SQUEUE.count("|"))
    return tuple(job for job in found if RUN in job.labels)


def job_of(commands: SlurmCommands, run: str) -> Job | None:
    """Returns the job of a run; None if none is in the queue."""
    return next((job for job in all_jobs(commands) if job.labels[RUN] == run), None)


def past_job(commands: SlurmCommands, job_id: str) -> EndedJob | None:
    """Returns the record of an ended job, from the controller or else from accounting."""
    try:
        return _shown(commands.run("scontrol", "show", "job", job_id, "--oneliner"))
    except SlurmError:
        pass
    try:
        options = ("--allocations", "--noheader", "--parsable2", f"--format={_SACCT}")
        return _accounted(commands.run("sacct", f"--jobs={job_id}", *options))
    except LaunchError:
        return None  # no accounting


def _job(line: str) -> Job:
    number, state, reason, comment = line.split("|", 3)
    return Job(number, state, reason, parse_comment(comment))


def parse_comment(text: str) -> dict[str, str]:
    """Parses the labels in a job's comment."""
    plain, mark, folder = text.partition(f",{FOLDER_LABEL}=")
    pairs = (part.partition("=") for part in plain.split(","))
    labels = {name: value for name, equals, value in pairs if equals}
    return labels | ({FOLDER_LABEL: folder} if mark else {})


def _shown(text: str) -> EndedJob | None:
    found = dict(re.findall(r"(?:^| )(\w+)=(\S*)", text))
    if "JobState" not in found:
        return None
    return _past(found["JobState"], found.get("ExitCode", ""), found.get("EndTime", ""))


def _accounted(text: str) -> EndedJob | None:
    # A requeued job has one line per start; the last is the newest.
    lines = [line.split("|") for line in text.splitlines() if line.count("|") >= _SACCT.count(",")]
    return _past(*lines[-1][1:4]) if lines else None


def _past(state: str, exit_code: str, ended: str) -> EndedJob:
    """Parses CODE:SIGNAL and a state such as CANCELLED by 1000."""
    code, _, number = exit_code.partition(":")
    signal = int(number) if number.isdecimal() else 0
    code_or_signal = int(code) if code.isdecimal() and int(code) else 128 + signal if signal else 0
    when = None if ended in _UNKNOWN else f"{ended}Z"
    return EndedJob(state.split(maxsplit=1)[0] if state else "", code_or_signal, when)
