import math

import numpy as np
import pytest

from cloudgan.coevolution.tasks.digit_quality import (
    Gaussian,
    Reference,
    class_shares,
    classes_covered,
    frechet_distance,
    total_variation,
)


def rotation(angle):
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def test_the_distance_of_gaussians_with_common_axes_is_the_closed_form():
    turned = rotation(0.7)
    a = Gaussian(np.array([1.0, -2.0]), turned @ np.diag([4.0, 9.0]) @ turned.T)
    b = Gaussian(np.array([4.0, 2.0]), turned @ np.diag([1.0, 25.0]) @ turned.T)
    # |m - n|^2 + sum (s - t)^2 over the standard deviations along the axes.
    assert frechet_distance(a, b) == pytest.approx(25 + (2 - 1) ** 2 + (3 - 5) ** 2)
    assert frechet_distance(b, a) == pytest.approx(30)
    assert frechet_distance(a, a) == pytest.approx(0, abs=1e-9)


def test_the_distance_of_gaussians_with_other_axes_is_that_of_two_dimensions():
    a = Gaussian(np.zeros(2), np.array([[2.0, 0.6], [0.6, 1.0]]))
    b = Gaussian(np.zeros(2), np.array([[1.0, -0.8], [-0.8, 3.0]]))
    # tr sqrt(M) = sqrt(tr M + 2 sqrt(det M)) for M = A B of two rows.
    product = a.covariance @ b.covariance
    trace = math.sqrt(np.trace(product) + 2 * math.sqrt(np.linalg.det(product)))
    assert frechet_distance(a, b) == pytest.approx(3 + 4 - 2 * trace)


def test_mean_and_covariance_are_those_of_numpy():
    features = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    found = Gaussian.of(features)
    np.testing.assert_allclose(found.mean, features.mean(0, dtype=float))
    np.testing.assert_allclose(found.covariance, np.cov(features.astype(float), rowvar=False))
    assert not Gaussian.of(features[:1]).covariance.any()


def test_total_variation_and_coverage_of_hand_made_classes():
    even = np.full(10, 0.1)
    half = np.array([0.2] * 5 + [0.0] * 5)
    assert total_variation(even, half) == pytest.approx(0.5)
    assert total_variation(even, even) == 0
    one = np.eye(10)[3]
    assert total_variation(even, one) == pytest.approx(0.9)
    assert total_variation(one, np.eye(10)[4]) == 1
    assert (classes_covered(even), classes_covered(half), classes_covered(one)) == (10, 5, 1)


def test_a_class_with_one_percent_of_the_samples_is_not_covered():
    assert classes_covered(np.array([0.98, 0.01, 0.01])) == 1
    assert classes_covered(np.array([0.97, 0.02, 0.01])) == 2


def test_a_sample_belongs_to_its_most_probable_class():
    probabilities = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.4, 0.3, 0.3], [0.0, 0.1, 0.9]])
    assert class_shares(probabilities).tolist() == [0.5, 0.0, 0.5]


def test_held_out_digits_themselves_have_the_best_quality():
    features = np.random.default_rng(1).normal(size=(200, 4))
    probabilities = np.eye(10)[np.arange(200) % 10]
    found = Reference(features, probabilities).quality(features, probabilities)
    assert found.score == pytest.approx(0, abs=1e-9)
    assert found.details == {"total_variation": 0, "classes_covered": 10}
