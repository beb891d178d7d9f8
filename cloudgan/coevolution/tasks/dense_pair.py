"""Generator and discriminator of dense layers: their updates, and the losses that compare them."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from cloudgan.coevolution.keras_pair import KerasPair, Network, adversarial_loss
from cloudgan.coevolution.task import KINDS
from cloudgan.schema.coevolution import ADVERSARIAL_LOSSES
from cloudgan.training.step import descend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from cloudgan.coevolution.keras_pair import Batch
    from cloudgan.coevolution.task import Kind

_BETA_1 = 0.5


class DensePair(KerasPair):
    """Two networks of dense layers, with Adam; a task defines batches, with their ``noise``."""

    @abstractmethod
    def real(self, batch: Batch) -> tf.Tensor:
        """Returns the real samples of a batch, (samples, values)."""

    def update_generator(self, batch: Batch, loss: tf.Tensor) -> None:
        """Updates the generator against the discriminator."""
        generator, discriminator = self._models()

        def losses() -> tuple[None, tf.Tensor]:
            judged = discriminator(generator(batch["noise"]))
            return None, tf.reduce_mean(adversarial_loss(loss, 1, judged, of_generator=True))

        descend(generator, self._networks["generator"].optimizer, losses)

    def update_discriminator(self, batch: Batch, loss: tf.Tensor) -> None:
        """Updates the discriminator on real and on as many generated samples."""
        fake = self.fake(batch)

        def losses() -> tuple[None, tf.Tensor]:
            return None, self._discriminator_loss(loss, *self._judged(batch, fake))

        descend(self._models()[1], self._networks["discriminator"].optimizer, losses)

    def fake(self, batch: Batch) -> tf.Tensor:
        """Returns samples for the noise of a batch, (samples, values)."""
        return self._models()[0](batch["noise"])

    def judge(self, batch: Batch, fake: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the mean binary cross-entropy of the generator, and that of the discriminator."""
        real, faked = self._judged(batch, fake)
        bce = tf.constant(ADVERSARIAL_LOSSES.index("bce"))
        of_generator = tf.reduce_mean(adversarial_loss(bce, 1, faked, of_generator=True))
        return of_generator, self._discriminator_loss(bce, real, faked)

    def new_weights(self, kind: Kind, seed: int) -> Sequence[NDArray[Any]]:
        """Returns the uniform kernels of Glorot and Bengio 2010 (AISTATS 9, 249), biases of zero."""
        random = np.random.Generator(np.random.Philox([seed, KINDS.index(kind)]))
        arrays = []
        for shape in self.layout(kind).shapes[: self.layout(kind).weights]:
            bound = np.sqrt(6 / sum(shape)) if len(shape) > 1 else 0
            arrays.append(random.uniform(-bound, bound, shape).astype(np.float32))
        return arrays

    def _models(self) -> tuple[keras.Model, keras.Model]:
        generator, discriminator = (self._networks[kind].model for kind in KINDS)
        return generator, discriminator

    def _judged(self, batch: Batch, fake: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Outputs of the discriminator on real and on generated samples, from one call of it."""
        real, faked = tf.split(self._models()[1](tf.concat([self.real(batch), fake], 0)), 2)
        return real, faked

    @staticmethod
    def _discriminator_loss(loss: tf.Tensor, real: tf.Tensor, faked: tf.Tensor) -> tf.Tensor:
        on_real = adversarial_loss(loss, 1, real, of_generator=False)
        on_fake = adversarial_loss(loss, 0, faked, of_generator=False)
        return tf.reduce_mean(on_real) + tf.reduce_mean(on_fake)


def dense_network(sizes: Sequence[int], hidden: str | keras.Layer, output: str | None) -> Network:
    """Returns a network of dense layers with its optimiser.

    Args:
        sizes: Values of the input, of each hidden layer, and of the output.
        hidden: Activation of the hidden layers.
        output: Activation of the output; None: none.
    """
    layers = [keras.layers.Dense(size, activation=hidden) for size in sizes[1:-1]]
    layers.append(keras.layers.Dense(sizes[-1], activation=output))
    model = keras.Sequential([keras.Input((sizes[0],)), *layers])
    optimizer = keras.optimizers.Adam(beta_1=_BETA_1)
    optimizer.build(model.trainable_variables)
    return Network(model, optimizer)
