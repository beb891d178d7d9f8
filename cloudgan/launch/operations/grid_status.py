"""State of a grid whose cells are ranks, from the status.json that its master writes."""

from __future__ import annotations

from collections.abc import Iterator

from cloudgan.core.clock import parse_time, utc_moment
from cloudgan.core.documents import read_json
from cloudgan.reports.table import Table
from cloudgan.schema.grid_status import FILE_NAME, GridStatus
from cloudgan.schema.run_folder import RunFolder

_MIB = 2**20
_MARKS = {"inactive": ".", "processing": "o", "finished": "#"}
_HEADS = ("cell", "rank", "host", "state", "iteration", "fitness", "score", "MiB", "silent (s)")


def read_status(folder: RunFolder) -> GridStatus | None:
    """Returns what the master of a grid wrote last; None: nothing, as if its cells are no ranks.

    Raises:
        DataError: The file is damaged.
    """
    path = folder.path / FILE_NAME
    return read_json(path, GridStatus) if path.exists() else None


def age_seconds(status: GridStatus) -> float:
    """Returns the time since the master wrote the status."""
    return max(0.0, (utc_moment() - parse_time(status.time)).total_seconds())


def grid_lines(status: GridStatus, age: float) -> Iterator[str]:
    """Yields the grid with a mark per cell, then its machines."""
    best = f", the best cell is {status.best}" if status.best else ""
    yield f"grid {status.rows}x{status.columns}{best}; written {age:.0f} s ago"
    for row in range(status.rows):
        states = [cell.state for cell in status.cells[row * status.columns :][: status.columns]]
        yield "  " + " ".join(map(_MARKS.__getitem__, states))
    yield f"  ({', '.join(f'{mark} {state}' for state, mark in _MARKS.items())})"
    for node in status.nodes:
        cells = ", ".join(node.cells) or "none"
        yield f"{node.host}: {node.cores} cores, {node.ranks} ranks, cells {cells}"


def grid_table(status: GridStatus, age: float) -> Table:
    """Returns a row per cell; while the run goes on, `age` adds to the time since its last sign."""
    silent = age if status.state == "running" else 0.0
    rows = tuple(
        (
            *(
                cell.name,
                cell.rank,
                cell.host,
                cell.state,
                cell.iteration,
                cell.fitness,
                cell.score,
            ),
            None if cell.memory_bytes is None else round(cell.memory_bytes / _MIB),
            round(cell.silent_seconds + silent, 1),
        )
        for cell in status.cells
    )
    return Table(_HEADS, rows, "", "lrllrrrrr")
