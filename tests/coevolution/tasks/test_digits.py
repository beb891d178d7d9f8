from __future__ import annotations

import math

import numpy as np
import pytest

from cloudgan.coevolution.tasks.digit_images import scaled
from cloudgan.coevolution.tasks.digits import Digits
from cloudgan.schema.coevolution import CoevolutionConfig


@pytest.fixture(scope="module")
def digits():
    return Digits(CoevolutionConfig(task="digits"))


def test_pictures_are_sixteen_images_from_black_to_white(digits):
    samples = np.full((20, 64), -1, np.float32)
    samples[1, 8] = 1
    samples[2, 0] = math.nan
    samples[3] = 3
    found = digits.pictures(samples)
    assert found.shape == (16, 8, 8)
    assert found[1, 1, 0] == 1
    assert found[1].sum() == 1
    assert not found[2].any()
    assert (found[3] == 1).all()
    assert digits.pictures(samples[:3]).shape == (3, 8, 8)


@pytest.mark.tf
def test_held_out_digits_are_better_than_five_classes_and_those_than_noise(
    digits, with_classifier, small_digits
):
    random = np.random.default_rng(1)
    training = small_digits.training
    samples = scaled(training.images.astype(np.float32))
    few = samples[training.labels < 5]
    noise = random.uniform(-1, 1, (1000, 64)).astype(np.float32)
    all_classes, five, none = (
        digits.quality(digits.measure(each)) for each in (samples, few, noise)
    )
    assert all_classes.score < five.score / 10
    assert five.score < none.score / 2
    assert all_classes.details["total_variation"] < 0.05
    assert five.details["total_variation"] == pytest.approx(0.5, abs=0.05)
    assert all_classes.details["classes_covered"] == 10
    assert five.details["classes_covered"] == 5


@pytest.mark.tf
def test_samples_that_are_not_finite_have_the_worst_quality(digits, with_classifier):
    samples = np.zeros((10, 64), np.float32)
    samples[3, 1] = math.nan
    found = digits.quality(digits.measure(samples))
    assert found.score == math.inf
    assert found.details == {"total_variation": 1, "classes_covered": 0}
