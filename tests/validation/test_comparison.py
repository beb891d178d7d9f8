"""Every property is spoilt in turn: the number meant for it must see it, the others must not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.validation.comparison import Comparison, compare

RATIOS = ["hits_ratio", "rms_x_ratio", "rms_y_ratio", "tail_ratio", "last_layer_ratio"]
PROFILES = ["profile_x", "profile_y", "profile_z"]


def values(comparison, names):
    return [getattr(comparison, name).value for name in names]


def responses(comparison):
    return [row.response_ratio.value for row in comparison.bins]


def widths(comparison):
    return [row.width_ratio.value for row in comparison.bins]


def test_identical_samples_give_one_and_zero(reference):
    same = compare(reference, reference)
    assert values(same, RATIOS) == pytest.approx([1] * 5)
    assert values(same, PROFILES) == [0, 0, 0]
    assert responses(same) == widths(same) == [1, 1, 1]
    assert same.angle_slope.value == pytest.approx(1, abs=1e-3)
    assert same.notes == ()


def test_five_percent_more_energy_is_seen_as_five_percent(reference, remade):
    more = compare(remade(lambda cells: 1.05 * cells), reference)
    assert responses(more) == pytest.approx([1.05] * 3, abs=1e-4)
    assert values(more, PROFILES) == pytest.approx([0.05] * 3, abs=1e-4)
    assert values(more, RATIOS[1:]) == pytest.approx([1] * 4, abs=1e-3)


def test_one_layer_further_back_spoils_the_longitudinal_profile_alone(reference, remade):
    shifted = compare(remade(lambda cells: np.roll(cells, 1, axis=3)), reference)
    assert shifted.profile_z.value > 0.1
    assert values(shifted, PROFILES[:2]) == pytest.approx([0, 0], abs=1e-6)
    assert responses(shifted) == pytest.approx([1] * 3, abs=1e-6)


def test_a_mirrored_tilt_turns_the_slope_around(reference, remade):
    mirrored = compare(remade(lambda cells: cells[:, :, ::-1]), reference)
    assert mirrored.angle_slope.value == pytest.approx(-1, abs=0.02)
    assert mirrored.profile_z.value == pytest.approx(0, abs=1e-6)


def test_the_slope_is_against_the_angle_of_the_reference(reference):
    order = np.argsort(np.random.default_rng(0).random(len(reference)))
    shuffled = replace(reference, ecal_gev=reference.ecal_gev[order])
    assert abs(compare(shuffled, reference).angle_slope.value) < 0.2


def test_a_common_fluctuation_widens_the_response_and_nothing_else(reference, remade):
    factor = 1 + 0.2 * np.where(np.random.default_rng(1).random(600) < 0.5, -1, 1)
    wider = compare(remade(lambda cells: cells * factor[:, None, None, None]), reference)
    assert min(widths(wider)) > 2
    assert responses(wider) == pytest.approx([1] * 3, abs=0.05)


def test_spread_out_energy_is_seen_by_the_tails_and_the_lateral_width(reference, remade):
    def spread(cells):
        halo = np.zeros_like(cells)
        halo[:, 1, 1] = halo[:, -2, -2] = 0.01 * cells.sum((1, 2))
        return 0.98 * cells + halo

    wide = compare(remade(spread), reference)
    assert wide.tail_ratio.value > 1.2
    assert min(values(wide, ["rms_x_ratio", "rms_y_ratio"])) > 1.1
    assert responses(wide) == pytest.approx([1] * 3, abs=1e-5)
    assert wide.profile_z.value < 1e-5


def test_blur_along_x_is_told_from_blur_along_y(reference, remade):
    blurred = compare(
        remade(lambda cells: (np.roll(cells, 1, axis=1) + np.roll(cells, -1, axis=1)) / 2),
        reference,
    )
    assert blurred.rms_x_ratio.value > 1.05
    assert blurred.rms_y_ratio.value == pytest.approx(1, abs=1e-3)
    assert blurred.profile_x.value > 0.1
    assert blurred.profile_y.value < 1e-5


def test_energy_gathered_in_fewer_cells_gives_too_few_hits(reference, remade):
    def gather(cells):
        board = np.indices(cells.shape[1:]).sum(0) % 2 == 0
        return (cells + np.roll(cells, 1, axis=1)) * board

    gathered = compare(remade(gather), reference)
    assert gathered.hits_ratio.value < 0.8
    assert responses(gathered) == pytest.approx([1] * 3, abs=0.01)


def test_energy_thrown_into_the_last_layer_is_seen(reference, remade):
    def leak(cells):
        cells = cells.copy()
        cells[:, 10, 10, 24] += 0.02 * cells.sum((1, 2, 3))
        return cells

    assert compare(remade(leak), reference).last_layer_ratio.value > 2


def test_noise_with_the_right_sum_fails_everything_but_the_response(reference, noise):
    found = compare(noise, reference)
    assert responses(found) == pytest.approx([1] * 3, abs=0.01)
    assert found.profile_z.value > 0.5
    assert found.hits_ratio.value > 1.3 or found.hits_ratio.value < 0.7
    assert abs(found.angle_slope.value) < 0.2
    assert found.tail_ratio.value > 3


def test_the_floor_is_small_grows_with_fewer_showers_and_follows_the_seed(reference):
    many, few = compare(reference, reference), compare(reference[:60], reference[:60])
    assert 0 < many.profile_z.floor < 0.1
    assert few.profile_z.floor > many.profile_z.floor
    assert many.hits_ratio.floor == pytest.approx(1, abs=0.1)
    assert many.angle_slope.floor == pytest.approx(1, abs=0.01)
    assert all(row.width_ratio.floor is not None for row in many.bins)
    assert compare(reference, reference, seed=1).profile_z.floor != many.profile_z.floor
    assert compare(reference, reference) == many


def test_the_comparison_survives_json(reference):
    found = compare(reference, reference)
    assert Comparison.model_validate_json(found.model_dump_json()) == found


def test_edges_of_the_energy_bins_can_be_given(reference):
    found = compare(reference, reference, edges_gev=(20.0, 50.0, 100.0))
    assert [(row.low_gev, row.high_gev) for row in found.bins] == [(20, 50), (50, 100)]


def test_an_energy_bin_with_too_few_showers_is_unknown_and_told(reference):
    found = compare(reference, reference, edges_gev=(1.0, 2.0, 100.0))
    assert found.bins[0].response_ratio.value is None
    assert found.bins[1].response_ratio.value == 1
    assert any("response 0 is unknown" in note for note in found.notes)


def test_some_empty_showers_are_counted_and_told(reference):
    ecal = reference.ecal_gev.copy()
    ecal[:30] = 0
    found = compare(replace(reference, ecal_gev=ecal), reference)
    assert found.empty_generated == 30
    assert found.notes[0] == "30 generated showers are empty"
    assert found.rms_x_ratio.value == pytest.approx(1, abs=0.02)


def test_a_generator_that_gives_nothing_is_told(reference):
    nothing = replace(reference, ecal_gev=np.zeros_like(reference.ecal_gev))
    with pytest.raises(DataError, match="all 600 generated showers are empty"):
        compare(nothing, reference)


def test_a_window_without_tails_leaves_them_unknown(reference):
    small = replace(reference, ecal_gev=reference.ecal_gev[:, 6:15, 6:15])
    found = compare(small, small)
    assert found.tail_ratio.value is None
    assert any("tail_ratio is unknown" in note for note in found.notes)


def test_samples_that_do_not_match_are_refused(reference):
    with pytest.raises(DataError, match="599 generated showers, 600"):
        compare(reference[:599], reference)
    with pytest.raises(DataError, match="cut both to the same window"):
        compare(replace(reference, ecal_gev=reference.ecal_gev[:, 2:-2]), reference)
    with pytest.raises(DataError, match="generate at the energies of the reference"):
        compare(replace(reference, energy_gev=reference.energy_gev[::-1]), reference)
    with pytest.raises(DataError, match="give 20 or more"):
        compare(reference[:19], reference[:19])


@pytest.mark.parametrize("edges", [(10.0,), (40.0, 10.0), (10.0, 10.0, 40.0)])
def test_edges_that_do_not_rise_are_refused(reference, edges):
    with pytest.raises(ConfigError, match="rising"):
        compare(reference, reference, edges_gev=edges)
