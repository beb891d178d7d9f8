"""Distances with known values: equal samples, shifted samples, two Gaussians."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from cloudgan.validation.metrics.distributions import (
    distribution_measures,
    histogram_edges,
    separation,
    shares,
    wasserstein_1,
)
from cloudgan.validation.observables.observables import join_observables

RANDOM = np.random.default_rng(5)


def ones(values, rows=1):
    return np.ones((rows, len(values)), np.float32)


def test_equal_samples_have_no_distance():
    x = RANDOM.normal(size=500)
    assert wasserstein_1(x, ones(x), x, ones(x)) == pytest.approx(0)
    histogram = shares(x, ones(x), histogram_edges(x, 500))
    assert separation(histogram, histogram) == 0


def test_a_shift_by_d_is_a_wasserstein_distance_of_d():
    x = RANDOM.normal(size=500)
    assert wasserstein_1(x + 0.37, ones(x), x, ones(x))[0] == pytest.approx(0.37)


def test_two_gaussians_of_one_mean_are_as_far_as_their_widths_say():
    """W1 of N(0, a) and N(0, b) is |a - b| sqrt(2/pi)."""
    x = RANDOM.normal(size=100_000)
    y = 1.5 * RANDOM.normal(size=100_000)
    assert wasserstein_1(x, ones(x), y, ones(y))[0] == pytest.approx(
        0.5 * np.sqrt(2 / np.pi), abs=0.01
    )


def test_wasserstein_agrees_with_scipy_with_weights():
    x, y = RANDOM.normal(size=80), RANDOM.normal(0.3, 2, size=120)
    weights = RANDOM.integers(0, 3, (4, 80)).astype(np.float32)
    others = RANDOM.integers(0, 3, (4, 120)).astype(np.float32)
    found = wasserstein_1(x, weights, y, others)
    expected = [
        stats.wasserstein_distance(x, y, a, b) for a, b in zip(weights, others, strict=True)
    ]
    assert found == pytest.approx(expected)


def test_histograms_without_a_common_bin_are_separated_by_one():
    assert separation(np.array([[0.5, 0.5, 0, 0]]), np.array([[0, 0, 0.2, 0.8]])) == 1


def test_the_separation_of_two_gaussians_is_the_integral():
    x, y = RANDOM.normal(size=200_000), RANDOM.normal(1.0, size=200_000)
    edges = np.linspace(-5, 6, 200)
    found = separation(shares(x, ones(x), edges), shares(y, ones(y), edges))[0]

    def part(t):
        f, g = stats.norm.pdf(t), stats.norm.pdf(t, 1.0)
        return (f - g) ** 2 / (f + g) / 2

    assert found == pytest.approx(integrate.quad(part, -8, 9)[0], abs=0.003)


def test_an_integer_weight_equals_repeated_showers():
    x = RANDOM.normal(size=50)
    twice = np.concatenate([x, x[:10]])
    weight = ones(x)
    weight[0, :10] = 2
    edges = histogram_edges(x, 50)
    assert shares(x, weight, edges) == pytest.approx(shares(twice, ones(twice), edges))


def test_outer_bins_hold_underflow_and_overflow():
    edges = np.array([0.0, 1.0, 2.0])
    assert shares(
        np.array([-9.0, 0.5, 1.5, 99.0]), np.ones((1, 4), np.float32), edges
    ).tolist() == [[0.5, 0.5]]


def test_layers_have_a_bin_each_and_a_constant_has_one_too():
    whole = histogram_edges(np.array([3.0, 4.0, 6.0] * 50), 150, integers=True)
    assert whole.tolist() == [2.5, 3.5, 4.5, 5.5, 6.5]
    constant = histogram_edges(np.full(100, 7.0), 100)
    assert constant[0] < 7 < constant[-1]


def test_bins_grow_with_the_number_of_showers():
    x = RANDOM.normal(size=3000)
    assert len(histogram_edges(x, 300)) < len(histogram_edges(x, 3000))


def test_the_median_is_over_all_histograms_and_the_distances_in_standard_deviations(measured):
    moved = join_observables([measured])
    object.__setattr__(moved, "largest_gev", measured.largest_gev + 2 * measured.largest_gev.std())
    pair = measured, ones(measured.energy_gev)
    found = distribution_measures((moved, pair[1]), pair)
    assert found["wasserstein", "largest cell"] == pytest.approx(2)
    assert found["separation", "largest cell"] > 0.5
    assert found["separation_median", ""] == found["wasserstein_median", ""] == 0
