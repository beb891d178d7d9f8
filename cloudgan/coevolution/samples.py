"""What a grid of cells generates: showers as an ordinary run, or samples of another task.

Each is from one of the generators of a mixture, in exact proportion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from cloudgan.coevolution.evolution import Purpose, assign, random_numbers
from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.result_file import GridResult, read_result
from cloudgan.coevolution.task import Draw
from cloudgan.core.arrays import as_archive
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.progress import Progress
from cloudgan.data.showers import Showers, join_showers
from cloudgan.data.summary import TrainingSummary
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.config import RunConfig
from cloudgan.schema.run_folder import RunFolder, Step
from cloudgan.training.inference import Conditions, RunGenerator
from cloudgan.training.tensorflow_import import import_tensorflow

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
    `cloudgan.coevolution.result_file.GridResult.choose`.
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
