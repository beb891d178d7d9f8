from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from cloudgan.core.errors import DataError
from cloudgan.validation.observables import join_observables
from cloudgan.validation.overlap import common_part


def common(generated, reference, least=100):
    return common_part(generated, reference, least=least, seed=0)


def with_energies(sample, energy):
    return replace(sample, energy_gev=np.asarray(energy, float))


def test_showers_of_the_same_range_are_all_kept_and_nothing_is_noted(measured):
    found = common(measured[:250], measured[250:])
    assert (len(found.generated), len(found.reference)) == (250, 350)
    assert found.notes == ()
    assert not found.matched


def test_equal_energies_row_by_row_are_matched(measured):
    assert common(measured, measured).matched
    assert not common(measured[::-1], measured).matched


def test_only_energies_that_both_have_are_compared_and_it_is_said(measured):
    low, high = (measured[rows] for rows in (measured.energy_gev < 80, measured.energy_gev > 30))
    found = common(low, high)
    for sample in (found.generated, found.reference):
        assert 28 < sample.energy_gev.min() < 32
        assert 78 < sample.energy_gev.max() < 82
    assert "compared only where both have showers, energy" in found.notes[0]
    assert f"of {len(low)} generated and" in found.notes[0]


def test_only_angles_that_both_have_are_compared_and_it_is_said(measured):
    steep = measured[np.rad2deg(measured.requested_rad) < 100]
    found = common(steep, measured[::-1])
    assert np.rad2deg(found.reference.requested_rad.max()) < 102
    assert "angle" in found.notes[0]
    assert "degrees" in found.notes[0]


def test_where_the_angle_is_not_known_of_both_it_is_not_looked_at(measured):
    steep = measured[np.rad2deg(measured.requested_rad) < 100]
    found = common(steep, replace(measured, angle_known=False)[::-1])
    assert len(found.reference) == 600
    assert not found.angle_known


def test_energies_that_are_distributed_differently_are_made_alike_and_it_is_said(measured):
    many = join_observables([measured] * 4)
    random = np.random.default_rng(0)
    energy = many.energy_gev
    soft = many[random.random(len(many)) < 1.1 - energy / 100]
    assert stats.ks_2samp(soft.energy_gev, energy).pvalue < 1e-6
    found = common(soft, many)
    left = stats.ks_2samp(found.generated.energy_gev, found.reference.energy_gev)
    assert left.pvalue > 0.05
    assert len(found.generated) > 0.6 * len(soft)
    assert "energy of the two samples are distributed differently" in found.notes[0]
    assert found.generated.hits.mean() == pytest.approx(found.reference.hits.mean(), rel=0.03)


def test_the_choice_among_them_is_a_function_of_the_seed(measured):
    many = join_observables([measured] * 4)
    soft = many[np.random.default_rng(0).random(len(many)) < 1.1 - many.energy_gev / 100]
    first, again, other = (common_part(soft, many, least=100, seed=s) for s in (1, 1, 2))
    assert np.array_equal(first.generated.energy_gev, again.generated.energy_gev)
    assert not np.array_equal(first.generated.energy_gev, other.generated.energy_gev)


@pytest.mark.parametrize("factor", [50.0, 0.02, 1000.0])
def test_another_unit_is_refused_and_named(measured, factor):
    other = replace(measured, sum_gev=factor * measured.sum_gev)
    with pytest.raises(DataError, match=f"another unit .a factor {factor:g}"):
        common(other, measured)


def test_a_poor_response_is_no_other_unit(measured):
    assert common(replace(measured, sum_gev=8 * measured.sum_gev), measured).matched


def test_images_of_another_shape_are_refused(measured):
    with pytest.raises(DataError, match="21x21x24 cells, reference images of 21x21x25"):
        common(replace(measured, image=(21, 21, 24)), measured)


def test_energies_that_nowhere_meet_are_refused_with_both_ranges(measured):
    other = with_energies(measured, measured.energy_gev + 200)
    with pytest.raises(DataError, match=r"energy of the generated ones is 210\.1 to 299\.6 GeV"):
        common(other, measured)


def test_too_few_showers_are_refused_before_and_after_the_cut(measured):
    with pytest.raises(DataError, match="99 reference showers; give at least 100"):
        common(measured, measured[:99])
    with pytest.raises(DataError, match="at least 100 of each are needed"):
        common(measured[measured.energy_gev < 40], measured[measured.energy_gev > 35])


def test_a_generator_that_gives_nothing_is_told(measured):
    with pytest.raises(DataError, match="all 600 generated showers are empty"):
        common(replace(measured, sum_gev=0 * measured.sum_gev), measured)
