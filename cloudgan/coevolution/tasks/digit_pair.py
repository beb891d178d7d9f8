"""Generator and discriminator of digits: dense networks on rows of pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from cloudgan.coevolution.evolution import Purpose, random_numbers
from cloudgan.coevolution.tasks.dense_pair import DensePair, dense_network
from cloudgan.coevolution.tasks.digit_images import MNIST_SIDE, scaled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from cloudgan.coevolution.keras_pair import Batch
    from cloudgan.coevolution.task import Draw
    from cloudgan.coevolution.tasks.digit_images import DigitData
    from cloudgan.schema.coevolution import CoevolutionConfig

LATENT = 64
_HIDDEN_MNIST, _HIDDEN_SMALL = 256, 128
_SLOPE = 0.2
# What the random numbers at a position are for.
_ORDER, _NOISE, _HELD = range(3)


class DigitPair(DensePair):
    """Lipizzaner's networks, with Adam."""

    def __init__(self, data: DigitData, config: CoevolutionConfig) -> None:
        """Builds the networks; their weights are those of no individual yet."""
        self._data, self._config = data, config
        pixels = data.side**2
        hidden = _HIDDEN_MNIST if data.side == MNIST_SIDE else _HIDDEN_SMALL
        activation = keras.layers.LeakyReLU(_SLOPE)
        super().__init__(
            dense_network((LATENT, hidden, hidden, pixels), activation, "tanh"),
            dense_network((pixels, hidden, hidden, 1), activation, "sigmoid"),
            batch_size=config.batch_size,
        )

    def batches(self, draw: Draw, numbers: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Returns images (batches, B, pixels), uint8, and noise (batches, B, 64).

        A cell takes its share of the training digits in an order drawn for each epoch, and goes on
        where its iteration before stopped: within an epoch no digit comes twice.
        """
        rows = self._rows(draw, draw.iteration * self._config.batches + np.array(numbers))
        noise = [_noise(draw, number, self._batch_size) for number in numbers]
        return {"image": self._data.training.images[rows], "noise": np.stack(noise)}

    def held_batch(self, draw: Draw, samples: int) -> dict[str, NDArray[Any]]:
        """Returns held-out images (samples, pixels), uint8, and noise (samples, 64).

        No image comes twice before all have come.
        """
        held = self._data.held_out.images
        random = random_numbers(draw, _HELD)
        repeats = -(-samples // len(held))
        rows = np.concatenate([random.permutation(len(held)) for _ in range(repeats)])
        return {"image": held[rows[:samples]], "noise": self.noise(draw, samples)}

    def noise(self, draw: Draw, samples: int) -> NDArray[np.float32]:
        """Returns the noise of a held batch."""
        return _noise(draw, 0, samples)

    def real(self, batch: Batch) -> tf.Tensor:
        """Returns the images of a batch, (samples, pixels) from -1 to 1."""
        return scaled(tf.cast(batch["image"], tf.float32))

    def _rows(self, draw: Draw, numbers: NDArray[np.int64]) -> NDArray[np.intp]:
        """Training digits (batches, B) of batches, counted from the start of the run."""
        own = self._share_of(draw)
        places = numbers[:, None] * self._batch_size + np.arange(self._batch_size)
        epochs, inside = np.divmod(places, len(own))
        known = np.unique(epochs)
        orders = [
            random_numbers(draw._replace(iteration=epoch), _ORDER).permutation(own)
            for epoch in known
        ]
        found: NDArray[np.intp] = np.stack(orders)[np.searchsorted(known, epochs), inside]
        return found

    def _share_of(self, draw: Draw) -> NDArray[np.intp]:
        """Training digits that a cell sees, the same in all iterations."""
        total = len(self._data.training)
        if self._config.data_share == 1:
            return np.arange(total)
        count = max(1, round(total * self._config.data_share))
        random = random_numbers(draw._replace(iteration=0, purpose=Purpose.DATA_SHARE))
        return np.sort(random.permutation(total)[:count])


def _noise(draw: Draw, number: int, samples: int) -> NDArray[np.float32]:
    return random_numbers(draw, _NOISE, number).standard_normal((samples, LATENT), np.float32)
