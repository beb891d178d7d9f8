"""Dropout and the phase implementation of a convolution."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import layers

from cloudgan.gan.layers import (
    PUBLISHED,
    Dropout,
    PhaseConvolution,
    PhaseStages,
    Stage,
)
from cloudgan.schema.architecture import Block

pytestmark = pytest.mark.tf


class Recorder:
    """Keeps every second value and records its calls."""

    def __init__(self):
        self.requested = []

    def dropout_mask(self, shape, rate, stream):
        self.requested.append((shape, rate, stream))
        return np.arange(np.prod(shape)).reshape(shape) % 2 == 0


def test_survivors_are_scaled_and_the_rest_is_zero():
    masks = Recorder()
    values = Dropout(0.2, 3, masks)(np.ones((2, 4), np.float32), training=True)
    np.testing.assert_allclose(values, [[1.25, 0, 1.25, 0]] * 2)
    assert masks.requested == [((2, 4), 0.2, 3)]


@pytest.mark.parametrize(("rate", "training"), [(0.2, False), (0.0, True)])
def test_no_mask_is_drawn_without_dropout(rate, training):
    masks = Recorder()
    values = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(Dropout(rate, 0, masks)(values, training=training), values)
    assert masks.requested == []


@pytest.mark.parametrize(
    ("upsample", "kernel"),
    [
        ((6, 6, 6), (6, 6, 8)),
        ((2, 2, 2), (3, 4, 5)),
        ((2, 2, 3), (3, 3, 8)),
        ((3, 1, 2), (1, 2, 1)),
    ],
)
def test_the_phase_convolution_is_the_same_function_of_the_same_kernel(upsample, kernel):
    grid = np.random.default_rng(0).normal(size=(2, 3, 4, 5, 2)).astype(np.float32)
    plain = layers.Conv3D(3, kernel, kernel_initializer="he_uniform")
    expected = plain(layers.UpSampling3D(upsample)(grid)).numpy()
    phases = PhaseConvolution(Block(3, kernel, upsample=upsample), "zeros")
    phases.build(grid.shape)
    phases.set_weights(plain.get_weights())
    found = phases(grid).numpy()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stages", [PUBLISHED, PhaseStages()])
@pytest.mark.parametrize("padding", ["valid", "same"])
def test_a_convolution_along_a_periodic_axis_goes_on_at_the_other_end(stages, padding):
    block = Block(3, (3, 4, 2), (1, 2, 2), (1, 0, 0), padding, periodic=(False, True, False))
    start = keras.Input((4, 5, 3, 2))
    stage = Stage(block, 0, "he_uniform", leak=1.0, momentum=0.9, epsilon=1e-6)
    model = keras.Model(start, stages.convolution(stage, start))
    cells = np.random.default_rng(0).normal(size=(1, 4, 5, 3, 2)).astype(np.float32)
    made = model(cells).numpy()
    assert made.shape == (1, 4, 10, 6 - (padding == "valid"), 3)
    np.testing.assert_allclose(model(np.roll(cells, 1, 2)), np.roll(made, 2, 2), atol=1e-6)
