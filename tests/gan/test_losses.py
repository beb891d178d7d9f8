"""The loss terms, by hand-made numbers and at the edges where logarithms and quotients end."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from cloudgan.gan import losses
from cloudgan.schema.losses import GENERATOR_TERMS, LOSS_TERMS
from cloudgan.schema.presets import find_preset

pytestmark = pytest.mark.tf
PAPER, FIXED = find_preset("paper"), find_preset("fixed25")


def column(*values):
    return tf.constant([[value] for value in values], tf.float32)


def test_cross_entropy_of_known_numbers():
    found = losses.binary_crossentropy(column(1, 0, 1), column(0.5, 0.9, 0.25))
    wanted = [-math.log(0.5), -math.log(0.1), -math.log(0.25)]
    np.testing.assert_allclose(found[:, 0], wanted, rtol=1e-5)


def test_percentage_error_is_in_percent_of_the_target():
    found = losses.percentage_error(column(2.0, -4.0), column(1.5, -5.0))
    np.testing.assert_allclose(found[:, 0], [25.0, 25.0])


def values_of(preset, targets, outputs, **generated):
    values, total = losses.weighted_losses(
        losses.LossInputs(preset, *targets, outputs, 1, **generated)
    )
    return dict(zip(LOSS_TERMS, values, strict=True)), total


def test_the_terms_come_in_their_order_each_from_its_own_output():
    targets = (column(1), column(0.5), column(1.5), column(10))
    outputs = [column(0.5), column(0.4), column(1.2), column(12)]
    found, total = values_of(PAPER, targets, outputs)
    wanted = [-math.log(0.5), 20.0, 0.3, 20.0, 0.0, 0.0]
    np.testing.assert_allclose([float(value) for value in found.values()], wanted, rtol=1e-5)
    assert float(total) == pytest.approx(3 * math.log(2) + 2.0 + 7.5 + 2.0)


def test_without_an_angle_its_term_is_zero_and_the_sum_is_the_third_output():
    targets = (column(1), column(0.5), column(1.5), column(10))
    found, _ = values_of(FIXED, targets, [column(0.5), column(0.4), column(12)])
    assert float(found["angle"]) == 0
    assert float(found["ecal_sum"]) == pytest.approx(20)


def test_each_term_has_a_function_and_the_published_weight():
    assert tuple(losses.FUNCTIONS) == LOSS_TERMS
    published = ("real_fake", "energy", "angle", "ecal_sum")
    assert (*published, "longitudinal", "shape") == LOSS_TERMS
    assert set(published).isdisjoint(GENERATOR_TERMS)
    assert [PAPER.loss_weights[name] for name in LOSS_TERMS] == [3.0, 0.1, 25.0, 0.1, 0, 0]
    assert [FIXED.loss_weights[name] for name in LOSS_TERMS] == [6.0, 0.2, 0.0, 0.1, 0, 0]


@pytest.mark.parametrize("probability", [0.0, 1e-30, 0.5, 1.0])
@pytest.mark.parametrize("target", [0.0, 1e-20, 5.0])
def test_losses_and_gradients_are_finite_at_every_edge(probability, target):
    said = [column(probability), column(target), column(0.0), column(0.0)]
    with tf.GradientTape() as tape:
        tape.watch(said)
        targets = (column(1), column(target), column(0), column(target))
        _, total = values_of(PAPER, targets, said)
    assert np.isfinite(total)
    assert all(np.isfinite(slope).all() for slope in tape.gradient(total, said))


def test_one_empty_shower_does_not_dominate_the_batch():
    found = losses.percentage_error(column(0.0), column(1.0))
    assert float(found[0, 0]) <= 1e4 + 1


def test_layer_energy_is_the_share_of_the_primary_energy_in_each_layer():
    image = np.zeros((2, 3, 3, 4, 1), np.float32)
    image[0, 1, 1, 2] = 8.0**PAPER.image_power
    image[1, :, :, 0] = 1.0
    found = losses.layer_energy(PAPER, tf.constant(image), column(0.5, 1.0)).numpy()
    np.testing.assert_allclose(found, [[0, 0, 8 / 50, 0], [9 / 100, 0, 0, 0]], rtol=1e-5)


def test_layer_energy_of_an_empty_shower_is_zero():
    image = tf.zeros((1, 3, 3, 4, 1))
    np.testing.assert_array_equal(losses.layer_energy(PAPER, image, column(0.0)), np.zeros((1, 4)))


def score(*, shift=0.0, spread=1.0, obeys=True):
    """Mean energy score, and its error, of shapes about a line in their two conditions."""
    rng = np.random.default_rng(1)
    count = 20_000

    def drawn(conditions, sigma, off):
        return tf.constant(conditions @ np.ones((2, 3)) + sigma * rng.normal(size=(count, 3)) + off)

    requested = rng.uniform(0.0, 3.0, (count, 2))
    seen = requested if obeys else rng.permutation(requested)
    real = drawn(requested, 1.0, 0.0)
    fake, other = (drawn(seen, spread, shift) for _ in range(2))
    one = tf.ones(3, tf.float64)
    found = losses.shape_score(real, fake, other, one, one / 3).numpy()
    assert found.shape == (count, 1)
    return found.mean(), found.std() / math.sqrt(count)


def test_the_energy_score_of_the_right_distribution_is_half_its_mean_difference():
    found, error = score()
    one_by_one = 1 / math.sqrt(math.pi)  # E|x - x'| / 2 of a normal distribution
    together = 0.5 * math.sqrt(2 / 3) * math.sqrt(2) * math.gamma(2) / math.gamma(1.5)
    assert found == pytest.approx(one_by_one + together, abs=4 * error)
    assert error < 0.02


@pytest.mark.parametrize(
    "wrong", [{"shift": 0.5}, {"spread": 0.4}, {"spread": 1.8}, {"obeys": False}]
)
def test_the_energy_score_is_worse_where_the_distribution_at_given_conditions_is_wrong(wrong):
    (right, error), (found, other_error) = score(), score(**wrong)
    assert found > right + 4 * math.hypot(error, other_error)


def test_the_energy_score_pushes_too_narrow_shapes_apart():
    rng = np.random.default_rng(2)
    real = tf.constant(rng.normal(size=(4000, 1)))
    noise, others = (tf.constant(rng.normal(size=(4000, 1))) for _ in range(2))
    for spread, sign in ((0.3, -1), (1.0, 0), (3.0, 1)):
        width = tf.Variable(spread, dtype=tf.float64)
        with tf.GradientTape() as tape:
            one = tf.ones(1, tf.float64)
            found = losses.shape_score(real, width * noise, width * others, one, one)
            mean = tf.reduce_mean(found)
        slope = float(tape.gradient(mean, width))
        assert sign * slope > 0.2 if sign else abs(slope) < 0.1
