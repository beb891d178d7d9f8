"""Showers of a grid of cells: each from one of the generators of a mixture, in exact proportion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from cloudgan.coevolution.evolution import Purpose, random_numbers
from cloudgan.coevolution.mixture import assign
from cloudgan.coevolution.result_file import GridResult, Weights
from cloudgan.coevolution.task import Draw
from cloudgan.core.errors import DataError
from cloudgan.core.progress import Progress
from cloudgan.data.showers import Showers, join_showers
from cloudgan.data.summary import TrainingSummary
from cloudgan.schema.config import RunConfig
from cloudgan.training.inference import Conditions, RunGenerator

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
        self._members = [self._fitting(one, path) for one in weights]
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

    def _fitting(self, weights: Weights, path: Path) -> list[NDArray[np.float32]]:
        shapes = [tuple(weight.shape) for weight in self.network.weights]
        if [array.shape for array in weights.values()] != shapes:
            raise DataError(
                f"{path}: its weights do not match preset {self.preset.preset} of run.yaml; run"
                " `cloudgan evolve` with this version"
            )
        return list(weights.values())
