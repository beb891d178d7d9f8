"""Up-sampling and convolution on the coarse grid against one after the other."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import layers

from cloudgan.models.architectures import Block
from cloudgan.models.phase_convolution import PhaseConvolution

pytestmark = pytest.mark.tf


@pytest.mark.parametrize(
    ("upsample", "kernel"),
    [
        ((6, 6, 6), (6, 6, 8)),
        ((2, 2, 2), (3, 4, 5)),
        ((2, 2, 3), (3, 3, 8)),
        ((3, 1, 2), (1, 2, 1)),
    ],
)
def test_it_is_the_same_function_of_the_same_kernel(upsample, kernel):
    keras.config.set_dtype_policy("float32")
    grid = np.random.default_rng(0).normal(size=(2, 3, 4, 5, 2)).astype(np.float32)
    plain = layers.Conv3D(3, kernel, kernel_initializer="he_uniform")
    expected = plain(layers.UpSampling3D(upsample)(grid)).numpy()
    phases = PhaseConvolution(Block(3, kernel, upsample=upsample), "zeros")
    phases.build(grid.shape)
    phases.set_weights(plain.get_weights())
    found = phases(grid).numpy()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
