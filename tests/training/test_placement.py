"""Layers on two devices compute what they compute on one, forward and backward."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cloudgan.schema.presets import find_preset
from cloudgan.training.gan import build_gan
from cloudgan.training.rng import Rng
from cloudgan.training.tensorflow_backend import slots

pytestmark = pytest.mark.tf
SMOKE = find_preset("smoke")
CONVOLUTIONS = {"Conv3D", "Conv3DBackpropFilterV2", "Conv3DBackpropInputV2"}


def gradients(stages):
    """Gradients of all weights, the convolutions of the traced function, and the networks."""
    gan = build_gan(SMOKE, Rng(1), device_stages=stages)
    latent = tf.constant(np.random.default_rng(0).normal(size=(4, 64)).astype("f"))
    weights = [*gan.generator.trainable_weights, *gan.discriminator.trainable_weights]

    @tf.function(autograph=False)
    def run(latent):
        with tf.GradientTape() as tape:
            real, energy, *_ = gan.discriminator(gan.generator(latent, training=True))
            loss = tf.reduce_sum(tf.square(real - 0.3)) + tf.reduce_sum(tf.square(energy - 0.5))
        return tape.gradient(loss, [weight.value for weight in weights])

    graph = run.get_concrete_function(latent).graph
    operations = [one for one in graph.get_operations() if one.type in CONVOLUTIONS]
    return [part.numpy() for part in run(latent)], operations, gan


@pytest.fixture(scope="module")
def both():
    return gradients(()), gradients(("conv1",))


def test_placed_gradients_equal_unplaced_ones(both):
    (plain, _, _), (placed, _, _) = both
    for one, two in zip(plain, placed, strict=True):
        scale = np.abs(one).max()
        assert scale > 0
        np.testing.assert_allclose(two, one, atol=1e-6 * scale, rtol=0)


def test_the_convolutions_of_both_passes_are_where_their_weights_are(both):
    _, (_, operations, gan) = both
    for network in (gan.generator, gan.discriminator):
        for layer in network.layers:
            number = layer.name.removeprefix("conv")
            if number != layer.name and number.isdecimal():
                device = f"CPU:{int(int(number) >= 1)}"
                assert all(weight.value.device.endswith(device) for weight in layer.weights)
    pairs = (
        (gan.generator_optimizer, gan.generator),
        (gan.discriminator_optimizer, gan.discriminator),
    )
    for optimizer, network in pairs:
        moments = slots(optimizer, "momentum")
        for slot, weight in zip(moments, network.trainable_weights, strict=True):
            assert slot.value.device == weight.value.device
    of_device = {"CPU:0": set(), "CPU:1": set()}
    for one in operations:
        of_device[one.device[-5:] or "CPU:0"].add(one.type)
    assert of_device["CPU:1"] == CONVOLUTIONS
    moved = sum(one.device.endswith("CPU:1") for one in operations)
    plain = len(both[0][1])
    assert len(operations) == plain
    assert 0 < moved < plain
