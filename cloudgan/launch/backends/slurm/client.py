"""Runs Slurm's programs and parses their output: sbatch, squeue, scancel, scontrol, sacct; partitions from sinfo."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import (
    ConfigError,
    LaunchError,
    PlanError,
    UnknownNameError,
    counted,
    nearest,
)
from cloudgan.core.labels import RUN
from cloudgan.core.settings import slurm_environment
from cloudgan.launch.backends.slurm.requests import FOLDER_LABEL
from cloudgan.schema.plan import Plan

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
    """A job in Slurm's queue; the state is Slurm's, such as PENDING."""

    id: str
    state: str
    reason: str
    labels: dict[str, str]


@dataclass(frozen=True, slots=True)
class EndedJob:
    """Slurm's record of a job that has ended: its state, such as TIMEOUT, the exit code of its script, and the end.

    `ended` is ISO 8601; None is unknown.
    """

    state: str
    exit_code: int
    ended: str | None


def all_jobs(commands: SlurmCommands) -> tuple[Job, ...]:
    """Returns the jobs of this user that cloudgan submitted and that have not ended."""
    text = commands.run("squeue", "--me", "--noheader", f"--format={_SQUEUE}")
    lines = (
        line.split("|", 3) for line in text.splitlines() if line.count("|") >= _SQUEUE.count("|")
    )
    found = (
        Job(number, state, why, parse_comment(comment)) for number, state, why, comment in lines
    )
    return tuple(job for job in found if RUN in job.labels)


def job_of(commands: SlurmCommands, run: str) -> Job | None:
    """Returns the job of a run; None if none is in the queue."""
    return next((job for job in all_jobs(commands) if job.labels[RUN] == run), None)


def past_job(commands: SlurmCommands, job_id: str) -> EndedJob | None:
    """Returns the record of an ended job, from the controller or else from accounting."""
    try:
        text = commands.run("scontrol", "show", "job", job_id, "--oneliner")
        shown = dict(re.findall(r"(?:^| )(\w+)=(\S*)", text))
        names = ("JobState", "ExitCode", "EndTime")
        return _past(*(shown.get(name, "") for name in names)) if "JobState" in shown else None
    except SlurmError:
        pass
    try:
        options = ("--allocations", "--noheader", "--parsable2", f"--format={_SACCT}")
        text = commands.run("sacct", f"--jobs={job_id}", *options)
    except LaunchError:
        return None  # no accounting
    # A requeued job has one line per start; the last is the newest.
    lines = [line.split("|") for line in text.splitlines() if line.count("|") >= _SACCT.count(",")]
    return _past(*lines[-1][1:4]) if lines else None


def parse_comment(text: str) -> dict[str, str]:
    """Parses the labels in a job's comment."""
    plain, mark, folder = text.partition(f",{FOLDER_LABEL}=")
    pairs = (part.partition("=") for part in plain.split(","))
    labels = {name: value for name, equals, value in pairs if equals}
    return labels | ({FOLDER_LABEL: folder} if mark else {})


def _past(state: str, exit_code: str, ended: str) -> EndedJob:
    """Parses CODE:SIGNAL and a state such as CANCELLED by 1000."""
    code, _, number = exit_code.partition(":")
    signal = int(number) if number.isdecimal() else 0
    code_or_signal = int(code) if code.isdecimal() and int(code) else 128 + signal if signal else 0
    when = None if ended in _UNKNOWN else f"{ended}Z"
    return EndedJob(state.split(maxsplit=1)[0] if state else "", code_or_signal, when)


_SINFO: Final = "%P|%l|%D|%m|%G"
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
_GPU = re.compile(r"gpu(?::([A-Za-z][\w.-]*))?:(\d+)")


@dataclass(frozen=True, slots=True)
class Partition:
    """The nodes of one kind in one partition.

    Attributes:
        is_default: Whether it is the default partition.
        max_seconds: Time limit of a job; None: unlimited.
        memory_gib: Memory of a node; None: the site does not state it.
        gpus: GPUs per node by type, as the cluster spells it, which `--gres` has to; the type may be empty.
    """

    name: str
    is_default: bool
    max_seconds: int | None
    nodes: int
    memory_gib: float | None
    gpus: dict[str, int]


def read_partitions(commands: SlurmCommands) -> tuple[Partition, ...]:
    """Returns the cluster's partitions."""
    found = []
    # Without --exact, the line of nodes that differ has the least memory and a plus sign.
    text = commands.run("sinfo", "--noheader", "--exact", f"--format={_SINFO}")
    for line in text.splitlines():
        if line.count("|") >= _SINFO.count("|"):
            name, limit, nodes, mib, gres = line.split("|", 4)
            gpus: dict[str, int] = {}
            for kind, count in _GPU.findall(gres):
                gpus[kind] = gpus.get(kind, 0) + int(count)
            is_default = name.endswith("*")
            # A node without RealMemory has 1 MiB (https://slurm.schedmd.com/slurm.conf.html, 2026-12-01).
            memory = int(mib) / 1024 if mib.isdecimal() and int(mib) > 1 else None
            name, seconds = name.rstrip("*"), _seconds(limit)
            found.append(Partition(name, is_default, seconds, int(nodes), memory, gpus))
    return tuple(found)


