"""The grid of cells: a torus of any size, and which cells are neighbours on it."""

from __future__ import annotations

from dataclasses import dataclass

from cloudgan.core.errors import ConfigError
from cloudgan.schema.coevolution import CoevolutionConfig, Neighbourhood

_VON_NEUMANN = ((0, -1), (-1, 0), (0, 1), (1, 0))
"""Steps in rows and columns, in the order west, north, east, south (arXiv:2004.04633, figure 1)."""
_MOORE = (*_VON_NEUMANN, (-1, -1), (-1, 1), (1, 1), (1, -1))


@dataclass(frozen=True)
class Grid:
    """Cells on a torus, numbered row by row.

    Attributes:
        rows: Of the grid.
        columns: Of the grid.
    """

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

    def readers(self, cell: int, neighbourhood: Neighbourhood) -> tuple[int, ...]:
        """Returns the cells that have `cell` as a neighbour."""
        return tuple(
            other for other in range(self.cells) if cell in self.neighbours(other, neighbourhood)
        )


def check_grid(config: CoevolutionConfig) -> Grid:
    """Returns the grid of a run whose neighbourhoods fit it.

    Raises:
        ConfigError: One cell has no neighbours, or the tournament is larger than the sub-population.
    """
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
