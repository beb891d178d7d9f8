"""Which ranks of a world get the cells, and what each may use of its machine. Pure functions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.core.errors import ConfigError
from cloudgan.schema.grid_status import NodeStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.coevolution.grid import Grid
    from cloudgan.core.hardware import Hardware


@dataclass(frozen=True)
class Placement:
    """Where the cells are.

    Attributes:
        ranks: Of each cell; cells have the order of their ranks. Rank 0 is the master.
        hosts: Of all ranks.
        machines: Of all ranks.
    """

    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    machines: tuple[Hardware, ...]

    def cell_of(self, rank: int) -> int | None:
        """Returns the cell of a rank; None: it has none."""
        return self.ranks.index(rank) if rank in self.ranks else None

    def cells_on(self, host: str) -> tuple[int, ...]:
        """Returns the cells of a machine."""
        return tuple(cell for cell, rank in enumerate(self.ranks) if self.hosts[rank] == host)

    def threads_on(self, host: str) -> int:
        """Returns TensorFlow's threads for each cell of a machine: its cores, shared by its cells."""
        cores = self.machines[self.hosts.index(host)].cores
        return max(1, cores // max(1, len(self.cells_on(host))))

    def nodes(self, grid: Grid, threads: int | None) -> tuple[NodeStatus, ...]:
        """Returns the machines of the world; `threads` of each cell if the user chose them."""
        found = []
        for host, ranks in Counter(self.hosts).items():
            machine = self.machines[self.hosts.index(host)]
            cells = self.cells_on(host)
            found.append(
                NodeStatus(
                    host=host,
                    processor=machine.processor,
                    cores=machine.cores,
                    memory_gib=machine.memory_gib,
                    gpus=tuple(gpu.name for gpu in machine.accelerators),
                    ranks=ranks,
                    cells=tuple(map(grid.name, cells)),
                    threads=(threads or self.threads_on(host)) if cells else None,
                )
            )
        return tuple(found)

    def warnings(self) -> tuple[str, ...]:
        """Returns a sentence for each machine with more cells than cores."""
        found = []
        for host in dict.fromkeys(self.hosts):
            cells, cores = len(self.cells_on(host)), self.machines[self.hosts.index(host)].cores
            if cells > cores:
                found.append(
                    f"{host} has {cells} cells and {cores} cores: an iteration takes about"
                    f" {cells / cores:.1f} times as long as with a core for each cell"
                )
        return tuple(found)


def check_ranks(ranks: int, cells: int) -> None:
    """Checks that a world has a rank for each cell and one for the master.

    Raises:
        ConfigError: It has fewer.
    """
    if ranks < cells + 1:
        raise ConfigError(
            f"the grid has {cells} cells, which need {cells + 1} ranks with the master, and the MPI"
            f" world has {ranks}; start `mpiexec -n {cells + 1} cloudgan evolve ...`, or give a"
            " smaller --grid"
        )


def place_cells(hosts: Sequence[str], machines: Sequence[Hardware], cells: int) -> Placement:
    """Gives each cell a rank, so that all machines have about as many cells per core.

    Ranks without a cell stay inactive.

    Args:
        hosts: Names of the machines of all ranks, that of the master first.
        machines: Of all ranks.
        cells: Of the grid.

    Raises:
        ConfigError: There are fewer ranks than cells and the master.
    """
    check_ranks(len(hosts), cells)
    free: dict[str, list[int]] = {}
    for rank, host in list(enumerate(hosts))[1:]:
        free.setdefault(host, []).append(rank)
    cores = {host: machine.cores for host, machine in zip(hosts, machines, strict=True)}
    used = Counter[str]()
    chosen = []
    for _ in range(cells):
        there = [host for host, ranks in free.items() if ranks]
        host = min(there, key=lambda host: (used[host] + 1) / cores[host])
        used[host] += 1
        chosen.append(free[host].pop(0))
    return Placement(tuple(sorted(chosen)), tuple(hosts), tuple(machines))
