"""Which rank of an MPI world does what: a pure function of its size and of the configuration.

Masters come first, workers follow. With several masters, rank 0 is above them and serves masters
only. A worker is a group of ranks with consecutive numbers that train one batch together; its first
rank, the leader, exchanges with the master.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from cloudgan.core.errors import ConfigError, counted
from cloudgan.schema.parallel import ParallelConfig

Kind = Literal["top master", "master", "leader", "member"]


@dataclass(frozen=True)
class Role:
    """What one rank does.

    A top master is above masters; a member follows the leader of its group. `parent` is the rank of its
    master, None for rank 0 and for members; workers and members are numbered from 0, the leader first; None
    for masters.
    """

    rank: int
    kind: Kind
    parent: int | None = None
    worker: int | None = None
    member: int | None = None

    @property
    def is_master(self) -> bool:
        """Whether the rank keeps a centre instead of training."""
        return self.worker is None


@dataclass(frozen=True)
class Layout:
    """Roles of all ranks, by rank.

    There is one role per rank; `group` ranks are one worker.
    """

    roles: tuple[Role, ...]
    group: int

    @property
    def size(self) -> int:
        """Ranks of the world."""
        return len(self.roles)

    @cached_property
    def masters(self) -> tuple[int, ...]:
        """Ranks that serve workers; without the top master."""
        return tuple(role.rank for role in self.roles if role.kind == "master")

    @cached_property
    def master_ranks(self) -> int:
        """Number of ranks that do not train."""
        return sum(role.is_master for role in self.roles)

    @property
    def workers(self) -> int:
        """Number of workers: batches in training at once."""
        return (self.size - self.master_ranks) // self.group

    @property
    def has_top(self) -> bool:
        """Whether rank 0 is above other masters."""
        return self.roles[0].kind == "top master"

    def children(self, rank: int) -> tuple[int, ...]:
        """Returns the ranks that exchange with a master: leaders of workers, or masters."""
        return tuple(role.rank for role in self.roles if role.parent == rank)

    def workers_below(self, rank: int) -> tuple[int, ...]:
        """Returns the numbers of the workers whose weights reach a rank: of a worker, its own."""
        role = self.roles[rank]
        if role.worker is not None:
            return (role.worker,)
        below = (self.workers_below(child) for child in self.children(rank))
        return tuple(number for numbers in below for number in numbers)

    def group_of(self, worker: int) -> tuple[int, ...]:
        """Returns the ranks of a worker; the first is its leader."""
        first = self.master_ranks + worker * self.group
        return tuple(range(first, first + self.group))

    def describe(self) -> str:
        """Returns a line such as ``5 ranks: 1 master, 2 workers of 2 ranks``."""
        masters, workers = len(self.masters), self.workers
        return (
            f"{self.size} ranks: {'rank 0 above ' if self.has_top else ''}"
            f"{counted(masters, 'master')}, {counted(workers, 'worker')}"
            + (f" of {self.group} ranks" if self.group > 1 else "")
        )

    def as_json(self) -> dict[str, Any]:
        """Returns the number of each kind, and a row per rank."""
        return {
            "ranks": self.size,
            "masters": len(self.masters),
            "workers": self.workers,
            "group": self.group,
            "roles": [
                {
                    "rank": role.rank,
                    "role": role.kind,
                    "worker": role.worker,
                    "member": role.member,
                    "exchanges_with": role.parent,
                    "serves": list(self.children(role.rank)),
                }
                for role in self.roles
            ],
        }


def make_layout(size: int, parallel: ParallelConfig) -> Layout:
    """Assigns a role to each rank.

    Workers are divided evenly among the masters, in order.
    """
    masters, group = parallel.masters, parallel.group
    top = masters > 1
    master_ranks = masters + top
    if not _fits(size, masters, group):
        raise ConfigError(_does_not_fit(size, parallel))
    workers = (size - master_ranks) // group
    roles = [Role(0, "top master")] if top else []
    roles += [Role(top + m, "master", 0 if top else None) for m in range(masters)]
    for worker in range(workers):
        master = top + worker * masters // workers
        for member in range(group):
            kind: Kind = "member" if member else "leader"
            roles.append(Role(len(roles), kind, None if member else master, worker, member))
    layout = Layout(tuple(roles), group)
    _check_force(layout, parallel)
    return layout


def ranks_per_node(layout: Layout, nodes: int) -> tuple[int, ...]:
    """Divides the ranks of a layout among nodes, see `divide_ranks`."""
    if nodes > layout.size:
        raise ConfigError(
            f"--nodes={nodes} are more than the {layout.size} ranks of --parallel; use"
            f" --nodes={layout.size} or fewer, or more --ranks"
        )
    return divide_ranks(layout.master_ranks, layout.size - layout.master_ranks, nodes)


def divide_ranks(masters: int, workers: int, nodes: int) -> tuple[int, ...]:
    """Divides consecutive ranks among nodes, as evenly as their numbers permit.

    Masters need no accelerator: they are on the first node, beside workers, unless there are more nodes
    than worker ranks.
    """
    beside = masters if workers >= nodes else 0
    each, more = divmod(masters + workers - beside, nodes)
    found = [each + (node >= nodes - more) for node in range(nodes)]
    found[0] += beside
    return tuple(found)


def smallest_size(parallel: ParallelConfig) -> int:
    """Returns the ranks of the smallest layout: one worker per master."""
    masters = parallel.masters
    return masters + (masters > 1) + masters * parallel.group


def size_for(workers: int, parallel: ParallelConfig) -> int:
    """Returns the ranks of a layout with this number of workers."""
    return smallest_size(parallel) + (workers - parallel.masters) * parallel.group


def _fits(size: int, masters: int, group: int) -> bool:
    workers, rest = divmod(size - masters - (masters > 1), group)
    return not rest and workers >= masters


def _does_not_fit(size: int, parallel: ParallelConfig) -> str:
    smallest, group = smallest_size(parallel), parallel.group
    below = size - (size - smallest) % group
    near = [smallest] if size < smallest else [below, below + group]
    parts = [counted(parallel.masters, "master")]
    if parallel.masters > 1:
        parts.append("rank 0 above them")
    each = f"{group} ranks each" if group > 1 else "1 rank each"
    parts.append(f"workers of {each}")
    if parallel.masters > 1:
        parts[-1] += f", at least {parallel.masters}"
    use = [f"--ranks={each}" for each in near]
    others = [masters for masters in range(1, size) if _fits(size, masters, group)]
    if others:
        use.append(f"--masters={min(others, key=lambda each: abs(each - parallel.masters))}")
    return (
        f"--ranks={size} fits no layout of {', '.join(parts[:-1])} and {parts[-1]}; use"
        f" {' or '.join(use)}, or see one with --describe"
    )


def _check_force(layout: Layout, parallel: ParallelConfig) -> None:
    """Checks that each exchange moves a worker by more than nothing and less than to the centre.

    A force of 0 is valid for one worker: its training is a plain one, for comparisons.
    """
    force = parallel.elastic_force
    fewest = min(len(layout.children(role.rank)) for role in layout.roles if role.is_master)
    if parallel.mode != "easgd" or 0 < force < fewest or (force == 0 and layout.workers == 1):
        return
    served = f"a master serves {counted(fewest, 'worker')}"
    raise ConfigError(
        f"--elastic-force={force:g} is outside of (0, {fewest}): {served}, and an exchange moves by"
        f" force/{fewest} of the distance between the two; use --elastic-force=0.9"
    )
