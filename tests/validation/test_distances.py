"""FPD, KPD, the covariances that they use, and the classifier."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from cloudgan.validation import distances
from cloudgan.validation.distances import (
    Covariances,
    covariances,
    fpd,
    frechet,
    kpd,
    scaled,
    two_sample_test,
)

RANDOM = np.random.default_rng(6)


def test_weighted_means_and_covariances_are_those_of_numpy(monkeypatch):
    monkeypatch.setattr(distances, "_CHUNK", 64)  # several chunks, the last one short
    x = RANDOM.normal(1000.0, 1.0, (150, 4)) @ RANDOM.normal(size=(4, 4))
    weights = RANDOM.integers(0, 4, (3, 150)).astype(np.float32)
    found = covariances(x, weights)
    for row, weight in enumerate(weights):
        assert found.mean[row] == pytest.approx(np.average(x, axis=0, weights=weight))
        expected = np.cov(x, rowvar=False, aweights=weight, bias=True)
        assert found.covariance[row] == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_correlations_are_those_of_numpy_and_zero_for_a_constant():
    x = RANDOM.normal(size=(200, 3)) @ RANDOM.normal(size=(3, 3))
    found = covariances(x, np.ones((1, 200), np.float32)).correlation()[0]
    assert found == pytest.approx(np.corrcoef(x, rowvar=False))
    x[:, 1] = 7.0
    found = covariances(x, np.ones((1, 200), np.float32)).correlation()[0]
    assert found[1].tolist() == [0, 0, 0]


def test_residual_variance_is_that_about_the_fitted_line():
    x = RANDOM.normal(size=500)
    y = 3 * x + 1 + 0.2 * RANDOM.normal(size=500)
    found = covariances(np.stack([x, y], axis=1), np.ones((1, 500), np.float32))
    fit = np.polyfit(x, y, 1)
    assert found.residual_variance(1)[0, 0] == pytest.approx(np.var(y - np.polyval(fit, x)))


def test_a_constant_condition_has_no_effect():
    y = RANDOM.normal(size=300)
    found = covariances(np.stack([np.ones(300), y], axis=1), np.ones((1, 300), np.float32))
    assert found.residual_variance(1)[0, 0] == pytest.approx(y.var())


def ones(x, rows=1):
    return np.ones((rows, len(x)), np.float32)


def gaussian(mean, covariance):
    return Covariances(np.array([mean], float), np.array([covariance], float))


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        (([1, 2], [[2, 0.5], [0.5, 1]]), ([1, 2], [[2, 0.5], [0.5, 1]]), 0),
        (([0, 0], [[2, 0.5], [0.5, 1]]), ([3, 4], [[2, 0.5], [0.5, 1]]), 25),
        # tr(A + B - 2 (AB)^1/2) = sum (a - b)^2 of the standard deviations
        (([0, 0], [[4, 0], [0, 9]]), ([0, 0], [[1, 0], [0, 25]]), (2 - 1) ** 2 + (3 - 5) ** 2),
    ],
)
def test_two_gaussians_differ_by_their_means_and_widths(one, other, distance):
    assert frechet(gaussian(*one), gaussian(*other))[0] == pytest.approx(distance, abs=1e-12)


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


def test_each_weight_vector_has_its_own_value():
    x, y = RANDOM.normal(size=(400, 2)), RANDOM.normal(size=(400, 2))
    weights = ones(x, 2)
    weights[1, x[:, 0] < 0] = 0
    found = fpd(x, weights, y, ones(y, 2), seed=1)
    assert found[1] > found[0] + 0.3


def test_features_are_scaled_by_the_largest_of_the_reference():
    reference = np.array([[1.0, -4.0], [2.0, 0.0]])
    assert scaled(np.array([[4.0, 1.0]]), reference).tolist() == [[2.0, 0.25]]
    assert scaled(np.array([[4.0]]), np.zeros((3, 1))).tolist() == [[4.0]]


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
    x, y = RANDOM.normal(size=(23, 3)), RANDOM.normal(0.4, 1, size=(31, 3))
    assert kpd(x, y, seed=0)[0] == pytest.approx(by_hand(x, y))


def test_two_samples_of_one_source_scatter_around_zero_by_the_error():
    found = [
        kpd(RANDOM.normal(size=(150, 3)), RANDOM.normal(size=(150, 3)), seed=0) for _ in range(60)
    ]
    values, errors = np.array(found).T
    assert abs(values.mean()) < 3 * values.std() / np.sqrt(60)
    assert np.median(errors) == pytest.approx(values.std(), rel=0.4)


def test_samples_that_differ_are_beyond_their_error():
    x, y = RANDOM.normal(0, 0.3, (300, 3)), RANDOM.normal(0.3, 0.3, (300, 3))
    value, error = kpd(x, y, seed=0)
    assert value > 4 * error > 0


def test_sampling_respects_the_maximum(monkeypatch):
    monkeypatch.setattr(distances, "KPD_SHOWERS", 40)
    x = RANDOM.normal(size=(400, 2))
    looked_at = []
    monkeypatch.setattr(
        distances,
        "_sums",
        lambda a, b: looked_at.append((len(a), len(b))) or np.ones((10, 10)),
    )
    kpd(x, x + 1, seed=0)
    assert set(looked_at) == {(40, 40)}


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch):
    monkeypatch.setattr(distances, "TREES", 30)


def gaussians(shift, count=1500, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(count, 1)), random.normal(shift, size=(count, 1))


def test_one_source_is_indistinguishable():
    result = two_sample_test(*gaussians(0.0), seed=0)
    assert result.auc == pytest.approx(0.5, abs=3 * result.auc_error)
    assert result.jsd == pytest.approx(0, abs=0.03)


def divergence(mean, width):
    """Jensen-Shannon divergence of N(0, 1) and another Gaussian, bits."""

    def part(t):
        f, g = stats.norm.pdf(t), stats.norm.pdf(t, mean, width)
        return (f * np.log2(2 * f / (f + g)) + g * np.log2(2 * g / (f + g))) / 2

    return integrate.quad(part, -9 * width, 9 * width + mean)[0]


@pytest.mark.parametrize("shift", [0.5, 1.0, 2.0])
def test_two_gaussians_reach_the_optimal_auc(shift):
    """AUC = Phi(d / sqrt 2), and the divergence is its integral: the classifier's is a bound."""
    result = two_sample_test(*gaussians(shift), seed=0)
    assert result.auc == pytest.approx(stats.norm.cdf(shift / np.sqrt(2)), abs=0.025)
    assert result.jsd == pytest.approx(divergence(shift, 1), abs=0.04)


