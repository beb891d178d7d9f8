"""`GridStatus`, the schema of status.json: what the master of a grid knows of each cell."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cloudgan.core.document import Document

FILE_NAME = "status.json"
CellState = Literal["inactive", "processing", "finished"]
GridState = Literal["running", "finished", "interrupted", "terminated", "failed"]


class CellStatus(Document):
    """The last sign of life of a cell.

    Attributes:
        name: ``ROW-COLUMN``.
        rank: Of the MPI world.
        host: Where it runs.
        state: inactive until its first iteration begins, then processing, then finished.
        iteration: Iterations done.
        fitness: Of its best generator; lower is better.
        score: Of its mixture; lower is better.
        memory_bytes: Resident memory of its process.
        silent_seconds: Since its last sign.
    """

    name: str
    rank: int = Field(ge=0)
    host: str
    state: CellState = "inactive"
    iteration: int = Field(0, ge=0)
    fitness: float | None = None
    score: float | None = None
    memory_bytes: int | None = None
    silent_seconds: float = Field(0.0, ge=0)


class NodeStatus(Document):
    """A machine of the world.

    Attributes:
        host: Its name.
        processor: Its model.
        cores: That its processes may use.
        memory_gib: Of the machine.
        gpus: Names of its GPUs.
        ranks: That run on it, the master and those without a cell included.
        cells: Names of its cells.
        threads: Of TensorFlow in each of its cells.
    """

    host: str
    processor: str
    cores: int
    memory_gib: float | None
    gpus: tuple[str, ...] = ()
    ranks: int
    cells: tuple[str, ...] = ()
    threads: int | None = None


class GridStatus(Document):
    """A grid whose cells are MPI ranks.

    Attributes:
        time: When the master wrote it.
        state: Of the run.
        rows: Of the grid.
        columns: Of the grid.
        iterations: That each cell will have done.
        best: Name of the cell whose mixture has the lowest score, after the run.
        nodes: Machines of the world.
        cells: Row by row.
    """

    schema_version: Literal[1] = 1
    time: str
    state: GridState = "running"
    rows: int
    columns: int
    iterations: int
    best: str | None = None
    nodes: tuple[NodeStatus, ...]
    cells: tuple[CellStatus, ...]
