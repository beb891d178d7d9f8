from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cloudgan.core.errors import DataError
from cloudgan.data.showers import Showers, measured_angle
from cloudgan.validation.observables import SPECTRUM_EDGES_GEV, observe


def showers_of(ecal):
    ecal = np.asarray(ecal, np.float32)
    full = np.full(len(ecal), 10, np.float32)
    return Showers(ecal, full, None, measured_angle(ecal))


def one(cells):
    """One shower of 21 x 21 x 5 cells: {(x, y, z): GeV}."""
    ecal = np.zeros((1, 21, 21, 5), np.float32)
    for place, energy in cells.items():
        ecal[(0, *place)] = energy
    return observe(showers_of(ecal))


def test_sum_and_response_are_those_of_the_cells():
    seen = one({(10, 10, 2): 0.15, (10, 11, 3): 0.05})
    assert seen.sum_gev[0] == pytest.approx(0.2)
    assert seen.response[0] == pytest.approx(0.02)


def test_cells_below_two_kev_are_noise():
    seen = one({(10, 10, 2): 0.1, (0, 0, 0): 1.9e-6})
    assert seen.sum_gev[0] == pytest.approx(0.1, abs=1e-8)
    assert seen.tail_gev[0] == 0
    assert seen.spectrum.sum() == 1


def test_profiles_keep_their_axes():
    seen = one({(3, 10, 2): 0.1, (10, 4, 1): 0.2})
    assert seen.profile_x_gev[0, 3] == pytest.approx(0.1)
    assert seen.profile_y_gev[0, 4] == pytest.approx(0.2)
    assert seen.profile_z_gev[0].tolist() == pytest.approx([0, 0.2, 0.1, 0, 0])


def test_a_hit_is_a_cell_above_a_third_of_an_mev():
    assert one({(10, 10, 2): 3.1e-4, (10, 10, 3): 2.9e-4, (1, 1, 1): 1.0}).hits[0] == 2


def test_the_lateral_rms_is_in_millimetres_and_per_axis():
    seen = one({(8, 10, 2): 0.1, (12, 10, 2): 0.1})
    assert seen.rms_x_mm[0] == pytest.approx(2 * 5.1)
    assert seen.rms_y_mm[0] == 0


def test_the_tails_begin_five_columns_from_the_middle():
    inside = one({(6, 14, 2): 0.1, (14, 6, 2): 0.1})
    outside = one({(5, 10, 2): 0.1, (10, 15, 2): 0.3, (10, 10, 2): 1.0})
    assert inside.tail_gev[0] == 0
    assert outside.tail_gev[0] == pytest.approx(0.4)


def test_the_last_layer_is_a_share():
    assert one({(10, 10, 4): 0.1, (10, 10, 0): 0.3}).last_layer_share[0] == pytest.approx(0.25)


def test_the_spectrum_counts_each_cell_in_its_bin():
    seen = one({(10, 10, 2): 1e-3, (10, 10, 3): 1.01e-3, (10, 10, 4): 0.5})
    counts, _ = np.histogram([1e-3, 1.01e-3, 0.5], SPECTRUM_EDGES_GEV)
    assert np.array_equal(seen.spectrum[0], counts)


def test_an_empty_shower_is_zero_everywhere_and_nowhere_nan():
    seen = one({})
    assert seen.sum_gev[0] == seen.rms_x_mm[0] == seen.angle_rad[0] == seen.last_layer_share[0] == 0


def test_many_showers_are_measured_like_one(reference):
    whole, single = observe(reference), observe(reference[150:151])
    assert len(whole) == 600
    assert whole[np.array([150])].rms_y_mm == pytest.approx(single.rms_y_mm)
    assert whole.hits[150] == single.hits[0]


def test_the_angle_is_the_one_the_image_shows(reference):
    assert observe(reference).angle_rad == pytest.approx(reference.mtheta_rad, abs=1e-4)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_a_cell_that_is_no_energy_is_named(reference, value):
    ecal = reference.ecal_gev.copy()
    ecal[123, 4, 4, 4] = value
    with pytest.raises(DataError, match="image: shower 123 "):
        observe(replace(reference, ecal_gev=ecal), "image")


@pytest.mark.parametrize("value", [np.nan, 0.0, -3.0])
def test_a_primary_without_energy_is_named(reference, value):
    energy = reference.energy_gev.copy()
    energy[7] = value
    with pytest.raises(DataError, match="shower 7 has a primary energy"):
        observe(replace(reference, energy_gev=energy))


def test_no_shower_at_all_is_refused(reference):
    with pytest.raises(DataError, match="no shower"):
        observe(reference[:0], "generated showers")
