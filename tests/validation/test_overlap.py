from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from cloudgan.core.errors import DataError
from cloudgan.validation.observables import join_observables
from cloudgan.validation.overlap import Bins, bins_for, overlap_region


def overlap(generated, reference, min_showers=100):
    return overlap_region(generated, reference, min_showers=min_showers, seed=0)


def with_energies(sample, energy):
    return replace(sample, energy_gev=np.asarray(energy, float))


def test_showers_of_the_same_range_are_all_kept_and_nothing_is_noted(measured):
    found = overlap(measured[:250], measured[250:])
    assert (len(found.generated), len(found.reference)) == (250, 350)
    assert found.notes == ()
    assert not found.matched


def test_equal_energies_row_by_row_are_matched(measured):
    assert overlap(measured, measured).matched
    assert not overlap(measured[::-1], measured).matched


def test_samples_are_restricted_to_shared_energies_with_a_note(measured):
    low, high = (measured[rows] for rows in (measured.energy_gev < 80, measured.energy_gev > 30))
    found = overlap(low, high)
    for sample in (found.generated, found.reference):
        assert 28 < sample.energy_gev.min() < 32
        assert 78 < sample.energy_gev.max() < 82
    assert "restricted to the overlap, energy" in found.notes[0]
    assert f"of {len(low)} generated and" in found.notes[0]


def test_samples_are_restricted_to_shared_angles_with_a_note(measured):
    steep = measured[np.rad2deg(measured.requested_rad) < 100]
    found = overlap(steep, measured[::-1])
    assert np.rad2deg(found.reference.requested_rad.max()) < 102
    assert "angle" in found.notes[0]
    assert "degrees" in found.notes[0]


def test_unknown_angles_are_not_compared(measured):
    steep = measured[np.rad2deg(measured.requested_rad) < 100]
    found = overlap(steep, replace(measured, angle_known=False)[::-1])
    assert len(found.reference) == 600
    assert not found.angle_known


def test_different_energy_distributions_are_equalised_with_a_note(measured):
    many = join_observables([measured] * 4)
    random = np.random.default_rng(0)
    energy = many.energy_gev
    soft = many[random.random(len(many)) < 1.1 - energy / 100]
    assert stats.ks_2samp(soft.energy_gev, energy).pvalue < 1e-6
    found = overlap(soft, many)
    left = stats.ks_2samp(found.generated.energy_gev, found.reference.energy_gev)
    assert left.pvalue > 0.05
    assert len(found.generated) > 0.6 * len(soft)
    assert "energy of the two samples are distributed differently" in found.notes[0]
    assert found.generated.hits.mean() == pytest.approx(found.reference.hits.mean(), rel=0.03)


def test_the_choice_among_them_is_a_function_of_the_seed(measured):
    many = join_observables([measured] * 4)
    soft = many[np.random.default_rng(0).random(len(many)) < 1.1 - many.energy_gev / 100]
    first, again, other = (overlap_region(soft, many, min_showers=100, seed=s) for s in (1, 1, 2))
    assert np.array_equal(first.generated.energy_gev, again.generated.energy_gev)
    assert not np.array_equal(first.generated.energy_gev, other.generated.energy_gev)


@pytest.mark.parametrize("factor", [50.0, 0.02, 1000.0])
def test_another_unit_is_refused_and_named(measured, factor):
    other = replace(measured, sum_gev=factor * measured.sum_gev)
    with pytest.raises(DataError, match=f"different unit .factor {factor:g}"):
        overlap(other, measured)


def test_a_poor_response_is_not_taken_for_another_unit(measured):
    assert overlap(replace(measured, sum_gev=8 * measured.sum_gev), measured).matched


def test_images_of_another_shape_are_refused(measured):
    with pytest.raises(DataError, match="21x21x24 cells, reference images of 21x21x25"):
        overlap(replace(measured, image=(21, 21, 24)), measured)


def test_disjoint_energies_are_refused_with_both_ranges(measured):
    other = with_energies(measured, measured.energy_gev + 200)
    with pytest.raises(DataError, match=r"energy is 210\.1 to 299\.6 GeV for generated"):
        overlap(other, measured)


def test_too_few_showers_are_refused_before_and_after_the_cut(measured):
    with pytest.raises(DataError, match="99 reference showers; give at least 100"):
        overlap(measured, measured[:99])
    with pytest.raises(DataError, match="at least 100 of each are required"):
        overlap(measured[measured.energy_gev < 40], measured[measured.energy_gev > 35])


def test_a_generator_of_empty_showers_is_refused(measured):
    with pytest.raises(DataError, match="all 600 generated showers are empty"):
        overlap(replace(measured, sum_gev=0 * measured.sum_gev), measured)


class Fake(SimpleNamespace):
    def __len__(self):
        return len(self.energy_gev)


def bins(energies, degrees=(60, 120), known=True, count=None):
    angles = np.resize(np.deg2rad(np.asarray(degrees, float)), len(energies))
    one = Fake(energy_gev=np.asarray(energies, float), requested_rad=angles)
    return bins_for(SimpleNamespace(generated=one, reference=one, angle_known=known), count)


@pytest.mark.parametrize(
    ("energies", "edges"),
    [
        ([10.3, 99.2], (10, 40, 70, 100)),
        ([10.03, 19.98], (10, 13.333, 16.667, 20)),
        ([100, 200], (100, 133.33, 166.67, 200)),
        ([100.00001, 199.99999], (100, 133.33, 166.67, 200)),
        ([2.1, 497], (0, 166.67, 333.33, 500)),
        ([50, 50.01], (50, 50.01)),
    ],
)
def test_energy_bins_are_thirds_of_the_range_rounded_outwards(energies, edges):
    assert bins(energies).energy_gev == pytest.approx(edges, rel=1e-4)


def test_with_many_showers_there_are_bins_of_ten_gev():
    assert bins(np.linspace(10, 100, 3000)).energy_gev == pytest.approx(range(10, 101, 10))
    assert bins(np.linspace(10, 100, 2999)).energy_gev == pytest.approx(range(10, 101, 30))


def test_bins_are_named_with_their_unit():
    assert bins([10.3, 99.2]).names() == (
        ("10-40 GeV", "40-70 GeV", "70-100 GeV"),
        ("60-80 deg", "80-100 deg", "100-120 deg"),
    )
    assert bins([50, 50]).names()[0] == ("50 GeV",)
    assert bins([10, 90], known=False).names()[1] == ()
    assert bins([10, 90], degrees=(90, 90)).names()[1] == ()


def test_every_shower_falls_into_one_bin(measured):
    edges = Bins((10.0, 40.0, 70.0, 100.0), (60.0, 90.0, 120.0))
    few = replace(
        measured[:6],
        energy_gev=np.array([9.0, 39.9, 40.0, 70.0, 100.0, 101.0]),
        requested_rad=np.deg2rad([50.0, 89.9, 90.0, 119, 120, 130]),
    )
    energy, angle = edges.bin_numbers(few)
    assert energy.tolist() == [0, 0, 1, 2, 2, 2]
    assert angle.tolist() == [0, 0, 1, 1, 1, 1]
    assert edges.shape == (3, 2)
