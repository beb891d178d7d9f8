"""The engine `one`: all cells in this process and on its device."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from cloudgan.coevolution.cell import Cell
from cloudgan.core.errors import CloudganError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cloudgan.coevolution.cell import CellState, Population
    from cloudgan.coevolution.grid import Grid
    from cloudgan.coevolution.task import Pair, Task
    from cloudgan.schema.cell_line import CellLine
    from cloudgan.schema.coevolution import CoevolutionConfig


class OneProcess:
    """All cells of a grid, which iterate one after the other.

    In an iteration each cell sees its neighbours as they were after the iteration before: the order of
    the cells does not matter, and ranks that wait for each other compute the same bits.
    """

    def __init__(
        self,
        config: CoevolutionConfig,
        grid: Grid,
        task: Task,
        pair: Pair,
        states: Sequence[CellState] | None = None,
    ) -> None:
        """Prepares the cells: with new networks, or with those of saved states."""
        self._config = config
        self.cells = tuple(
            Cell(
                number,
                config,
                grid,
                task=task,
                pair=pair,
                state=states[number] if states else None,
            )
            for number in range(grid.cells)
        )

    @property
    def iteration(self) -> int:
        """Iterations done by all cells."""
        return self.cells[0].state.iteration

    def run(self, after: Callable[[Mapping[Cell, CellLine]], None]) -> None:
        """Runs the iterations that are left; `after` is called after each, and may raise.

        Raises:
            CloudganError: The losses of all cells became NaN in one iteration.
        """
        while self.iteration < self._config.iterations:
            began = time.perf_counter()
            before: list[Population] = [cell.state.population for cell in self.cells]
            gathered = [
                {number: before[number] for number in cell.neighbours()} for cell in self.cells
            ]
            seconds = (time.perf_counter() - began) / len(self.cells)
            lines = {
                cell: cell.iterate(around, gather_seconds=seconds)
                for cell, around in zip(self.cells, gathered, strict=True)
            }
            check_any_converges([line.diverged for line in lines.values()], self.iteration)
            after(lines)


def check_any_converges(diverged: Sequence[bool], iteration: int) -> None:
    """Checks that at least one cell trained without NaN.

    Args:
        diverged: Of each cell, whether it became NaN.
        iteration: In which they did.

    Raises:
        CloudganError: All did.
    """
    if all(diverged):
        raise CloudganError(
            f"the losses of all cells became NaN or infinite in iteration {iteration}; the saved states"
            " are older. Start a new run with a smaller --learning-rate"
        )
