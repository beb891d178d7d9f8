"""Our power is the backend's, and safe at zero."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cloudgan.models.power import raised

pytestmark = pytest.mark.tf
CELLS = np.array([0.0, 1e-20, 1e-6, 0.3, 1.0, 7.5, 400.0], np.float32)


@pytest.mark.parametrize("exponent", [1.0, 1 / 0.85, 2.0])
def test_it_is_the_power(exponent):
    np.testing.assert_allclose(
        raised(tf.constant(CELLS), exponent), CELLS**exponent, rtol=2e-5, atol=1e-30
    )


@pytest.mark.parametrize("exponent", [1 / 0.85, 2.0])
def test_its_gradient_is_that_of_the_power_and_zero_at_zero(exponent):
    cells = tf.constant(CELLS)
    with tf.GradientTape() as tape:
        tape.watch(cells)
        value = raised(cells, exponent)
    gradient = tape.gradient(value, cells).numpy()
    np.testing.assert_allclose(gradient, exponent * CELLS ** (exponent - 1), rtol=3e-5, atol=1e-19)
    assert gradient[0] == 0


def test_the_smallest_numbers_there_are_stay_finite():
    cells = tf.constant([1e-45, 1e-38, 1.2e-38], tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(cells)
        value = raised(cells, 1 / 0.85)
    assert np.isfinite(value).all()
    assert np.isfinite(tape.gradient(value, cells)).all()