def test_classes_of_other_sizes_weigh_the_same():
    ours, theirs = gaussians(1.0, 4000)
    result = two_sample_test(ours[:1000], theirs, seed=0)
    assert result.auc == pytest.approx(0.76, abs=0.04)
    assert result.jsd == pytest.approx(0.16, abs=0.03)


def test_the_divergence_is_the_mean_of_both_classes_for_any_sizes():
    """A narrow and a wide Gaussian: the divergence is not symmetric."""
    random = np.random.default_rng(3)
    narrow, wide = random.normal(size=(1000, 1)), random.normal(0, 4, size=(4000, 1))
    assert two_sample_test(narrow, wide, seed=0).jsd == pytest.approx(divergence(0, 4), abs=0.03)


def test_no_shower_is_scored_by_a_model_trained_on_it():
    """Random labels: a model trained on them would memorise them."""
    random = np.random.default_rng(1)
    x = random.normal(size=(600, 20))
    result = two_sample_test(x[:300], x[300:], seed=0)
    assert result.auc < 0.57
    assert result.jsd < 0.02  # a calibration that had seen them would find a pattern as well


def test_the_error_is_the_scatter_of_repeated_samples():
    result = [two_sample_test(*gaussians(0.7, 250, seed), seed=0) for seed in range(8)]
    scatter = np.std([one.auc for one in result], ddof=1)
    assert np.mean([one.auc_error for one in result]) == pytest.approx(scatter, rel=0.6)


def test_a_classifier_sees_at_most_the_maximum(monkeypatch):
    monkeypatch.setattr(distances, "CLASSIFIER_SHOWERS", 100)
    seen = []
    monkeypatch.setattr(
        distances, "_scores", lambda x, *_: seen.append(len(x)) or np.arange(len(x), dtype=float)
    )
    two_sample_test(*gaussians(1.0, 400), seed=0)
    assert seen == [200]
