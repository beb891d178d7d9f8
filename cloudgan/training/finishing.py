"""Makes a generator ready to generate: statistics of batch norm and the output's constant.

Averaged weights were never run in training, so the moving statistics of the network they come from
are not theirs (the same holds in stochastic weight averaging, Izmailov et al. 2018,
arXiv:1803.05407, section 3.2). Both are measured here on training showers, never on held-back ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from cloudgan.models.networks import build_generator
from cloudgan.training.draws import Call
from cloudgan.training.step import latent_of

if TYPE_CHECKING:
    import keras

    from cloudgan.core.presets import Preset
    from cloudgan.data.image_view import Batch
    from cloudgan.training.draws import Draws

SHOWERS = 1024
"""Training showers that the statistics and the constant are measured with."""


class Finisher:
    """Finishes copies of a generator; what trains is never touched."""

    def __init__(self, preset: Preset, draws: Draws, showers: Batch) -> None:
        """Keeps the conditions of `showers` and their mean sum of scaled cells."""
        self._preset = preset
        # Without momentum one pass over all showers leaves exactly their statistics.
        self._copy = build_generator(preset.model_copy(update={"batch_norm_momentum": 0.0}))
        dtype = self._copy.weights[0].dtype
        zero = tf.zeros((), tf.int64)
        with draws.at(zero, zero, Call.CALIBRATION):
            energy, angle = (tf.cast(value, dtype) for value in (showers.energy, showers.angle))
            self._latent = latent_of(preset, draws, energy, angle)
        self._mean_sum = float(np.mean(showers.ecal))

    def finish(self, generator: keras.Model) -> list[np.ndarray[Any, Any]]:
        """Returns the weights of `generator`, in Keras' order, statistics and constant renewed."""
        self._copy.set_weights(generator.get_weights())
        self._copy(self._latent, training=True)
        if self._preset.calibrated_output:
            self._calibrate()
        return self._copy.get_weights()

    def _calibrate(self) -> None:
        image = self._copy(self._latent, training=False).numpy().astype(np.float64)
        power = self._preset.image_power
        found = (image ** (1 / power)).sum((1, 2, 3, 4)).mean()
        if found > 0:
            constant = self._copy.get_layer("output").calibration
            constant.assign(constant.numpy() * (self._mean_sum / found) ** power)
