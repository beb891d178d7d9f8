"""Measures: equal samples, shifted samples, known values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from cloudgan.data.showers import Showers
from cloudgan.validation.measures import (
    angle_measures,
    authors_metric,
    correlation_measures,
    distribution_measures,
    diversity_measures,
    histogram_edges,
    separation,
    shares,
    wasserstein_1,
)
from cloudgan.validation.observables import join_observables, observe
from cloudgan.validation.overlap import Bins, binned_sums


def ones(sample, rows=1):
    return np.ones((rows, len(sample)), np.float32)


def angle(generated, reference):
    found = angle_measures((generated, ones(generated)), (reference, ones(reference)))
    return {name: float(rows[0]) for (name, _), rows in found.items()}


def diversity(generated, reference, angle_known=True):
    pairs = (generated, ones(generated)), (reference, ones(reference))
    return float(diversity_measures(*pairs, angle_known=angle_known)["diversity", ""][0])


def test_a_line_has_its_slope_its_offset_and_its_spread(measured):
    requested = measured.requested_rad
    wiggle = np.where(np.arange(600) % 2, 0.02, -0.02)
    true = replace(measured, angle_rad=0.9 * requested + wiggle)
    other = replace(
        measured, angle_rad=0.6 * (requested - requested.mean()) + requested.mean() + 3 * wiggle
    )
    found = angle(other, true)
    assert found["angle_slope"] == pytest.approx(0.6 / 0.9, abs=0.01)
    assert found["angle_spread"] == pytest.approx(3, abs=0.01)
    assert found["angle_offset"] == pytest.approx(np.rad2deg(0.1 * requested.mean()), abs=0.1)


def test_other_requested_angles_are_no_offset(measured):
    true = replace(measured, angle_rad=0.9 * measured.requested_rad + 0.1)
    steep = true[true.requested_rad < 1.5]
    assert angle(steep, true)["angle_offset"] == pytest.approx(0, abs=1e-6)


def test_one_requested_angle_has_no_slope_and_its_offset_is_that_of_the_means(measured):
    one = replace(measured, requested_rad=np.full(600, 1.5))
    found = angle(replace(one, angle_rad=one.angle_rad + 0.1), one)
    assert np.isnan(found["angle_slope"])
    assert found["angle_offset"] == pytest.approx(np.rad2deg(0.1))
    assert found["angle_spread"] == pytest.approx(1)


def test_empty_showers_point_nowhere_and_have_no_shape(reference, measured):
    ecal = reference.ecal_gev.copy()
    ecal[::4] = 0
    some = observe(replace(reference, ecal_gev=ecal))
    assert angle(some, measured)["angle_slope"] == pytest.approx(1, abs=0.03)
    assert diversity(some, measured) == pytest.approx(1, abs=0.1)


def mean_shower_of_its_energy(reference):
    ecal = reference.ecal_gev.copy()
    number = np.digitize(reference.energy_gev, np.linspace(10, 100, 13))
    for bin_ in np.unique(number):
        rows = number == bin_
        mean = ecal[rows].mean(0) / reference.energy_gev[rows].mean()
        ecal[rows] = mean * reference.energy_gev[rows][:, None, None, None]
    return replace(reference, ecal_gev=ecal)


def test_showers_that_differ_by_their_energy_alone_are_not_diverse(reference, measured):
    same = observe(mean_shower_of_its_energy(reference))
    assert same.moments("z")[0].std() > 0.4 * measured.moments("z")[0].std()
    assert diversity(same, measured) < 0.2


def test_diversity_is_one_for_the_same_and_unknown_where_the_reference_has_none(measured):
    assert diversity(measured, measured) == pytest.approx(1)
    one = measured[np.zeros(300, int)]
    assert np.isnan(diversity(measured, one))
    assert diversity(one, measured) == pytest.approx(0, abs=1e-6)
    assert diversity(measured, measured, angle_known=False) == pytest.approx(1)


def test_features_that_are_right_alone_and_wrong_together_are_detected(measured):
    order = np.random.default_rng(3).permutation(600)
    shuffled = replace(measured, largest_gev=measured.largest_gev[order])
    pairs = (shuffled, ones(shuffled)), (measured, ones(measured))
    found = correlation_measures(*pairs)
    before = abs(np.corrcoef(measured.largest_gev, measured.energy_gev)[0, 1])
    assert found["correlation", "features, largest"][0] > 0.8 * before
    assert 0 < found["correlation", "features, rms"][0] < 0.5
    assert found["correlation", "layers, largest"][0] == 0


BINS = Bins((10.0, 40.0, 70.0, 100.0), (60.0, 90.0, 120.0))


def metric(generated, reference, bins=BINS):
    both = (binned_sums(sample, ones(sample), bins) for sample in (generated, reference))
    return {name: float(rows[0]) for (name, _), rows in authors_metric(*both).items()}


def test_equal_samples_give_zero_and_the_sum_is_that_of_its_parts(measured, reference, remade):
    assert metric(measured, measured) == pytest.approx(
        dict.fromkeys(("metric", "metric_moments", "metric_profiles", "metric_angle"), 0.0)
    )
    found = metric(observe(remade(lambda cells: np.roll(cells, 1, axis=3))), measured)
    assert found["metric"] == pytest.approx(
        found["metric_moments"] + found["metric_profiles"] + found["metric_angle"]
    )


def test_more_energy_moves_the_profiles_by_as_much_and_nothing_else(measured, remade):
    found = metric(observe(remade(lambda cells: 1.05 * cells)), measured)
    assert found["metric_profiles"] == pytest.approx(0.05, abs=1e-4)
    assert found["metric_moments"] == pytest.approx(0, abs=1e-3)


def test_moments_count_by_their_relative_error(measured):
    """A shift by one layer: M1 z from 10 to 11, everything else equal."""
    ecal = np.zeros((20, 5, 5, 25), np.float32)
    ecal[:, 2, 2, 10] = 1.0
    ecal[:, 2, 3, 10] = 0.5
    moved = np.roll(ecal, 1, axis=3)
    energy, theta = np.full(20, 50, np.float32), np.full(20, 1.5, np.float32)
    before, after = (observe(Showers(cells, energy, theta, theta)) for cells in (ecal, moved))
    found = metric(after, before, Bins((50.0, 50.0)))
    # Second moments that are 0 in both (x and z) have no relative error, so the mean is unknown.
    assert np.isnan(found["metric_moments"])
    wide = np.zeros_like(ecal)
    wide[:, 1:4, 1:4, 9:12] = 1.0
    before, after = (
        observe(Showers(cells, energy, theta, theta)) for cells in (wide, np.roll(wide, 1, axis=3))
    )
    assert metric(after, before, Bins((50.0, 50.0)))["metric_moments"] == pytest.approx(0.1 / 6)


def test_an_empty_bin_of_the_edge_does_not_make_it_infinite(reference, measured):
    ecal = reference.ecal_gev.copy()
    ecal[:, 0] = 0
    empty = observe(replace(reference, ecal_gev=ecal))
    assert metric(measured, empty)["metric_profiles"] < 0.02


def test_angles_are_compared_per_bin_of_the_requested_one(measured):
    """Mirrored showers have the same mean angle, 90 degrees, over all of them."""
    mirrored = replace(measured, angle_rad=np.pi - measured.angle_rad)
    assert metric(mirrored, measured)["metric_angle"] > 0.1
    assert metric(mirrored, measured, Bins(BINS.energy_gev))["metric_angle"] < 0.02


def test_bootstraps_change_neither_the_value_nor_the_bins_that_it_counts(
    measured, reference, remade
):
    """A bin with five showers counts, though a bootstrap draws none of them."""
    generated = observe(remade(lambda cells: np.roll(cells, 1, axis=3)))
    first = np.flatnonzero(measured.energy_gev < 40)
    kept = np.r_[first[:5], np.flatnonzero(measured.energy_gev >= 40)]
    samples = generated[kept], measured[kept]
    weights = np.ones((2, len(kept)), np.float32)
    weights[1, :5] = 0
    both = (binned_sums(sample, weights, BINS) for sample in samples)
    for (name, _), rows in authors_metric(*both).items():
        assert rows[0] == pytest.approx(metric(*samples)[name], rel=1e-12)


def test_without_enough_showers_in_any_bin_it_is_unknown(measured):
    assert np.isnan(metric(measured[:4], measured)["metric"])


RANDOM = np.random.default_rng(5)


@pytest.mark.parametrize(
    ("count", "change", "distance"),
    [
        (500, lambda x: x, pytest.approx(0)),
        (500, lambda x: x + 0.37, pytest.approx(0.37)),
        # W1 of N(0, a) and N(0, b) is |a - b| sqrt(2/pi).
        (200_000, lambda x: 1.5 * x[::-1], pytest.approx(0.5 * np.sqrt(2 / np.pi), abs=0.01)),
    ],
)
def test_the_wasserstein_distance_is_that_of_the_definition(count, change, distance):
    x = RANDOM.normal(size=count)
    assert wasserstein_1(change(x), ones(x), x, ones(x))[0] == distance


def test_wasserstein_agrees_with_scipy_with_weights():
    x, y = RANDOM.normal(size=80), RANDOM.normal(0.3, 2, size=120)
    weights = RANDOM.integers(0, 3, (4, 80)).astype(np.float32)
    others = RANDOM.integers(0, 3, (4, 120)).astype(np.float32)
    found = wasserstein_1(x, weights, y, others)
    expected = [
        stats.wasserstein_distance(x, y, a, b) for a, b in zip(weights, others, strict=True)
    ]
    assert found == pytest.approx(expected)


def test_histograms_without_a_common_bin_are_separated_by_one_and_equal_ones_by_nothing():
    one = np.array([[0.5, 0.5, 0, 0]])
    assert (separation(one, np.array([[0, 0, 0.2, 0.8]])), separation(one, one)) == (1, 0)


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
