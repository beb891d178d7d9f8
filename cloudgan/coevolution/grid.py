"""The grid of cells: a torus of any size, which cells are neighbours on it, and which ranks they get. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import Hardware
from cloudgan.schema.coevolution import CoevolutionConfig, Neighbourhood, NodeStatus

_VON_NEUMANN = ((0, -1), (-1, 0), (0, 1), (1, 0))
"""Steps in rows and columns, in the order west, north, east, south (arXiv:2004.04633, figure 1)."""
_MOORE = (*_VON_NEUMANN, (-1, -1), (-1, 1), (1, 1), (1, -1))


@dataclass(frozen=True)
class Grid:
    """Cells on a torus, numbered row by row."""

    rows: int
    columns: int

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.rows * self.columns

    def place(self, cell: int) -> tuple[int, int]:
        """Returns row and column of a cell."""
        return divmod(cell, self.columns)

    def name(self, cell: int) -> str:
        """Returns ``ROW-COLUMN``, the name of the cell's folder."""
        row, column = self.place(cell)
        return f"{row}-{column}"

    def cell(self, row: int, column: int) -> int:
        """Returns the cell at a place; rows and columns beyond an edge continue at the other one."""
        return (row % self.rows) * self.columns + column % self.columns

    def neighbours(self, cell: int, neighbourhood: Neighbourhood) -> tuple[int, ...]:
        """Returns the neighbours of a cell, each once and without the cell itself.

        `ring` joins each cell with the one before and the one after, row by row.
        """
        row, column = self.place(cell)
        if neighbourhood == "none":
            found = []
        elif neighbourhood == "all":
            found = list(range(self.cells))
        elif neighbourhood == "ring":
            found = [(cell - 1) % self.cells, (cell + 1) % self.cells]
        else:
            steps = _MOORE if neighbourhood == "moore" else _VON_NEUMANN
            found = [self.cell(row + down, column + right) for down, right in steps]
        return tuple(dict.fromkeys(number for number in found if number != cell))

    @cache  # noqa: B019  grids are few and small
    def readers(self, cell: int, neighbourhood: Neighbourhood) -> tuple[int, ...]:
        """Returns the cells that have `cell` as a neighbour."""
        return tuple(
            other for other in range(self.cells) if cell in self.neighbours(other, neighbourhood)
        )


def check_grid(config: CoevolutionConfig) -> Grid:
    """Returns the grid of a run whose neighbourhoods fit it."""
    grid = Grid(config.rows, config.columns)
    for kind in config.neighbourhoods:
        neighbours = len(grid.neighbours(0, kind))
        if not neighbours and kind != "none":
            raise ConfigError(
                f"a grid of {config.rows}x{config.columns} has no neighbours, but the neighbourhood is"
                f" {kind}; give --neighbourhood=none, or a larger grid such as --grid=2x2"
            )
        individuals = config.population * (neighbours + 1)
        if config.tournament > individuals:
            raise ConfigError(
                f"--tournament={config.tournament} is larger than the {individuals} individuals of a"
                f" cell and its {neighbours} neighbours ({kind}); give at most --tournament={individuals}"
            )
    return grid


@dataclass(frozen=True)
class Placement:
    """Where the cells are.

    Cells have the order of their ranks; rank 0 is the master. Hosts and machines are those of all ranks.
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
    """Checks that a world has a rank for each cell and one for the master."""
    if ranks < cells + 1:
        raise ConfigError(
            f"the grid has {cells} cells, which need {cells + 1} ranks with the master, and the MPI"
            f" world has {ranks}; start `mpiexec -n {cells + 1} cloudgan evolve ...`, or give a"
            " smaller --grid"
        )


def place_cells(hosts: Sequence[str], machines: Sequence[Hardware], cells: int) -> Placement:
    """Gives each cell a rank, so that all machines have about as many cells per core.

    Ranks without a cell stay inactive.
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
