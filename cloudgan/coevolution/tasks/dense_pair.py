"""Generator and discriminator of dense layers: their updates, and the losses that compare them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from cloudgan.coevolution.keras_pair import Batch, KerasPair, Network, adversarial_loss
from cloudgan.coevolution.task import KINDS, Draw, Individual, Kind
from cloudgan.gan.losses import binary_crossentropy
from cloudgan.training.step import descend

_BETA_1 = 0.5


class DensePair(KerasPair):
    """Two networks of dense layers, with Adam; a task defines batches, with their ``noise``."""

    def __init__(self, generator: Network, discriminator: Network, *, batch_size: int) -> None:
        super().__init__(generator, discriminator, batch_size=batch_size)
        self._generate = self.with_weights("generator", generator.model)

    @abstractmethod
    def noise(self, draw: Draw, samples: int) -> NDArray[np.float32]:
        """Returns the noise (samples, values) of a held batch."""

    @abstractmethod
    def real(self, batch: Batch) -> tf.Tensor:
        """Returns the real samples of a batch, (samples, values)."""

    def update_generator(self, batch: Batch, loss: tf.Tensor) -> None:
        """Updates the generator against the discriminator."""
        generator, discriminator = self._models()

        def losses() -> tuple[None, tf.Tensor]:
            judged = discriminator(generator(batch["noise"]))
            return None, tf.reduce_mean(adversarial_loss(loss, 1, judged, of_generator=True))

        descend([generator, discriminator], self._networks["generator"].optimizer, losses)

    def update_discriminator(self, batch: Batch, loss: tf.Tensor) -> None:
        """Updates the discriminator on real and on as many generated samples."""
        real, fake = self.real(batch), self.fake(batch)
        discriminator = self._models()[1]

        def losses() -> tuple[None, tf.Tensor]:
            outputs = discriminator(tf.concat([real, fake], 0))
            labels = tf.concat([tf.ones_like(real[:, :1]), tf.zeros_like(fake[:, :1])], 0)
            return None, 2 * tf.reduce_mean(
                adversarial_loss(loss, labels, outputs, of_generator=False)
            )

        descend([discriminator], self._networks["discriminator"].optimizer, losses)

    def fake(self, batch: Batch) -> tf.Tensor:
        """Returns samples for the noise of a batch, (samples, values)."""
        return self._models()[0](batch["noise"])

    def judge_real(self, batch: Batch) -> tf.Tensor:
        """Returns the mean binary cross-entropy of the discriminator on real samples."""
        return tf.reduce_mean(binary_crossentropy(1, self._models()[1](self.real(batch))))

    def judge_fakes(self, batch: Batch, fakes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the mean binary cross-entropies on (G, samples, values): of both, (G,)."""
        del batch
        outputs = self._models()[1](tf.reshape(fakes, (-1, fakes.shape[-1])))
        by_generator = tf.reshape(outputs, tf.shape(fakes)[:2])
        of_generators, of_discriminator = (
            tf.reduce_mean(binary_crossentropy(label, by_generator), 1) for label in (1, 0)
        )
        return of_generators, of_discriminator

    def generate(
        self,
        draw: Draw,
        generator: Individual,
        samples: int,
        rows: NDArray[np.intp] | None = None,
    ) -> NDArray[np.float32]:
        """Returns samples (N, values) of a generator; see `Pair.generate`."""
        noise = self.noise(draw, samples if rows is None else len(rows))
        return np.asarray(self._generate(self.weights_of(generator), tf.constant(noise)))

    def new_weights(self, kind: Kind, seed: int) -> Sequence[NDArray[Any]]:
        """Returns the uniform kernels of Glorot and Bengio 2010 (AISTATS 9, 249), biases of zero."""
        random = np.random.Generator(np.random.Philox([seed, KINDS.index(kind)]))
        arrays = []
        for shape in self.layouts[kind].shapes[: self.layouts[kind].leading]:
            bound = np.sqrt(6 / sum(shape)) if len(shape) > 1 else 0
            arrays.append(random.uniform(-bound, bound, shape).astype(np.float32))
        return arrays

    def _models(self) -> tuple[keras.Model, keras.Model]:
        generator, discriminator = (self._networks[kind].model for kind in KINDS)
        return generator, discriminator


def dense_network(sizes: Sequence[int], hidden: str, output: str | None) -> Network:
    """Returns a network of dense layers with its optimiser."""
    layers = [keras.layers.Dense(size, activation=hidden) for size in sizes[1:-1]]
    layers.append(keras.layers.Dense(sizes[-1], activation=output))
    model = keras.Sequential([keras.Input((sizes[0],)), *layers])
    optimizer = keras.optimizers.Adam(beta_1=_BETA_1)
    optimizer.build(model.trainable_variables)
    return Network(model, optimizer)
