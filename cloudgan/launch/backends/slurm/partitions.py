"""Partitions of the cluster, their limits and accelerators, from sinfo."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import ConfigError, PlanError, UnknownNameError, counted, nearest
from cloudgan.launch.backends.slurm.client import SlurmCommands
from cloudgan.schema.plan import Plan

_SINFO: Final = "%P|%l|%D|%G"
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
_GPU = re.compile(r"gpu(?::([A-Za-z][\w.-]*))?:(\d+)")


@dataclass(frozen=True, slots=True)
class Partition:
    """The nodes of one kind in one partition.

    Attributes:
        is_default: Whether it is the default partition.
        max_seconds: Time limit of a job; None: unlimited.
        gpus: GPUs per node by type, as the cluster spells it, which `--gres` has to; the type may be empty.
    """

    name: str
    is_default: bool
    max_seconds: int | None
    nodes: int
    gpus: dict[str, int]


def read_partitions(commands: SlurmCommands) -> tuple[Partition, ...]:
    """Returns the cluster's partitions."""
    text = commands.run("sinfo", "--noheader", f"--format={_SINFO}")
    return tuple(
        _partition(line) for line in text.splitlines() if line.count("|") >= _SINFO.count("|")
    )


def matching_nodes(plan: Plan, known: tuple[Partition, ...]) -> tuple[Partition, ...]:
    """Returns the partition's nodes on which the plan can run.

    Raises:
        UnknownNameError: The partition does not exist.
        PlanError: It has too few nodes or accelerators, or too short a time limit.
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
        raise PlanError(_no_gpus(plan, named))
    nodes = sum(one.nodes for one in equipped)
    if nodes < workers.nodes:
        what = " with these accelerators" if workers.accelerators_per_node else ""
        raise PlanError(
            f"partition {name} has {counted(nodes, 'node')}{what}, but --nodes={workers.nodes}"
        )
    return equipped


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
    """Returns the GRES of the plan's accelerators in this partition.

    Returns:
        An empty string without accelerators, None if its nodes do not have them.
    """
    workers = plan.workers
    count = workers.accelerators_per_node
    if not count:
        return ""
    kind = (workers.accelerator or "").lower()
    typed = [name for name in partition.gpus if name and _is_of(name, kind)]
    for name in sorted(typed, key=lambda one: (one.lower() != kind, one)):
        if partition.gpus[name] >= count:
            return f"gpu:{name}:{count}"
    # Accelerators without a type: the named partition decides.
    return f"gpu:{count}" if partition.gpus.get("", 0) >= count else None


def _is_of(name: str, kind: str) -> bool:
    """Whether Slurm's type of a GPU, such as nvidia_a100-sxm4-80gb, is of a kind: it is no A10."""
    return re.search(rf"{re.escape(kind)}(?!\d)", name.lower()) is not None


def _no_gpus(plan: Plan, named: tuple[Partition, ...]) -> str:
    workers = plan.workers
    has = sorted({f"{kind or 'gpu'}:{n}" for one in named for kind, n in one.gpus.items()})
    requested = (workers.accelerator or "gpu").lower()
    near = nearest(requested, {kind.lower() for one in named for kind in one.gpus if kind})
    return (
        f"no node of partition {named[0].name} has {workers.accelerators_per_node} x {requested}."
        f"{near} Each node has: {', '.join(has) or 'no accelerator'}"
    )


def _partition(line: str) -> Partition:
    name, limit, nodes, gres = line.split("|", 3)
    gpus: dict[str, int] = {}
    for kind, count in _GPU.findall(gres):
        gpus[kind] = gpus.get(kind, 0) + int(count)
    return Partition(name.rstrip("*"), name.endswith("*"), _seconds(limit), int(nodes), gpus)


def _seconds(limit: str) -> int | None:
    """Parses DAYS-HOURS:MINUTES:SECONDS or a suffix of it; None: infinite."""
    found = _TIME.fullmatch(limit.strip())
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
