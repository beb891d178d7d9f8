"""A finished generator: its own statistics, the right mean sum, and nothing else changed."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from cloudgan.core.presets import PRESETS
from cloudgan.data.image_view import Batch
from cloudgan.models.networks import build_generator
from cloudgan.training.draws import Draws
from cloudgan.training.finishing import Finisher

pytestmark = pytest.mark.tf
SMOKE = PRESETS["smoke"]
COUNT, SUM = 64, 40.0


@pytest.fixture
def finisher():
    keras.config.set_dtype_policy("float32")
    rng = np.random.default_rng(0)

    def column(low, high):
        return rng.uniform(low, high, (COUNT, 1)).astype(np.float32)

    image = np.zeros((COUNT, *SMOKE.image_shape), np.float32)
    ecal = np.full((COUNT, 1), SUM, np.float32)
    return Finisher(SMOKE, Draws(1), Batch(image, column(0.1, 1), column(1, 2), ecal))


def finished(finisher, network):
    copy = build_generator(SMOKE)
    copy.set_weights(finisher.finish(network))
    return copy


def mean_sum(finisher, network):
    image = network(finisher._latent, training=False).numpy().astype(np.float64)
    return (image ** (1 / SMOKE.image_power)).sum((1, 2, 3, 4)).mean()


def test_the_mean_sum_is_that_of_the_training_showers(finisher):
    network = build_generator(SMOKE)
    assert abs(mean_sum(finisher, network) / SUM - 1) > 0.2
    assert mean_sum(finisher, finished(finisher, network)) == pytest.approx(SUM, rel=1e-4)


def test_statistics_are_those_of_the_weights_at_hand(finisher):
    """So that generating one by one gives what training's batch statistics gave for many."""
    network = finished(finisher, build_generator(SMOKE))
    norm, feed = network.get_layer("norm0"), network.get_layer("norm0").input
    values = keras.Model(network.input, feed)(finisher._latent, training=False).numpy()
    axes = tuple(range(values.ndim - 1))
    np.testing.assert_allclose(norm.moving_mean, values.mean(axes), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(norm.moving_variance, values.var(axes), rtol=1e-3, atol=1e-5)


def test_what_is_learned_stays_and_the_network_itself_is_not_touched(finisher):
    network = build_generator(SMOKE)
    before = [weight.numpy() for weight in network.weights]
    copy = finished(finisher, network)
    for old, weight in zip(before, network.weights, strict=True):
        np.testing.assert_array_equal(old, weight.numpy())
    for ours, theirs in zip(network.trainable_weights, copy.trainable_weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_finishing_twice_changes_nothing_more(finisher):
    once = finisher.finish(build_generator(SMOKE))
    network = build_generator(SMOKE)
    network.set_weights(once)
    for one, other in zip(once, finisher.finish(network), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_a_network_that_makes_nothing_keeps_its_constant(finisher):
    network = build_generator(SMOKE)
    network.get_layer("output").calibration.assign(0.0)
    assert np.isfinite(np.concatenate([w.ravel() for w in finisher.finish(network)])).all()
