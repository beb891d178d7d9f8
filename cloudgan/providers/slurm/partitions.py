"""What the cluster has, as sinfo lists it: partitions, their limits and their accelerators."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cloudgan.core.errors import PlanError, UnknownNameError, nearest

if TYPE_CHECKING:
    from cloudgan.core.plan import Plan
    from cloudgan.providers.slurm.commands import Commands

_SINFO: Final = "%P|%l|%D|%G"
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
_GPU = re.compile(r"gpu(?::([A-Za-z][\w.-]*))?:(\d+)")


@dataclass(frozen=True, slots=True)
class Partition:
    """Nodes of one kind in one partition; another kind in it is another of these.

    Attributes:
        name: Of the partition.
        is_default: Whether it is taken where none is named.
        most_seconds: That a job may take; None: any time.
        nodes: How many there are.
        gpus: By type, in small letters, how many each node has; an empty type has no name.
    """

    name: str
    is_default: bool
    most_seconds: int | None
    nodes: int
    gpus: dict[str, int]


def read_partitions(commands: Commands) -> tuple[Partition, ...]:
    """Asks the cluster."""
    text = commands.run("sinfo", "--noheader", f"--format={_SINFO}")
    return tuple(
        _partition(line) for line in text.splitlines() if line.count("|") >= _SINFO.count("|")
    )


def fitting(plan: Plan, known: tuple[Partition, ...]) -> tuple[Partition, ...]:
    """Returns the nodes on which the plan can run.

    Raises:
        UnknownNameError: There is no such partition.
        PlanError: It has not enough nodes, time or accelerators.
    """
    queue, workers = plan.place.queue, plan.workers
    named = tuple(one for one in known if (one.name == queue if queue else one.is_default))
    if queue and not named:
        raise UnknownNameError("partition (--queue)", queue, {one.name for one in known})
    if not named:
        raise PlanError(
            "this cluster has no default partition; name one with --queue. There are:"
            f" {', '.join(sorted({one.name for one in known})) or 'none'}"
        )
    name = named[0].name
    most = named[0].most_seconds
    if most is not None and plan.limits.deadline_seconds > most:
        hours = math.floor(most / 3.6) / 1000
        raise PlanError(
            f"partition {name} ends jobs after {hours:g} h, and"
            f" {plan.limits.deadline_seconds / 3600:.4g} h were asked; give --max_hours={hours:g}."
            " The same deploy, given again, goes on from the last checkpoint"
        )
    equipped = tuple(one for one in named if gres_of(plan, one) is not None)
    if not equipped:
        raise PlanError(_no_gpus(plan, named))
    nodes = sum(one.nodes for one in equipped)
    if nodes < workers.nodes:
        what = " with these accelerators" if workers.accelerators_per_node else ""
        raise PlanError(
            f"partition {name} has {nodes} nodes{what}, and --nodes={workers.nodes} were asked"
        )
    return equipped


def gres_of(plan: Plan, partition: Partition) -> str | None:
    """Returns the plan's accelerators as this partition calls them.

    Returns:
        An empty string where none are asked for, None where its nodes do not have them.
    """
    workers = plan.workers
    count = workers.accelerators_per_node
    if not count:
        return ""
    kind = (workers.accelerator or "").lower()
    typed = [name for name in partition.gpus if name and (kind in name or not kind)]
    for name in (kind, *sorted(typed)):
        if partition.gpus.get(name, 0) >= count:
            return f"gpu:{name}:{count}" if name else f"gpu:{count}"
    # Accelerators that have no type there: whoever names the partition knows what they are.
    return f"gpu:{count}" if partition.gpus.get("", 0) >= count else None


def _no_gpus(plan: Plan, named: tuple[Partition, ...]) -> str:
    workers = plan.workers
    has = sorted({f"{kind or 'gpu'}:{n}" for one in named for kind, n in one.gpus.items()})
    asked = (workers.accelerator or "gpu").lower()
    near = nearest(asked, {kind for one in named for kind in one.gpus if kind})
    return (
        f"no node of partition {named[0].name} has {workers.accelerators_per_node} x {asked}."
        f"{near} In each node it has: {', '.join(has) or 'no accelerator'}"
    )


def _partition(line: str) -> Partition:
    name, limit, nodes, gres = line.split("|", 3)
    gpus: dict[str, int] = {}
    for kind, count in _GPU.findall(gres):
        gpus[kind.lower()] = gpus.get(kind.lower(), 0) + int(count)
    return Partition(name.rstrip("*"), name.endswith("*"), _seconds(limit), int(nodes), gpus)


def _seconds(limit: str) -> int | None:
    """Takes DAYS-HOURS:MINUTES:SECONDS, parts of it from the right, or infinite."""
    found = _TIME.fullmatch(limit.strip())
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
