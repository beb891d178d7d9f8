"""Constants measured on training showers."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from cloudgan.data.batches import Batch, TrainingSet
from cloudgan.gan.differentiable_observables import shape_weights
from cloudgan.gan.networks import build_generator
from cloudgan.schema.presets import LossWeights, find_preset
from cloudgan.training.calibration import BatchNormRecalibrator, scale_of_training_set, shape_scale
from cloudgan.training.rng import Rng

pytestmark = pytest.mark.tf


SMOKE = find_preset("smoke")
COUNT, SUM = 64, 40.0


@pytest.fixture
def recalibrator():
    rng = np.random.default_rng(0)

    def column(low, high):
        return rng.uniform(low, high, (COUNT, 1)).astype(np.float32)

    image = np.zeros((COUNT, *SMOKE.image_shape), np.float32)
    ecal = np.full((COUNT, 1), SUM, np.float32)
    return BatchNormRecalibrator(SMOKE, Rng(1), Batch(image, column(0.1, 1), column(1, 2), ecal))


def finished(recalibrator, network):
    copy = build_generator(SMOKE)
    copy.set_weights(recalibrator.recalibrate(network.get_weights()))
    return copy


def mean_sum(recalibrator, network):
    image = network(recalibrator._latent, training=False).numpy().astype(np.float64)
    return (image ** (1 / SMOKE.image_power)).sum((1, 2, 3, 4)).mean()


def test_the_mean_sum_is_that_of_the_training_showers(recalibrator):
    network = build_generator(SMOKE)
    assert abs(mean_sum(recalibrator, network) / SUM - 1) > 0.2
    assert mean_sum(recalibrator, finished(recalibrator, network)) == pytest.approx(SUM, rel=1e-4)


def test_statistics_are_those_of_the_weights_at_hand(recalibrator):
    """So that generating one by one gives what training's batch statistics gave for many."""
    network = finished(recalibrator, build_generator(SMOKE))
    norm, feed = network.get_layer("norm0"), network.get_layer("norm0").input
    values = keras.Model(network.input, feed)(recalibrator._latent, training=False).numpy()
    axes = tuple(range(values.ndim - 1))
    np.testing.assert_allclose(norm.moving_mean, values.mean(axes), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(norm.moving_variance, values.var(axes), rtol=1e-3, atol=1e-5)


def test_what_is_learned_stays_and_the_network_itself_is_not_touched(recalibrator):
    network = build_generator(SMOKE)
    before = [weight.numpy() for weight in network.weights]
    copy = finished(recalibrator, network)
    for old, weight in zip(before, network.weights, strict=True):
        np.testing.assert_array_equal(old, weight.numpy())
    for ours, theirs in zip(network.trainable_weights, copy.trainable_weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_finishing_twice_changes_nothing_more(recalibrator):
    once = recalibrator.recalibrate(build_generator(SMOKE).get_weights())
    network = build_generator(SMOKE)
    network.set_weights(once)
    for one, other in zip(once, recalibrator.recalibrate(network.get_weights()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_a_network_that_makes_nothing_keeps_its_constant(recalibrator):
    network = build_generator(SMOKE)
    network.get_layer("output").calibration.assign(0.0)
    assert np.isfinite(
        np.concatenate([w.ravel() for w in recalibrator.recalibrate(network.get_weights())])
    ).all()


SMOKE_SHAPE_SCALE = find_preset("smoke").model_copy(update={"loss_weights": LossWeights(shape=1.0)})


@pytest.fixture(scope="module")
def showers(store):
    return TrainingSet.open(store, SMOKE_SHAPE_SCALE)


def test_a_preset_without_the_loss_needs_no_scale(showers):
    assert scale_of_training_set(find_preset("smoke"), showers) is None


def test_every_feature_has_a_positive_scale_and_constant_ones_a_small_one(showers):
    scale = scale_of_training_set(SMOKE_SHAPE_SCALE, showers)
    assert scale.shape == shape_weights(SMOKE_SHAPE_SCALE).shape
    assert (scale > 0).all()
    assert scale.min() == pytest.approx(1e-3 * np.median(scale), rel=0.01), "rings beyond the image"


def test_what_energy_and_angle_explain_is_no_spread(showers):
    batch = showers.train_rows(np.arange(64))
    layer = np.zeros((64, *SMOKE_SHAPE_SCALE.image_shape), np.float32)
    layer[:, 4, 4, 10] = (0.3 * batch.energy[:, 0] * 50) ** SMOKE_SHAPE_SCALE.image_power
    explained = shape_scale(SMOKE_SHAPE_SCALE, batch._replace(image=layer))
    assert explained[10] < 0.02 * shape_scale(SMOKE_SHAPE_SCALE, batch)[10]
