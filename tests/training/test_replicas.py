"""Replica invariance in float32, on two logical devices of this process."""

from __future__ import annotations

import functools
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from cloudgan.core.presets import PRESETS
from cloudgan.training.draws import Draws
from cloudgan.training.gan import Rates, build_gan
from cloudgan.training.step import GanStep

pytestmark = pytest.mark.tf
SMOKE = PRESETS["smoke"]
BATCH = 8


def showers():
    rng = np.random.default_rng(3)
    cells = rng.gamma(0.1, 1.0, (BATCH, *SMOKE.image_shape)) * (
        rng.random((BATCH, *SMOKE.image_shape)) < 0.2
    )
    return {
        "image": cells[..., None] ** SMOKE.image_power,
        "energy": rng.uniform(0.1, 1, (BATCH, 1)),
        "angle": rng.uniform(1, 2, (BATCH, 1)),
        "ecal": cells.sum((1, 2, 3))[:, None],
    }


@functools.cache
def mirrored(replicas):
    """One strategy for all: a second one of the process numbers its reductions from the start."""
    return tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(replicas)])


def update(replicas, *, formulation="published", synchronized=True):
    """What one step of gradient descent does to all weights, as one vector."""
    strategy = mirrored(replicas)
    draws, size, data = Draws(1), BATCH // replicas, showers()
    with strategy.scope():
        gan = build_gan(
            SMOKE,
            draws,
            seed=1,
            precision="float32",
            synchronized=synchronized,
            rates=Rates(1e-3, 1e-3),
            formulation=formulation,
        )
        linear = keras.optimizers.SGD(1e-4), keras.optimizers.SGD(1e-4)
        for optimizer, network in zip(linear, (gan.generator, gan.discriminator), strict=True):
            optimizer.build(network.trainable_variables)
        gan = replace(gan, generator_optimizer=linear[0], discriminator_optimizer=linear[1])
    step = GanStep(gan, SMOKE, draws, global_batch_size=BATCH, layer_target=np.full(25, 8e-4))

    def share(context):
        first = context.replica_id_in_sync_group * size
        part = {
            name: tf.constant(value[first : first + size], tf.float32)
            for name, value in data.items()
        }
        places = {"step": tf.constant([2], tf.int64), "first_row": tf.constant([first], tf.int64)}
        return part | places

    weights = [*gan.generator.weights, *gan.discriminator.weights]
    before = np.concatenate([weight.numpy().ravel() for weight in weights])
    batch = strategy.experimental_distribute_values_from_function(share)
    tf.function(lambda one: strategy.run(step, args=(one,)), autograph=False)(batch)
    return np.concatenate([weight.numpy().ravel() for weight in weights]) - before


def test_one_step_of_a_linear_optimiser_in_float32_agrees_to_1e_3_on_1_and_2_replicas():
    one, two = update(1), update(2)
    assert np.linalg.norm(one) > 0
    assert np.linalg.norm(one - two) <= 1e-3 * np.linalg.norm(one)


def test_the_generated_code_runs_on_two_replicas_as_the_layers_do():
    pytest.importorskip("llvmlite")
    layers, generated = (
        update(2, formulation=form, synchronized=False) for form in ("published", "transforms")
    )
    assert np.linalg.norm(layers - generated) <= 1e-3 * np.linalg.norm(layers)
