"""Generator and discriminator of digits: dense networks on rows of pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from cloudgan.coevolution.evolution import Purpose, random_numbers
from cloudgan.coevolution.keras_pair import KerasPair, Network, adversarial_loss, glorot_uniform
from cloudgan.coevolution.task import KINDS
from cloudgan.coevolution.tasks.digit_images import MNIST_SIDE, scaled
from cloudgan.schema.coevolution import ADVERSARIAL_LOSSES
from cloudgan.training.step import descend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from cloudgan.coevolution.keras_pair import Batch
    from cloudgan.coevolution.task import Draw, Kind
    from cloudgan.coevolution.tasks.digit_images import DigitData
    from cloudgan.schema.coevolution import CoevolutionConfig

LATENT = 64
_HIDDEN_MNIST, _HIDDEN_SMALL = 256, 128
_SLOPE, _BETA_1 = 0.2, 0.5
# What the random numbers at a position are for.
_ORDER, _NOISE, _HELD = range(3)


class DigitPair(KerasPair):
    """Lipizzaner's networks, with Adam."""

    def __init__(self, data: DigitData, config: CoevolutionConfig) -> None:
        """Builds the networks; their weights are those of no individual yet."""
        self._data, self._config = data, config
        pixels = data.side**2
        hidden = _HIDDEN_MNIST if data.side == MNIST_SIDE else _HIDDEN_SMALL
        self._generator = _network((LATENT, hidden, hidden, pixels), "tanh")
        self._discriminator = _network((pixels, hidden, hidden, 1), "sigmoid")
        super().__init__(self._generator, self._discriminator, batch_size=config.batch_size)

    def batches(self, draw: Draw, numbers: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Returns images (batches, B, pixels), uint8, and noise (batches, B, 64).

        A cell takes its share of the training digits in an order drawn for each epoch, and goes on
        where its iteration before stopped: within an epoch no digit comes twice.
        """
        rows = self._rows(draw, draw.iteration * self._config.batches + np.array(numbers))
        noise = [self._noise(draw, number, self._batch_size) for number in numbers]
        return {"image": self._data.training.images[rows], "noise": np.stack(noise)}

    def held_batch(self, draw: Draw, samples: int) -> dict[str, NDArray[Any]]:
        """Returns held-out images (samples, pixels), uint8, and noise (samples, 64).

        No image comes twice before all have come.
        """
        held = self._data.held_out.images
        random = random_numbers(draw, _HELD)
        repeats = -(-samples // len(held))
        rows = np.concatenate([random.permutation(len(held)) for _ in range(repeats)])
        return {"image": held[rows[:samples]], "noise": self._noise(draw, 0, samples)}

    def update_generator(self, batch: Batch, loss: tf.Tensor) -> None:
        """Updates the generator against the discriminator."""

        def losses() -> tuple[None, tf.Tensor]:
            judged = self._discriminator.model(self._generator.model(batch["noise"]))
            return None, tf.reduce_mean(adversarial_loss(loss, 1, judged, of_generator=True))

        descend(self._generator.model, self._generator.optimizer, losses)

    def update_discriminator(self, batch: Batch, loss: tf.Tensor) -> None:
        """Updates the discriminator on real and on generated digits."""
        fake = self.fake(batch)

        def losses() -> tuple[None, tf.Tensor]:
            return None, self._discriminator_loss(loss, *self._judged(batch, fake))

        descend(self._discriminator.model, self._discriminator.optimizer, losses)

    def fake(self, batch: Batch) -> tf.Tensor:
        """Returns digits for the noise of a batch, (samples, pixels) from -1 to 1."""
        return self._generator.model(batch["noise"])

    def judge(self, batch: Batch, fake: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the mean binary cross-entropy of the generator, and that of the discriminator."""
        real, faked = self._judged(batch, fake)
        bce = tf.constant(ADVERSARIAL_LOSSES.index("bce"))
        of_generator = tf.reduce_mean(adversarial_loss(bce, 1, faked, of_generator=True))
        return of_generator, self._discriminator_loss(bce, real, faked)

    def new_weights(self, kind: Kind, seed: int) -> Sequence[NDArray[Any]]:
        """Returns uniform kernels and zero biases."""
        layout = self.layout(kind)
        random = np.random.Generator(np.random.Philox([seed, KINDS.index(kind)]))
        return glorot_uniform(layout.shapes[: layout.weights], random)

    def _judged(self, batch: Batch, fake: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Outputs of the discriminator on real and on generated digits, from one call of it."""
        outputs = self._discriminator.model(
            tf.concat([scaled(tf.cast(batch["image"], tf.float32)), fake], 0)
        )
        real, faked = tf.split(outputs, 2)
        return real, faked

    @staticmethod
    def _discriminator_loss(loss: tf.Tensor, real: tf.Tensor, faked: tf.Tensor) -> tf.Tensor:
        on_real = adversarial_loss(loss, 1, real, of_generator=False)
        on_fake = adversarial_loss(loss, 0, faked, of_generator=False)
        return tf.reduce_mean(on_real) + tf.reduce_mean(on_fake)

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

    @staticmethod
    def _noise(draw: Draw, number: int, samples: int) -> NDArray[np.float32]:
        return random_numbers(draw, _NOISE, number).standard_normal((samples, LATENT), np.float32)


def _network(sizes: tuple[int, ...], activation: str) -> Network:
    """A dense network with its optimiser; hidden layers have a leaky ReLU."""
    x = inputs = keras.Input((sizes[0],))
    for size in sizes[1:-1]:
        x = layers.LeakyReLU(_SLOPE)(layers.Dense(size)(x))
    model = keras.Model(inputs, layers.Dense(sizes[-1], activation=activation)(x))
    optimizer = keras.optimizers.Adam(beta_1=_BETA_1)
    optimizer.build(model.trainable_variables)
    return Network(model, optimizer)
