"""Initial weights are the same under every backend of Keras."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from cloudgan.gan.networks import InitializerOfTensorFlow, build_generator
from cloudgan.schema.presets import find_preset

pytestmark = pytest.mark.tf


@pytest.mark.parametrize("name", ["he_uniform", "glorot_uniform", "glorot_normal"])
@pytest.mark.parametrize("shape", [(7, 5), (3, 3, 4, 6, 5)])
def test_the_weights_of_a_seed_are_those_that_keras_draws_under_tensorflow(name, shape):
    theirs = keras.initializers.get({"class_name": name, "config": {"seed": 987_654_321}})
    ours = np.asarray(InitializerOfTensorFlow(theirs)(shape))
    np.testing.assert_allclose(ours, np.asarray(theirs(shape)), rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("preset", ["smoke", "mini", "paper"])
def test_each_initializer_of_a_preset_has_such_a_distribution(preset):
    network = build_generator(find_preset(preset))
    used = [getattr(layer, "kernel_initializer", None) for layer in network.layers]
    scaled = [each for each in used if isinstance(each, keras.initializers.VarianceScaling)]
    assert scaled
    assert {each.distribution for each in scaled} <= {"uniform", "truncated_normal"}
