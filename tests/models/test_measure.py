"""What the discriminator reads off an image is what the data's own measure says."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from cloudgan.data.showers import measured_angle
from cloudgan.models.measure import Measure

pytestmark = pytest.mark.tf
POWER, SCALE = 0.85, 50.0


@pytest.fixture(autouse=True)
def float32():
    keras.config.set_dtype_policy("float32")


@pytest.fixture(scope="module")
def ecal():
    """Forty parametric showers of the whole calorimeter at all angles, in GeV."""
    from cloudgan.simulation.gflash import simulate

    return np.concatenate([block.ecal_gev for block in simulate(40, seed=3)])


def powered(ecal):
    return ((ecal * SCALE) ** POWER)[..., None].astype(np.float32)


def test_the_angle_is_the_one_that_the_data_are_conditioned_on(ecal):
    angle, _ = Measure(POWER)(powered(ecal))
    np.testing.assert_allclose(angle[:, 0], measured_angle(ecal), atol=2e-4)
    assert np.ptp(angle) > 0.5


def test_the_sum_is_that_of_the_scaled_cells(ecal):
    _, total = Measure(POWER)(powered(ecal))
    np.testing.assert_allclose(total[:, 0], SCALE * ecal.sum((1, 2, 3)), rtol=1e-4)


def single_cell():
    image = np.zeros((1, 9, 9, 25, 1), np.float32)
    image[0, 4, 4, 10] = 1
    return image


def one_layer():
    image = np.zeros((1, 9, 9, 25, 1), np.float32)
    image[0, :, :, 7] = 0.5
    return image


HARD = {
    "empty": np.zeros((1, 9, 9, 25, 1), np.float32),
    "single cell": single_cell(),
    "one layer": one_layer(),
    "dust": np.full((1, 9, 9, 25, 1), 1e-30, np.float32),
    "one value": np.ones((1, 9, 9, 25, 1), np.float32),
}


@pytest.mark.parametrize("image", HARD.values(), ids=HARD.keys())
def test_values_and_gradients_are_finite_where_the_published_code_gives_nan(image):
    measure, image = Measure(POWER), tf.constant(image)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(image)
        angle, total = measure(image)
    assert np.isfinite(angle).all()
    assert np.isfinite(total).all()
    for value in (angle, total):
        assert np.isfinite(tape.gradient(value, image)).all()


def test_an_empty_image_measures_zero_and_zero():
    angle, total = Measure(POWER)(HARD["empty"])
    assert (float(angle[0, 0]), float(total[0, 0])) == (0.0, 0.0)


def test_the_angle_pulls_cells_the_right_way(ecal):
    """A small step along the gradient turns the shower as the gradient says."""
    measure, image = Measure(POWER), tf.constant(powered(ecal[:4]))
    with tf.GradientTape() as tape:
        tape.watch(image)
        angle = measure(image)[0]
    gradient = tape.gradient(angle, image)
    norm = tf.norm(tf.reshape(gradient, (4, -1)), axis=1)
    step = 1e-3 / norm[:, None, None, None, None]
    lit = tf.cast(image > 0, tf.float32)  # a dark cell has no slope to follow
    turned = measure(image + step * gradient * lit / norm[:, None, None, None, None])[0]
    assert np.all(turned.numpy() > angle.numpy())
