from __future__ import annotations

import numpy as np
import pytest

from cloudgan.validation.covariances import Covariances, covariances
from cloudgan.validation.frechet import fpd, frechet, scaled

RANDOM = np.random.default_rng(8)


def ones(x, rows=1):
    return np.ones((rows, len(x)), np.float32)


def gaussian(mean, covariance):
    return Covariances(np.array([mean], float), np.array([covariance], float))


def test_a_gaussian_is_at_no_distance_from_itself():
    one = gaussian([1, 2], [[2, 0.5], [0.5, 1]])
    assert frechet(one, one)[0] == pytest.approx(0, abs=1e-12)


def test_a_shift_counts_by_its_square():
    covariance = [[2, 0.5], [0.5, 1]]
    assert frechet(gaussian([0, 0], covariance), gaussian([3, 4], covariance))[0] == pytest.approx(
        25
    )


def test_commuting_covariances_differ_by_their_widths():
    """tr(A + B - 2 (AB)^1/2) = sum (a - b)^2 of the standard deviations."""
    one, other = gaussian([0, 0], [[4, 0], [0, 9]]), gaussian([0, 0], [[1, 0], [0, 25]])
    assert frechet(one, other)[0] == pytest.approx((2 - 1) ** 2 + (3 - 5) ** 2)


def test_covariances_that_do_not_commute_agree_with_the_matrix_root():
    from scipy.linalg import sqrtm

    one, other = (np.cov(RANDOM.normal(size=(3, 9)) @ RANDOM.normal(size=(9, 9))) for _ in range(2))
    expected = np.trace(one + other - 2 * sqrtm(one @ other)).real
    assert frechet(gaussian([0] * 3, one), gaussian([0] * 3, other))[0] == pytest.approx(expected)


def test_two_samples_of_one_gaussian_are_at_zero_without_the_bias_of_their_size():
    found, plain = [], []
    for _ in range(12):
        x, y = RANDOM.normal(size=(300, 6)), RANDOM.normal(size=(300, 6))
        found.append(fpd(x, ones(x), y, ones(y), seed=1)[0])
        plain.append(frechet(covariances(x, ones(x)), covariances(y, ones(y)))[0])
    assert np.mean(plain) > 0.04
    assert abs(np.mean(found)) < 0.35 * np.mean(plain)


def test_two_gaussians_far_apart_have_the_closed_form():
    x = RANDOM.normal(size=(4000, 3))
    y = RANDOM.normal(size=(3000, 3)) * [1, 2, 1] + [0, 0, 1]
    assert fpd(x, ones(x), y, ones(y), seed=1)[0] == pytest.approx(1 + 1, abs=0.12)


def test_each_weighting_has_its_own_value():
    x, y = RANDOM.normal(size=(400, 2)), RANDOM.normal(size=(400, 2))
    weights = ones(x, 2)
    weights[1, x[:, 0] < 0] = 0
    found = fpd(x, weights, y, ones(y, 2), seed=1)
    assert found[1] > found[0] + 0.3


def test_features_are_scaled_by_the_largest_of_the_reference():
    reference = np.array([[1.0, -4.0], [2.0, 0.0]])
    assert scaled(np.array([[4.0, 1.0]]), reference).tolist() == [[2.0, 0.25]]
    assert scaled(np.array([[4.0]]), np.zeros((3, 1))).tolist() == [[4.0]]
