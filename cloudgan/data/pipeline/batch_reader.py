"""Reads rows of a global batch as dense arrays; no TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cloudgan.data.pipeline.image_buffers import ImageBuffers

if TYPE_CHECKING:
    from cloudgan.data.pipeline.epoch_sampler import EpochSampler
    from cloudgan.data.pipeline.image_buffers import ReadingTime
    from cloudgan.data.pipeline.training_set import TrainingSet

    Floats = np.ndarray[Any, np.dtype[np.float32]]


class BatchRows(NamedTuple):
    """Consecutive rows of one global batch: image (B, X, Y, Z, 1); energy, angle and ecal (B, 1); float32.

    Attributes:
        step: Number of the global batch.
        first_row: Of these rows in it.
    """

    image: Floats
    energy: Floats
    angle: Floats
    ecal: Floats
    step: int
    first_row: int


class BatchReader:
    """Reads `batch` rows at a time, in any thread."""

    def __init__(
        self, training_set: TrainingSet, order: EpochSampler, batch: int, reading: ReadingTime
    ) -> None:
        self._training_set, self._order = training_set, order
        self._batch, self._reading = batch, reading
        # The engines neither copy nor write these, and release them after the step.
        self._buffers = ImageBuffers(batch, training_set.view.shape)

    def read(self, step: int, first_row: int) -> BatchRows:
        """Returns the rows of this worker's `step` from `first_row` on; the image must not be written.

        Raises:
            DataError: A record is damaged; names shard and record.
        """
        with self._reading.measured():
            rows = self._order.rows(step, first_row, self._batch)
            showers = self._training_set.train_cells(rows)
            image = self._buffers.dense(showers.image)[..., np.newaxis]
        number = self._order.global_step(step)
        return BatchRows(image, showers.energy, showers.angle, showers.ecal, number, first_row)
