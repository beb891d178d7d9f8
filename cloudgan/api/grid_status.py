"""State of a grid whose cells are ranks, from the status.json that its master writes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.api.grid_samples import is_grid
from cloudgan.core.clock import parse_time, utc_moment
from cloudgan.core.documents import read_json
from cloudgan.core.errors import ConfigError
from cloudgan.reports.table import Table
from cloudgan.schema.grid_status import FILE_NAME, GridStatus
from cloudgan.schema.plan import FILE_NAME as PLAN_FILE
from cloudgan.schema.run_folder import RunFolder

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator

    from cloudgan.schema.grid_status import CellStatus

_MIB = 2**20
_MARKS = {"inactive": ".", "processing": "o", "finished": "#"}


@dataclass(frozen=True)
class GridView:
    """A grid at one moment.

    Attributes:
        run: Name of the run.
        status: What its master wrote last.
        age_seconds: Since then.
    """

    run: str
    status: GridStatus
    age_seconds: float

    @classmethod
    def of(cls, run: str, status: GridStatus, now: dt.datetime | None = None) -> GridView:
        """Returns the view of what a master wrote; `now` is the present time by default."""
        age = ((now or utc_moment()) - parse_time(status.time)).total_seconds()
        return cls(run, status, max(0.0, age))

    def as_json(self) -> dict[str, Any]:
        """Returns status.json, with the name and the age."""
        found = self.status.model_dump(mode="json")
        return {"run": self.run, "age_seconds": self.age_seconds} | found

    def lines(self) -> Iterator[str]:
        """Yields the state of the run, then the grid with a mark per cell."""
        status = self.status
        done = min((cell.iteration for cell in status.cells), default=0)
        best = f", the best cell is {status.best}" if status.best else ""
        yield (
            f"{self.run}: {status.state}, grid {status.rows}x{status.columns}, iteration {done} of"
            f" {status.iterations}{best}; written {self.age_seconds:.0f} s ago"
        )
        for row in range(status.rows):
            cells = status.cells[row * status.columns : (row + 1) * status.columns]
            yield "  " + " ".join(_MARKS[cell.state] for cell in cells)
        yield f"  ({', '.join(f'{mark} {state}' for state, mark in _MARKS.items())})"
        for node in status.nodes:
            yield (
                f"  {node.host}: {node.cores} cores, {node.ranks} ranks, cells"
                f" {', '.join(node.cells) or 'none'}"
            )

    def table(self) -> Table:
        """Returns a row per cell."""
        heads = (
            *("cell", "rank", "host", "state", "iteration", "fitness", "score"),
            *("memory (MiB)", "last sign (s ago)"),
        )
        return Table(heads, tuple(map(self._row, self.status.cells)), "", "lrllrrrrr")

    def _row(self, cell: CellStatus) -> tuple[Any, ...]:
        is_running = self.status.state == "running"
        silent = cell.silent_seconds + (self.age_seconds if is_running else 0.0)
        return (
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
            round(silent, 1),
        )


def find_grid(name: str) -> RunFolder | None:
    """Returns the folder of a grid that this machine trains: `name` is its path, or its name in runs/.

    None: it is none, or `deploy` launched it.
    """
    for path in (name, f"runs/{name}"):
        with suppress(ConfigError, OSError, ValueError):  # not a path
            folder = RunFolder(path)
            if is_grid(folder) and not (folder.path / PLAN_FILE).exists():
                return folder
    return None


def read_status(folder: RunFolder) -> GridStatus | None:
    """Returns what the master of a grid wrote last; None: nothing.

    Raises:
        DataError: The file is damaged.
    """
    path = folder.path / FILE_NAME
    return read_json(path, GridStatus) if path.exists() else None


def grid_view(folder: RunFolder, now: dt.datetime | None = None) -> GridView:
    """Returns the state of a grid; `now` is the present time by default.

    Raises:
        ConfigError: Its cells are no ranks, or none has started.
        DataError: status.json is damaged.
    """
    status = read_status(folder)
    if status is None:
        raise ConfigError(
            f"{folder.path} is a grid without {FILE_NAME}, which --engine=ranks writes;"
            f" `cloudgan evolve --run={folder.path}` continues it and prints its cells"
        )
    return GridView.of(folder.path.resolve().name, status, now)
