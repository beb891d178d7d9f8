"""The generated code inside a network: the same functions, updates and checkpoints as the layers'."""

from __future__ import annotations

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from cloudgan.gan.convolutions import CONV_IMPLS
from cloudgan.schema.presets import find_preset
from cloudgan.training.gan import LearningRates, build_gan
from cloudgan.training.rng import Rng
from cloudgan.training.step import GanStep

pytestmark = [pytest.mark.tf, pytest.mark.slow]
pytest.importorskip("llvmlite")
SMOKE, BATCH = find_preset("smoke"), 3


def gan_of(conv_impl, preset=SMOKE):
    rng = Rng(3)
    learning_rates = LearningRates(1e-3, 1e-3)
    gan = build_gan(
        preset,
        rng,
        seed=2,
        precision="float32",
        synchronized=False,
        learning_rates=learning_rates,
        conv_impl=conv_impl,
    )
    return gan, rng


def batch():
    random = np.random.default_rng(0)
    cells = random.gamma(0.1, 1.0, (BATCH, *SMOKE.image_shape, 1))
    return {
        "image": tf.constant(cells**SMOKE.image_power, tf.float32),
        "energy": tf.constant([[0.2], [0.5], [0.9]]),
        "angle": tf.fill((BATCH, 1), 1.5),
        "ecal": tf.constant(cells.sum((1, 2, 3)), tf.float32),
        "step": tf.constant([4], tf.int64),
        "first_row": tf.constant([0], tf.int64),
    }


def after_one_step(conv_impl):
    """Losses and weights after a step by a large number's part of the gradient.

    The usual epsilon divides a gradient by its own size, so that rounding decides the sign of a
    whole update where the true gradient is zero, as that of a bias before batch norm is.
    """
    gan, rng = gan_of(conv_impl)
    plain = [keras.optimizers.Adam(1.0, beta_1=0.0, beta_2=0.0, epsilon=1e3) for _ in range(2)]
    plain[0].build(gan.generator.trainable_variables)
    plain[1].build(gan.discriminator.trainable_variables)
    gan = dataclasses.replace(gan, generator_optimizer=plain[0], discriminator_optimizer=plain[1])
    target = np.full(SMOKE.image_shape[2], 8e-4)
    step = GanStep(gan, SMOKE, rng, global_batch_size=BATCH, layer_target=target)
    before = [weight.numpy() for weight in weights_of(gan)]
    losses = tf.function(step, autograph=False)(batch()).numpy()
    return losses, [w.numpy() - b for w, b in zip(weights_of(gan), before, strict=True)]


def weights_of(gan):
    return gan.generator.weights + gan.discriminator.weights


@pytest.fixture(scope="module")
def published():
    return after_one_step("published")


@pytest.mark.parametrize("conv_impl", CONV_IMPLS[1:])
def test_a_whole_step_with_dropout_makes_the_same_updates(conv_impl, published):
    losses, updates = after_one_step(conv_impl)
    np.testing.assert_allclose(losses, published[0], rtol=1e-4)
    for found, expected in zip(updates, published[1], strict=True):
        size = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-3 * size + 1e-7)


@pytest.mark.parametrize("preset", ["paper", "mini", "smoke", "fixed25"])
def test_a_checkpoint_of_one_form_is_one_of_every_other(preset):
    found = []
    for conv_impl in CONV_IMPLS:
        gan, _ = gan_of(conv_impl, find_preset(preset))
        found.append({name: tuple(each.shape) for name, each in gan.variables().items()})
    assert found[0] == found[1] == found[2]


def test_all_forms_begin_with_the_same_numbers():
    first, *others = (weights_of(gan_of(conv_impl)[0]) for conv_impl in CONV_IMPLS)
    for weights in others:
        for a, b in zip(first, weights, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_without_training_the_moving_statistics_count_and_nothing_is_dropped():
    results = []
    for conv_impl in ("published", "fft"):
        gan, _ = gan_of(conv_impl)
        for weight in gan.discriminator.weights:
            if weight.name.startswith(("moving", "gamma")):
                weight.assign(weight + 0.5)
        results.append([each.numpy() for each in gan.discriminator(batch()["image"])])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)


def test_the_statistics_are_nearer_to_float64_than_the_layers_are():
    """A sum of squares minus a squared mean loses digits, unless both are summed in float64."""
    gan, rng = gan_of("fft")
    stage = gan.discriminator.get_layer("conv1")
    shape = stage._sizes.size
    cells = 100 + np.random.default_rng(0).random((8, *shape, stage._sizes.channels))
    first = tf.zeros((), tf.int64)
    with rng.at(first, first, 0):
        active, *_ = stage([tf.constant(cells, tf.float32), *unchanged(stage)], training=True)
    momentum = SMOKE.batch_norm_momentum
    variance = (stage._norm.moving_variance.numpy() - momentum) / (1 - momentum)
    expected = active.numpy().astype(float).var((0, 1, 2, 3))
    np.testing.assert_allclose(variance, expected, rtol=2e-4)


def unchanged(stage):
    ones = tf.ones((stage._sizes.channels,))
    return ones, tf.zeros_like(ones)
