"""Jobs as squeue, scontrol and sacct tell of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cloudgan.core.errors import LaunchError
from cloudgan.core.labels import RUN
from cloudgan.providers.slurm.commands import RefusedError
from cloudgan.providers.slurm.script import FOLDER_LABEL

if TYPE_CHECKING:
    from cloudgan.providers.slurm.commands import Commands

# The comment is the last: it may hold anything.
_SQUEUE: Final = "%i|%T|%r|%k"
_SACCT: Final = "JobIDRaw,State,ExitCode,End"
_UNKNOWN: Final = ("Unknown", "N/A", "None", "")


@dataclass(frozen=True, slots=True)
class Job:
    """A job that Slurm has not done with.

    Attributes:
        id: Its number.
        state: In Slurm's words, such as PENDING.
        reason: Why it waits, likewise.
        labels: From its comment.
    """

    id: str
    state: str
    reason: str
    labels: dict[str, str]


@dataclass(frozen=True, slots=True)
class Past:
    """What Slurm remembers of a job that is over.

    Attributes:
        state: In Slurm's words, such as TIMEOUT.
        exit_code: Of its script.
        ended: ISO 8601; None is unknown.
    """

    state: str
    exit_code: int
    ended: str | None


class Jobs:
    """The jobs of this user."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def all(self) -> tuple[Job, ...]:
        """Returns those that cloudgan started and that are not over."""
        text = self._commands.run("squeue", "--me", "--noheader", f"--format={_SQUEUE}")
        found = (_job(line) for line in text.splitlines() if line.count("|") >= _SQUEUE.count("|"))
        return tuple(job for job in found if RUN in job.labels)

    def of(self, run: str) -> Job | None:
        """Returns the job of a run; None where none is queued or runs."""
        return next((job for job in self.all() if job.labels[RUN] == run), None)

    def past(self, job_id: str) -> Past | None:
        """Returns what became of a job: the controller knows for minutes, accounting for long."""
        try:
            text = self._commands.run("scontrol", "show", "job", job_id, "--oneliner")
            return _shown(text)
        except RefusedError:
            pass
        try:
            options = ("--allocations", "--noheader", "--parsable2", f"--format={_SACCT}")
            text = self._commands.run("sacct", f"--jobs={job_id}", *options)
        except LaunchError:
            return None  # there is no accounting here
        return _accounted(text)


def _job(line: str) -> Job:
    number, state, reason, comment = line.split("|", 3)
    return Job(number, state, reason, parse_comment(comment))


def parse_comment(text: str) -> dict[str, str]:
    """Returns the labels that a job's comment holds; of a foreign one what looks like some."""
    plain, mark, folder = text.partition(f",{FOLDER_LABEL}=")
    pairs = (part.partition("=") for part in plain.split(","))
    labels = {name: value for name, equals, value in pairs if equals}
    return labels | ({FOLDER_LABEL: folder} if mark else {})


def _shown(text: str) -> Past | None:
    found = dict(re.findall(r"(?:^| )(\w+)=(\S*)", text))
    if "JobState" not in found:
        return None
    return _past(found["JobState"], found.get("ExitCode", ""), found.get("EndTime", ""))


def _accounted(text: str) -> Past | None:
    # A job that was put back into the queue has one line for each time; the last is the newest.
    lines = [line.split("|") for line in text.splitlines() if line.count("|") >= _SACCT.count(",")]
    return _past(*lines[-1][1:4]) if lines else None


def _past(state: str, exit_code: str, ended: str) -> Past:
    """`exit_code` is CODE:SIGNAL; a state may say who did it, as in CANCELLED by 1000."""
    code, _, number = exit_code.partition(":")
    signal = int(number) if number.isdigit() else 0
    code_or_signal = int(code) if code.isdigit() and int(code) else 128 + signal if signal else 0
    when = None if ended in _UNKNOWN else f"{ended}Z"
    return Past(state.split(maxsplit=1)[0] if state else "", code_or_signal, when)
