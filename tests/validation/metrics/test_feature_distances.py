"""FPD, KPD and the covariances that they use."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.validation.metrics import feature_distances
from cloudgan.validation.metrics.feature_distances import (
    Covariances,
    covariances,
    fpd,
    frechet,
    kpd,
    scaled,
)

COVARIANCE_RNG = np.random.default_rng(6)


def test_weighted_means_and_covariances_are_those_of_numpy(monkeypatch):
    monkeypatch.setattr(feature_distances, "_CHUNK", 64)  # several chunks, the last one short
    x = COVARIANCE_RNG.normal(1000.0, 1.0, (150, 4)) @ COVARIANCE_RNG.normal(size=(4, 4))
    weights = COVARIANCE_RNG.integers(0, 4, (3, 150)).astype(np.float32)
    found = covariances(x, weights)
    for row, weight in enumerate(weights):
        assert found.mean[row] == pytest.approx(np.average(x, axis=0, weights=weight))
        expected = np.cov(x, rowvar=False, aweights=weight, bias=True)
        assert found.covariance[row] == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_correlations_are_those_of_numpy_and_zero_for_a_constant():
    x = COVARIANCE_RNG.normal(size=(200, 3)) @ COVARIANCE_RNG.normal(size=(3, 3))
    found = covariances(x, np.ones((1, 200), np.float32)).correlation()[0]
    assert found == pytest.approx(np.corrcoef(x, rowvar=False))
    x[:, 1] = 7.0
    found = covariances(x, np.ones((1, 200), np.float32)).correlation()[0]
    assert found[1].tolist() == [0, 0, 0]


def test_residual_variance_is_that_about_the_fitted_line():
    x = COVARIANCE_RNG.normal(size=500)
    y = 3 * x + 1 + 0.2 * COVARIANCE_RNG.normal(size=500)
    found = covariances(np.stack([x, y], axis=1), np.ones((1, 500), np.float32))
    fit = np.polyfit(x, y, 1)
    assert found.residual_variance(1)[0, 0] == pytest.approx(np.var(y - np.polyval(fit, x)))


def test_a_constant_condition_has_no_effect():
    y = COVARIANCE_RNG.normal(size=300)
    found = covariances(np.stack([np.ones(300), y], axis=1), np.ones((1, 300), np.float32))
    assert found.residual_variance(1)[0, 0] == pytest.approx(y.var())


FRECHET_RNG = np.random.default_rng(8)


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

    one, other = (
        np.cov(FRECHET_RNG.normal(size=(3, 9)) @ FRECHET_RNG.normal(size=(9, 9))) for _ in range(2)
    )
    expected = np.trace(one + other - 2 * sqrtm(one @ other)).real
    assert frechet(gaussian([0] * 3, one), gaussian([0] * 3, other))[0] == pytest.approx(expected)


def test_two_samples_of_one_gaussian_are_at_zero_without_the_bias_of_their_size():
    found, plain = [], []
    for _ in range(12):
        x, y = FRECHET_RNG.normal(size=(300, 6)), FRECHET_RNG.normal(size=(300, 6))
        found.append(fpd(x, ones(x), y, ones(y), seed=1)[0])
        plain.append(frechet(covariances(x, ones(x)), covariances(y, ones(y)))[0])
    assert np.mean(plain) > 0.04
    assert abs(np.mean(found)) < 0.35 * np.mean(plain)


def test_two_gaussians_far_apart_have_the_closed_form():
    x = FRECHET_RNG.normal(size=(4000, 3))
    y = FRECHET_RNG.normal(size=(3000, 3)) * [1, 2, 1] + [0, 0, 1]
    assert fpd(x, ones(x), y, ones(y), seed=1)[0] == pytest.approx(1 + 1, abs=0.12)


def test_each_weight_vector_has_its_own_value():
    x, y = FRECHET_RNG.normal(size=(400, 2)), FRECHET_RNG.normal(size=(400, 2))
    weights = ones(x, 2)
    weights[1, x[:, 0] < 0] = 0
    found = fpd(x, weights, y, ones(y, 2), seed=1)
    assert found[1] > found[0] + 0.3


def test_features_are_scaled_by_the_largest_of_the_reference():
    reference = np.array([[1.0, -4.0], [2.0, 0.0]])
    assert scaled(np.array([[4.0, 1.0]]), reference).tolist() == [[2.0, 0.25]]
    assert scaled(np.array([[4.0]]), np.zeros((3, 1))).tolist() == [[4.0]]


KERNEL_RNG = np.random.default_rng(4)


def by_hand(x, y):
    """The definition, shower by shower."""
    d = x.shape[1]

    def k(a, b):
        return (a @ b / d + 1) ** 4

    def mean(rows, columns, skip):
        values = [
            k(a, b)
            for i, a in enumerate(rows)
            for j, b in enumerate(columns)
            if not (skip and i == j)
        ]
        return np.mean(values)

    return mean(x, x, True) + mean(y, y, True) - 2 * mean(x, y, False)


def test_kpd_agrees_with_its_definition():
    x, y = KERNEL_RNG.normal(size=(23, 3)), KERNEL_RNG.normal(0.4, 1, size=(31, 3))
    assert kpd(x, y, seed=0).value == pytest.approx(by_hand(x, y))


def test_two_samples_of_one_source_scatter_around_zero_by_the_error():
    found = [
        kpd(KERNEL_RNG.normal(size=(150, 3)), KERNEL_RNG.normal(size=(150, 3)), seed=0)
        for _ in range(60)
    ]
    values, errors = np.array(found).T
    assert abs(values.mean()) < 3 * values.std() / np.sqrt(60)
    assert np.median(errors) == pytest.approx(values.std(), rel=0.4)


def test_samples_that_differ_are_beyond_their_error():
    x, y = KERNEL_RNG.normal(0, 0.3, (300, 3)), KERNEL_RNG.normal(0.3, 0.3, (300, 3))
    value, error = kpd(x, y, seed=0)
    assert value > 4 * error > 0


def test_sampling_respects_the_maximum(monkeypatch):
    monkeypatch.setattr(feature_distances, "MAX_SHOWERS", 40)
    x = KERNEL_RNG.normal(size=(400, 2))
    looked_at = []
    monkeypatch.setattr(
        feature_distances,
        "_sums",
        lambda a, b: looked_at.append((len(a), len(b))) or np.ones((10, 10)),
    )
    kpd(x, x + 1, seed=0)
    assert set(looked_at) == {(40, 40)}
