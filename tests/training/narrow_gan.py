"""The GAN of the smoke preset, its step and a batch of showers, as tests of one step need them.

It imports no TensorFlow before `batch` is called: `jax_step_program.py` runs without it.
"""

from __future__ import annotations

from dataclasses import replace

import keras
import numpy as np

from cloudgan.gan.differentiable_observables import shape_weights
from cloudgan.schema.presets import find_preset
from cloudgan.training.gan import build_gan
from cloudgan.training.rng import Rng
from cloudgan.training.step import GanStep

SMOKE = find_preset("smoke")
ONCE = SMOKE.model_copy(update={"generator_updates": 1})
ROWS = 4


def build(preset=SMOKE, *, rate=None, rows=ROWS, linear=None, constants=None, **options):
    """Returns the networks and their step.

    With `linear`, an epsilon, both optimisers step by what is a large number's part of the gradient:
    the usual epsilon divides a gradient by its own size, so that rounding decides the sign of a whole
    update where the true gradient is zero, as that of a bias before batch norm is.
    """
    rng = Rng(1)
    gan = build_gan(preset, rng, learning_rates=rate and (rate, rate), **options)
    if linear:
        made = [
            keras.optimizers.Adam(1.0, beta_1=0.0, beta_2=0.0, epsilon=linear) for _ in range(2)
        ]
        for optimizer, network in zip(made, (gan.generator, gan.discriminator), strict=True):
            optimizer.build(network.trainable_variables)
        gan = replace(gan, generator_optimizer=made[0], discriminator_optimizer=made[1])
    constants = constants or {
        "layer_target": np.full(preset.image_shape[2], 8e-4),
        "shape_scale": np.ones(len(shape_weights(preset)), np.float32),
    }
    return gan, GanStep(gan, preset, rng, global_batch_size=rows, **constants)


def showers(preset=SMOKE, *, rows=ROWS, scale=1.0, energy=None, hits=0.2, kind="float32"):
    """Columns of a batch of showers; a share `hits` of the cells has energy."""
    rng = np.random.default_rng(0)
    shape = (rows, *preset.image_shape)
    cells = rng.gamma(0.1, 1.0, shape) * (rng.random(shape) < hits) * scale
    arrays = {
        "image": cells[..., None] ** preset.image_power,
        "energy": np.linspace(0.3, 1.9, rows) if energy is None else np.full(rows, energy),
        "angle": np.linspace(1.1, 2.0, rows),
        "ecal": cells.sum((1, 2, 3)),
    }
    columns = {name: array.reshape(rows, 1) for name, array in arrays.items() if name != "image"}
    return {name: array.astype(kind) for name, array in (arrays | columns).items()}


def batch(preset=SMOKE, *, step=0, first_row=0, **options):
    """Those showers as the batch of a step."""
    import tensorflow as tf

    arrays = {name: tf.constant(array) for name, array in showers(preset, **options).items()}
    places = {
        "step": tf.constant([step], tf.int64),
        "first_row": tf.constant([first_row], tf.int64),
    }
    return arrays | places


def weights_of(gan):
    return [*gan.generator.weights, *gan.discriminator.weights]
