from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cloudgan.validation.metrics.authors_metric import authors_metric
from cloudgan.validation.observables.bins import Bins, binned_sums
from cloudgan.validation.observables.observables import observe

BINS = Bins((10.0, 40.0, 70.0, 100.0), (60.0, 90.0, 120.0))


def metric(generated, reference, bins=BINS):
    both = (
        binned_sums(sample, np.ones((1, len(sample)), np.float32), bins)
        for sample in (generated, reference)
    )
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
    from cloudgan.data.showers import Showers

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
