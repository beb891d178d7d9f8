"""What a grid has learned, mixture.npz, and what it generates: showers as an ordinary run, or samples of another task.

The file is a NumPy archive without pickles: the weights of the best generator of each cell, and one JSON text. Each
sample is from one of the generators of a mixture, in exact proportion.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, ValidationError, model_validator

from cloudgan.coevolution.cell import CellState
from cloudgan.coevolution.evolution import Mixture, Purpose, assign, random_numbers
from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid import Grid
from cloudgan.coevolution.task import Draw, Individual, Pair, Task
from cloudgan.core.arrays import as_archive, read_arrays
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.document import Document
from cloudgan.core.documents import parse_model
from cloudgan.core.errors import ConfigError, DataError, show
from cloudgan.core.progress import Progress
from cloudgan.data.showers import Showers, join_showers
from cloudgan.data.summary import TrainingSummary
from cloudgan.schema.coevolution import MAX_CELLS, CoevolutionConfig, TaskName
from cloudgan.schema.config import RunConfig
from cloudgan.schema.run_folder import RunFolder, Step
from cloudgan.training.inference import Conditions, RunGenerator
from cloudgan.training.tensorflow_import import import_tensorflow

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


_ARCHIVE = ".npz"


def is_grid(folder: RunFolder) -> bool:
    """Whether the folder is that of a grid of `cloudgan evolve`."""
    return (folder.path / "coevolution.json").exists()


def has_other_samples(folder: RunFolder) -> bool:
    """Whether the folder is that of a grid with another task than showers."""
    return is_grid(folder) and _config(folder)[1].task != "showers"


def grid_generator(folder: RunFolder, step: Step, cell: str) -> GridGenerator:
    """Loads the generators of a grid of showers.

    Step 0 is the network before its training; `cell` see
    `cloudgan.coevolution.samples.GridResult.choose`.
    """
    files, config = _config(folder)
    if config.task != "showers":
        raise DataError(
            f"{folder.path} is a grid with the task {config.task}, not showers; `cloudgan generate`"
            f" writes its samples to a file {_ARCHIVE}"
        )
    if step not in (None, 0):
        raise ConfigError(
            f"--step={step}: {folder.path} is a grid, which keeps no checkpoints of steps; use --cell="
            "mixture, best or ROW,COLUMN, or --step=0 for the untrained network"
        )
    result = read_result(files.result_file)
    result.choose(cell)
    run = folder.config()
    import_tensorflow()
    return GridGenerator(result, cell, run, files.result_file, untrained=step == 0)


def refuse_shower_options(folder: RunFolder, options: Mapping[str, Any]) -> None:
    """Refuses options of showers for a grid with another task."""
    given = [f"--{name}" for name, value in options.items() if value not in (None, False)]
    if given:
        raise ConfigError(
            f"{', '.join(given)}: {folder.path} trained {_config(folder)[1].task}, not showers; omit"
            " these flags"
        )


def write_samples(
    folder: RunFolder, path: Path, *, cell: str | None, samples: int, seed: int, progress: Progress
) -> int:
    """Writes samples of a grid with another task than showers: an archive with the array ``samples``."""
    if path.suffix != _ARCHIVE:
        raise ConfigError(
            f"{path}: the samples of this grid are written to a NumPy archive; give a name ending in"
            f" {_ARCHIVE}"
        )
    files, config = _config(folder)
    result = read_result(files.result_file)
    mixture = result.choose(cell or "mixture")
    import_tensorflow()
    from cloudgan.coevolution.tasks.ring import Ring  # noqa: PLC0415  the only other task

    pair = Ring(config).make_pair()
    progress.start("generating", samples * len(mixture.members), "samples")
    pools = {}
    for member in mixture.members:
        draw = Draw(seed, member, result.iteration, Purpose.RESULT)
        pools[member] = pair.generate_with(draw, result.generators[member], samples)
        progress.advance(samples)
    order = random_numbers(Draw(seed, 0, result.iteration, Purpose.RESULT), 1)
    write_atomic(path, as_archive({"samples": mixture.samples(pools, order)}))
    return samples


def _config(folder: RunFolder) -> tuple[GridFolder, CoevolutionConfig]:
    files = GridFolder(folder.path)
    config = files.read_config()
    if config is None:
        raise DataError(f"{files.config_file} is missing; run `cloudgan evolve`")
    return files, config


_BLOCKS_TOGETHER = 32
"""Blocks whose showers are sorted by generator: weights are swapped rarely, and memory stays small."""


class GridGenerator(RunGenerator):
    """Generators of cells with shares; a single one generates what it would in an ordinary run.

    Which generator makes a shower depends on the seed and the number of all showers.
    """

    def __init__(
        self,
        result: GridResult,
        cell: str,
        config: RunConfig,
        path: Path,
        *,
        untrained: bool = False,
    ) -> None:
        try:
            summary = TrainingSummary.model_validate(result.facts.get("summary"))
        except ValidationError as error:
            raise DataError(f"{path}: damaged (no summary of the training showers)") from error
        mixture = result.choose(cell)
        weights = [result.generators[member] for member in mixture.members]
        name = f"{cell} of {result.grid.rows} x {result.grid.columns} cells"
        if untrained:
            weights, name = [result.untrained] * len(weights), "untrained"
        step = 0 if untrained else result.iteration
        super().__init__(config, summary, step=step, name=name)
        shapes = [tuple(weight.shape) for weight in self.network.weights]
        self._members = [list(one.values()) for one in weights]
        if any([array.shape for array in one] != shapes for one in self._members):
            raise DataError(
                f"{path}: its weights do not match preset {self.preset.preset} of run.yaml; run"
                " `cloudgan evolve` with this version"
            )
        self._shares = np.array(mixture.weights)

    def streamed(
        self, parts: Iterable[Conditions], *, seed: int, progress: Progress
    ) -> Iterator[Showers]:
        """Yields showers in the order of the conditions, all of which are kept in memory."""
        everything = list(parts)
        draw = Draw(seed, 0, 0, Purpose.RESULT)
        chosen = assign(self._shares, sum(map(len, everything)), random_numbers(draw))
        before = 0
        together = self.block * _BLOCKS_TOGETHER
        for part in everything:
            for first in range(0, len(part), together):
                rows = np.arange(first, min(first + together, len(part)))
                members = chosen[before : before + len(rows)]
                yield self._mixed(part.take(rows), members, before, seed)
                before += len(rows)
                progress.advance(len(rows))

    def _mixed(
        self, conditions: Conditions, members: NDArray[np.intp], before: int, seed: int
    ) -> Showers:
        """Returns showers in the order of the conditions, generated member by member."""
        order = np.argsort(members, kind="stable")
        by_member = conditions.take(order)
        edges = np.searchsorted(members[order], np.arange(len(self._members) + 1))
        blocks = []
        for member, (start, end) in enumerate(pairwise(edges)):
            if start < end:
                self.set_weights(self._members[member])
            for first in range(start, end, self.block):
                rows = slice(first, min(first + self.block, end))
                blocks.append(self._block(by_member, rows, before, seed))
        return join_showers(blocks)[np.argsort(order)]
