from __future__ import annotations

import numpy as np
import pytest

from cloudgan.validation import ratios


def test_equal_profiles_have_no_error_and_a_scaled_one_its_scale():
    profile = np.random.default_rng(1).uniform(1, 2, (50, 12))
    assert ratios.profile_error(profile, profile) == 0
    assert ratios.profile_error(1.05 * profile, profile) == pytest.approx(0.05)


def test_a_profile_is_only_compared_where_the_reference_holds_a_hundredth():
    reference = np.array([[100.0, 100.0, 1.9]])
    generated = np.array([[110.0, 100.0, 999.0]])
    assert ratios.profile_error(generated, reference) == pytest.approx(0.05)


def test_the_slope_is_that_of_the_line():
    asked = np.linspace(1.0, 2.0, 30)
    wiggle = np.where(np.arange(30) % 2, 1e-6, -1e-6)
    assert ratios.slope(asked, -0.4 * asked + 3 + wiggle) == pytest.approx(-0.4, abs=1e-5)


def test_one_angle_has_no_slope():
    assert ratios.slope(np.full(9, 1.5), np.linspace(0, 1, 9)) is None


def test_what_has_no_denominator_is_unknown():
    assert ratios.over(1.0, 0.0) is None
    assert ratios.over(float("nan"), 1.0) is None
    assert ratios.of_means(np.array([]), np.array([1.0])) is None


def test_halves_share_no_shower_and_match_in_energy():
    energy = np.random.default_rng(3).uniform(10, 100, 301)
    first, second = ratios.halves(energy, seed=1)
    assert len(first) == len(second) == 150
    assert not set(first) & set(second)
    assert energy[first].mean() == pytest.approx(energy[second].mean(), rel=0.005)


def test_halves_are_a_function_of_the_seed():
    energy = np.random.default_rng(3).uniform(10, 100, 100)
    assert np.array_equal(ratios.halves(energy, 1)[0], ratios.halves(energy, 1)[0])
    assert not np.array_equal(ratios.halves(energy, 1)[0], ratios.halves(energy, 2)[0])


@pytest.mark.parametrize(
    ("energies", "edges"),
    [
        ([10.3, 99.2], (10, 40, 70, 100)),
        ([100, 200], (100, 100 + 100 / 3, 200 - 100 / 3, 200)),
        ([30, 60], (30, 40, 50, 60)),
        ([50, 50], (50, 50)),
    ],
)
def test_energy_edges_are_the_usual_ones_or_thirds_of_what_is_there(energies, edges):
    assert ratios.energy_edges(np.array(energies, float)) == pytest.approx(edges)


def test_every_energy_within_the_edges_falls_into_one_bin():
    energy = np.array([10.0, 39.9, 40.0, 70.0, 100.0, 101.0])
    inside = np.array(ratios.energy_bins(energy, (10.0, 40.0, 70.0, 100.0)))
    assert inside.sum(0).tolist() == [1, 1, 1, 1, 1, 0]
    assert inside.sum(1).tolist() == [2, 1, 2]
