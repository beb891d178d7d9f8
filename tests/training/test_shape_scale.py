"""The unit of the shape loss: what is left of a feature's spread at given energy and angle."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.core.presets import PRESETS
from cloudgan.data.image_view import ImageView
from cloudgan.data.training_set import TrainingSet
from cloudgan.models.shower_shape import shape_weights
from cloudgan.training.shape_scale import scale_of_training_set, shape_scale

pytestmark = pytest.mark.tf
SMOKE = PRESETS["smoke"].model_copy(update={"shape_weight": 1.0})


@pytest.fixture(scope="module")
def showers(shards):
    return TrainingSet.open(shards, ImageView(SMOKE.image_shape), cache="none")


def test_a_preset_without_the_loss_needs_no_scale(showers):
    assert scale_of_training_set(PRESETS["smoke"], showers) is None


def test_every_feature_has_a_positive_scale_and_constant_ones_a_small_one(showers):
    scale = scale_of_training_set(SMOKE, showers)
    assert scale.shape == shape_weights(SMOKE).shape
    assert (scale > 0).all()
    assert scale.min() == pytest.approx(1e-3 * np.median(scale), rel=0.01), "rings beyond the image"


def test_what_energy_and_angle_explain_is_no_spread(showers):
    batch = showers.train_rows(np.arange(64))
    layer = np.zeros((64, *SMOKE.image_shape), np.float32)
    layer[:, 4, 4, 10] = (0.3 * batch.energy[:, 0] * 50) ** SMOKE.image_power
    explained = shape_scale(SMOKE, batch._replace(image=layer))
    assert explained[10] < 0.02 * shape_scale(SMOKE, batch)[10]