def matching_nodes(plan: Plan, known: tuple[Partition, ...]) -> tuple[Partition, ...]:
    """Returns the partition's nodes on which the plan can run.

    Raises:
        UnknownNameError: The partition does not exist.
        PlanError: It has too few nodes or accelerators, too little memory, or too short a time limit.
    """
    queue, workers = plan.target.queue, plan.workers
    named = tuple(one for one in known if (one.name == queue if queue else one.is_default))
    if queue and not named:
        raise UnknownNameError("partition (--queue)", queue, {one.name for one in known})
    if not named:
        raise PlanError(
            "this cluster has no default partition; give --queue. Valid:"
            f" {', '.join(sorted({one.name for one in known})) or 'none'}"
        )
    name = named[0].name
    most = named[0].max_seconds
    if most is not None and plan.limits.deadline_seconds > most:
        hours = math.floor(most / 3.6) / 1000
        raise PlanError(
            f"the time limit of partition {name} is {hours:g} h, but"
            f" {plan.limits.deadline_seconds / HOUR_SECONDS:.4g} h are requested; give --max-hours={hours:g}."
            " Rerun the deploy to resume from the last checkpoint"
        )
    equipped = tuple(one for one in named if partition_gres(plan, one) is not None)
    if not equipped:
        has = sorted({f"{kind or 'gpu'}:{n}" for one in named for kind, n in one.gpus.items()})
        requested = (workers.accelerator or "gpu").lower()
        near = nearest(requested, {kind.lower() for one in named for kind in one.gpus if kind})
        raise PlanError(
            f"no node of partition {name} has {workers.accelerators_per_node} x {requested}.{near}"
            f" Each node has: {', '.join(has) or 'no accelerator'}"
        )
    equipped = _with_memory(plan, equipped)
    nodes = sum(one.nodes for one in equipped)
    if nodes < workers.nodes:
        what = " with these accelerators" if workers.accelerators_per_node else ""
        raise PlanError(
            f"partition {name} has {counted(nodes, 'node')}{what}, but --nodes={workers.nodes}"
        )
    return equipped


def _with_memory(plan: Plan, nodes: tuple[Partition, ...]) -> tuple[Partition, ...]:
    """Returns the nodes with the memory of a worker: Slurm may queue a job that none of them can take."""
    gib, slurm = plan.workers.memory_gib, plan.target.slurm
    if slurm and slurm.memory_per == "none":
        return nodes
    large = tuple(one for one in nodes if one.memory_gib is None or one.memory_gib >= gib)
    if not large:
        most = math.floor(max(one.memory_gib or 0.0 for one in nodes) * 10) / 10
        raise PlanError(
            f"no node of partition {nodes[0].name} has {gib:g} GiB for a worker; the largest of these"
            f" nodes has {most:g} GiB. Give --memory-gib={most:g} or less, or another --queue"
        )
    return large


def check_exclusive_nodes(plan: Plan, partition: str, commands: SlurmCommands) -> None:
    """Checks that the partition can give a job nodes of its own.

    With OverSubscribe=FORCE it shares them whatever the job requests
    (https://slurm.schedmd.com/slurm.conf.html#OPT_OverSubscribe, read 2026-11-22).
    """
    text = commands.run("sinfo", "--noheader", "--format=%P|%h")
    for line in text.splitlines():
        name, _, shares = line.partition("|")
        if name.rstrip("*") == partition and shares.strip().upper().startswith("FORCE"):
            raise ConfigError(
                f"partition {partition} shares its nodes between users (OverSubscribe={shares.strip()}),"
                f" who could reach the ports of the {plan.workers.nodes} workers, and TensorFlow's"
                " servers execute what they receive; give another partition (--queue), --nodes=1, or"
                " accept it: --allow-open-ports"
            )


def partition_gres(plan: Plan, partition: Partition) -> str | None:
    """Returns the GRES of the plan's accelerators in this partition; empty without any, None if its nodes lack them."""
    workers = plan.workers
    count = workers.accelerators_per_node
    if not count:
        return ""
    kind = (workers.accelerator or "").lower()
    # Slurm's type of a GPU is such as nvidia_a100-sxm4-80gb: an A100 is no A10.
    pattern = re.compile(rf"{re.escape(kind)}(?!\d)")
    typed = [name for name in partition.gpus if name and pattern.search(name.lower())]
    for name in sorted(typed, key=lambda one: (one.lower() != kind, one)):
        if partition.gpus[name] >= count:
            return f"gpu:{name}:{count}"
    # Accelerators without a type: the named partition decides.
    return f"gpu:{count}" if partition.gpus.get("", 0) >= count else None


def _seconds(limit: str) -> int | None:
    """Parses DAYS-HOURS:MINUTES:SECONDS or a suffix of it; None: infinite."""
    found = _TIME.fullmatch(limit.strip())
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
