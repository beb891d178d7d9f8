from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cloudgan.validation.metrics.measures import (
    angle_measures,
    correlation_measures,
    diversity_measures,
)
from cloudgan.validation.observables.observables import observe


def ones(sample):
    return np.ones((1, len(sample)), np.float32)


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


def test_diversity_without_the_angle_depends_on_energy_only(measured):
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
