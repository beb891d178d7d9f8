"""Training and held-out showers of the cells: functions of the position of random numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.coevolution.evolution import Purpose, random_numbers
from cloudgan.coevolution.task import Draw
from cloudgan.data.batches import Batch, TrainingSet
from cloudgan.data.epoch_sampler import EpochSampler
from cloudgan.schema.coevolution import CoevolutionConfig

Arrays = dict[str, NDArray[Any]]

_CELLS_IN_MEMORY = 2
"""Cells whose order is kept: those of one process train in turns."""


class ShowerBatches:
    """Batches of showers in the arrays that the training step reads.

    A cell passes through its showers in epochs of its own, which continue over its iterations. All
    cells of a process share the showers.
    """

    def __init__(
        self, showers: TrainingSet, config: CoevolutionConfig, blocks_per_group: int
    ) -> None:
        """Uses a training set; `blocks_per_group` as in `DataConfig`."""
        self._showers, self._config = showers, config
        self._per_group = blocks_per_group
        self._order = lru_cache(_CELLS_IN_MEMORY)(self._order_of)

    def training(self, draw: Draw, numbers: Sequence[int]) -> Arrays:
        """Returns training batches (batches, batch size, ...)."""
        size = self._config.batch_size
        own, sampler = self._order(draw.seed, draw.cell, draw.purpose)
        first = draw.iteration * self._config.batches
        rows = [sampler.rows(first + number, 0, size) for number in numbers]
        chosen = np.concatenate(rows)
        batch = self._showers.train_rows(chosen if own is None else own[chosen])
        arrays = {
            name: array.reshape(len(numbers), size, *array.shape[1:])
            for name, array in _arrays(batch).items()
        }
        steps = [position(draw, number) for number in numbers]
        return arrays | _places(np.array(steps, np.int64)[:, None])

    def held(self, draw: Draw, samples: int) -> Arrays:
        """Returns held-out showers (samples, ...), drawn without repetition as far as there are enough."""
        order = random_numbers(draw).permutation(self._showers.held_out_count)
        batch = self._showers.held_out_batch(np.resize(order, samples))
        return _arrays(batch) | _places(np.array([position(draw)], np.int64))

    def _order_of(
        self, seed: int, cell: int, purpose: int
    ) -> tuple[NDArray[np.int64] | None, EpochSampler]:
        """Returns the showers that a cell sees, None for all, and their order."""
        counts: tuple[int, ...] = self._showers.train_counts
        own = None
        if self._config.data_share < 1:
            size = math.ceil(self._config.data_share * self._showers.count)
            random = random_numbers(Draw(seed, cell, 0, Purpose.DATA_SHARE))
            own = np.sort(random.permutation(self._showers.count)[:size])
            counts = tuple(np.diff(np.searchsorted(own, np.cumsum((0, *counts)))).tolist())
        key = position(Draw(seed, cell, 0, purpose))
        return own, EpochSampler(counts, key, self._config.batch_size, self._per_group)


def position(draw: Draw, *more: int) -> int:
    """Returns a number of 63 bits for a position, such as the step at which `Rng` stands.

    A hash: a collision of two of a million batches has a probability of 1e-7.
    """
    return int(random_numbers(draw, *more).integers(2**63))


def _arrays(batch: Batch[NDArray[np.float32]]) -> Arrays:
    return batch._asdict() | {"image": batch.image[..., np.newaxis]}


def _places(steps: NDArray[np.int64]) -> Arrays:
    return {"step": steps, "first_row": np.zeros_like(steps)}
