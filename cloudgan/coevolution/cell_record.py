"""What a cell writes after an iteration, in every engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.coevolution.pictures import keep_pictures
from cloudgan.core.durations import format_duration

if TYPE_CHECKING:
    from cloudgan.coevolution.cell import Cell
    from cloudgan.coevolution.cell_files import CellFiles
    from cloudgan.schema.cell_line import CellLine
    from cloudgan.schema.coevolution import CoevolutionConfig


def record_iteration(
    files: CellFiles, cell: Cell, line: CellLine, config: CoevolutionConfig
) -> None:
    """Appends the line of an iteration; saves pictures and state where they are due.

    Raises:
        DataError: A file cannot be written.
    """
    files.append(line)
    keep_pictures(files, cell, config.iterations)
    if line.iteration % config.save_every == 0 or line.iteration == config.iterations:
        files.save(cell.state)


def iteration_row(iteration: int, best: float | None, seconds: float | None = None) -> str:
    """Returns such as ``iteration  3  best score 0.1234   1.5 s``."""
    score = "" if best is None else f"  best score {best:<7.4g}"
    time = "" if seconds is None else f"  {format_duration(round(seconds, 1))}"
    return f"iteration {iteration:>2}{score}{time}"
