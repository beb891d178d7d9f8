"""mixture.npz: what a grid has learned, for `generate` and `validate`. No TensorFlow here.

A NumPy archive without pickles: the weights of the best generator of each cell, and one JSON text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, model_validator

from cloudgan.coevolution.cell import CellState
from cloudgan.coevolution.evolution import Mixture
from cloudgan.coevolution.grid import Grid
from cloudgan.coevolution.task import Individual, Pair, Task
from cloudgan.core.arrays import as_archive, read_arrays
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.document import Document
from cloudgan.core.documents import parse_model
from cloudgan.core.errors import ConfigError, DataError, show
from cloudgan.schema.coevolution import MAX_CELLS, CoevolutionConfig, TaskName

Weights = dict[str, NDArray[np.float32]]

_META = "meta.json"
_UNTRAINED = "untrained"
_SUM_TOLERANCE = 1e-6


class GridResult(Document):
    """The result of a grid; sequences have one entry per cell, row by row. The file has it as JSON text.

    `generators` are weights of each cell's best generator; `scores` of the mixtures, lower is better, None:
    not measured. `facts` is what the task needs beside the weights to generate, as JSON. `ensemble` names
    cells whose generators were chosen among all; empty: no choice was made.
    """

    model_config = ConfigDict(allow_inf_nan=False, arbitrary_types_allowed=True)

    schema_version: Literal[1] = 1
    task: TaskName
    rows: int = Field(ge=1, le=MAX_CELLS)
    columns: int = Field(ge=1, le=MAX_CELLS)
    iteration: int = Field(ge=0)
    generators: tuple[Weights, ...] = Field((), exclude=True)
    untrained: Weights = Field({}, exclude=True)
    mixtures: tuple[Mixture, ...]
    scores: tuple[float | None, ...]
    facts: dict[str, Any]
    ensemble: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> GridResult:
        cells = self.rows * self.columns
        if not len(self.mixtures) == len(self.scores) == cells:
            raise ValueError(f"a grid of {cells} cells needs as many mixtures and scores")
        known = set(range(cells))
        for mixture in self.mixtures:
            members, weights = mixture.members, mixture.weights
            if not members or len(members) != len(weights) or not known.issuperset(members):
                raise ValueError("a mixture names cells that do not exist, or lacks weights")
            if min(weights) < 0 or abs(sum(weights) - 1) > _SUM_TOLERANCE:
                raise ValueError("the weights of a mixture are not shares with sum 1")
        if not known.issuperset(self.ensemble):
            raise ValueError("the ensemble names cells that do not exist")
        return self

    @classmethod
    def of(
        cls,
        config: CoevolutionConfig,
        task: Task,
        pair: Pair,
        states: Sequence[CellState],
        ensemble: tuple[int, ...] = (),
    ) -> GridResult:
        """Returns the result of the states of all cells, row by row, and the cells of an ensemble."""
        first = pair.initial("generator", config.seed)
        untrained = Individual("generator", first, config.learning_rate, "bce", math.inf, "")
        return cls(
            task=config.task,
            rows=config.rows,
            columns=config.columns,
            iteration=min(state.iteration for state in states),
            generators=tuple(
                pair.generator_weights(state.population.generators[0]) for state in states
            ),
            untrained=pair.generator_weights(untrained),
            mixtures=tuple(state.mixture for state in states),
            scores=tuple(s.score if math.isfinite(s.score) else None for s in states),
            facts=task.facts(),
            ensemble=ensemble,
        )

    @property
    def grid(self) -> Grid:
        """The grid."""
        return Grid(self.rows, self.columns)

    @property
    def best(self) -> int:
        """Number of the cell whose mixture has the lowest score."""
        return int(np.argmin([math.inf if score is None else score for score in self.scores]))

    def choose(self, cell: str) -> Mixture:
        """Returns what a name of `cells` stands for: generators and their shares.

        ``mixture`` is that of the best cell; ``best`` the generator of the best cell; ``ensemble`` the
        generators that were chosen among all; ``ROW,COLUMN`` the generator of a cell, counted from 0.
        """
        if cell == "ensemble":
            if not self.ensemble:
                raise ConfigError(
                    "--cell=ensemble: none was chosen; run `cloudgan evolve --run=FOLDER"
                    " --ensemble=greedy` first"
                )
            return Mixture.uniform(self.ensemble)
        if cell == "mixture":
            return self.mixtures[self.best]
        if cell == "best":
            return Mixture.uniform((self.best,))
        grid = self.grid
        places = {
            f"{row},{column}": (row, column)
            for row in range(grid.rows)
            for column in range(grid.columns)
        }
        if cell in places:
            return Mixture.uniform((grid.cell(*places[cell]),))
        raise ConfigError(
            f"--cell={show(cell)} is no cell of a grid of {grid.rows} x {grid.columns}; valid are"
            f" mixture, best, ensemble, and ROW,COLUMN from 0,0 to {grid.rows - 1},{grid.columns - 1}"
        )


def write_result(path: Path, result: GridResult) -> None:
    """Writes a result atomically."""
    parts = {result.grid.name(number): one for number, one in enumerate(result.generators)}
    arrays: dict[str, NDArray[Any]] = {
        f"{part}/{name}": array
        for part, weights in (*parts.items(), (_UNTRAINED, result.untrained))
        for name, array in weights.items()
    }
    arrays[_META] = np.frombuffer(result.model_dump_json().encode(), np.uint8)
    write_atomic(path, as_archive(arrays))


def read_result(path: Path) -> GridResult:
    """Reads a result with all checks; weights are finite and alike in all cells."""
    if not path.exists():
        raise DataError(
            f"{path.parent} has no {path.name}: the grid has not finished; run `cloudgan evolve"
            f" --run={path.parent}` to continue it"
        )
    arrays = read_arrays(path)
    meta = arrays.pop(_META, None)
    if meta is None or meta.dtype != np.uint8:
        raise DataError(f"{path}: not the result of a grid: it has no {_META}")
    result = parse_model(meta.tobytes(), GridResult, str(path))
    grid = result.grid
    parts = [*map(grid.name, range(grid.cells)), _UNTRAINED]
    found: dict[str, dict[str, NDArray[Any]]] = {part: {} for part in parts}
    for name in sorted(arrays):
        part, _, rest = name.partition("/")
        if part not in found:
            raise DataError(f"{path}: damaged ({show(name)} belongs to no cell)")
        found[part][rest] = arrays[name]
    shapes = {name: array.shape for name, array in found[_UNTRAINED].items()}
    for part, weights in found.items():
        if not weights or {name: array.shape for name, array in weights.items()} != shapes:
            raise DataError(f"{path}: damaged (the weights of {part} differ in names or shapes)")
        for name, array in weights.items():
            if array.dtype != np.float32 or not np.isfinite(array).all():
                raise DataError(
                    f"{path}: damaged ({part}/{name} has values that are not finite float32)"
                )
    *generators, untrained = found.values()
    return result.model_copy(update={"generators": tuple(generators), "untrained": untrained})
