"""The parametric source."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Silent
from cloudgan.data.showers import central, measured_angle
from cloudgan.simulation import profiles
from cloudgan.simulation.detector import CLIC_ECAL, Detector
from cloudgan.simulation.gflash import Gflash, simulate


def draw(energy, theta_deg, count, *, seed=0, source=None):
    random = np.random.default_rng(seed)
    theta = np.full(count, np.deg2rad(theta_deg))
    return (source or Gflash()).draw(np.full(count, float(energy)), theta, random)


def layers_in_a_wide_window(energy, count, *, seed=0):
    """Energy per layer, drawn twenty at a time: a wide image is 13 MB."""
    source = Gflash(Detector(cells=(255, 255)))
    parts = [
        draw(energy, 90, 20, seed=seed + part, source=source).sum((1, 2), dtype=np.float64)
        for part in range(count // 20)
    ]
    return np.concatenate(parts)


def expected_layers(source, energy, draws=20_000):
    """Mean silicon energy per layer at 90 degrees, from the formulas and no shower."""
    energies = np.full(draws, float(energy))
    log_y = np.log(energies * 1000 / source.tuning.critical_energy_mev)
    normal = np.random.default_rng(99).standard_normal((2, draws))
    shape = profiles.fluctuate(source.mean_shape(energies), profiles.sampling_spread(log_y), normal)
    boundaries = CLIC_ECAL.boundaries_x0()
    lost = energy * profiles.layer_shares(shape, boundaries).mean(0)
    early = source.tuning.early_crossings * np.exp(-boundaries[1:]) * source.tuning.crossing_gev
    return lost * source.sampling_fractions() + early


@pytest.mark.slow
def test_layers_hold_the_published_profile_times_the_sampling_fraction():
    count = 100
    layers = layers_in_a_wide_window(50, count)
    expected = expected_layers(Gflash(), 50)
    error = layers.std(0) / np.sqrt(count)
    # 3 % beside the statistics: the far halo leaves even this window.
    assert np.all(np.abs(layers.mean(0) - expected) < 4.5 * error + 0.03 * expected)


def test_the_sum_is_the_sampling_fraction_of_the_energy():
    sums = layers_in_a_wide_window(50, 140, seed=50).sum(1)
    error = sums.std() / np.sqrt(len(sums))
    assert sums.mean() == pytest.approx(expected_layers(Gflash(), 50).sum(), abs=4 * error)
    assert sums.mean() / 50 == pytest.approx(0.0203, rel=0.03)  # Geant4 11.4.1, 50 GeV


def test_the_window_holds_nearly_all_of_the_energy():
    wide, usual = Gflash(Detector(cells=(255, 255))), Gflash()
    everything, inside = draw(50, 90, 20, source=wide), draw(50, 90, 20, source=usual)
    share = inside.sum(dtype=np.float64) / everything.sum(dtype=np.float64)
    assert 0.985 < share < 1.0


@pytest.mark.slow
def test_the_shower_maximum_moves_one_radiation_length_per_factor_e():
    source = Gflash(Detector(cells=(101, 101)))
    middles = (CLIC_ECAL.boundaries_x0()[1:] + CLIC_ECAL.boundaries_x0()[:-1]) / 2

    def maximum(energy, seed):
        layers = draw(energy, 90, 200, seed=seed, source=source).sum((0, 1, 2), dtype=np.float64)
        top = slice(layers[:17].argmax() - 3, layers[:17].argmax() + 4)
        two, one, _ = np.polyfit(middles[top], layers[top], 2)
        return -one / (2 * two)

    assert maximum(40, 1) - maximum(10, 2) == pytest.approx(np.log(4), abs=0.35)


def test_the_response_falls_and_the_hits_grow_with_the_energy_as_in_geant4():
    small, large = draw(10, 90, 60), draw(100, 90, 60)
    assert small.sum((1, 2, 3)).mean() / 10 > 1.05 * large.sum((1, 2, 3)).mean() / 100
    hits = [(showers > 3e-4).sum((1, 2, 3)).mean() for showers in (small, large)]
    assert 3 < hits[1] / hits[0] < 8


def test_a_perpendicular_shower_is_symmetric_and_measures_90_degrees():
    showers = draw(50, 90, 100)
    angles = measured_angle(showers)
    assert float(angles.mean()) == pytest.approx(np.pi / 2, abs=4 * float(angles.std()) / 10)
    y = showers.sum((0, 1, 3), dtype=np.float64)
    assert y[:25].sum() / y[26:].sum() == pytest.approx(1, abs=0.15)


def test_a_smaller_angle_moves_the_deep_layers_to_larger_y_and_mirrors():
    y = np.arange(51) - 25

    def drift(showers):
        layers = showers.sum((0, 1), dtype=np.float64)
        centre = (y[:, None] * layers).sum(0) / layers.sum(0)
        return centre[20] - centre[3]

    assert drift(draw(50, 70, 40)) > 3
    assert drift(draw(50, 110, 40)) < -3


@pytest.mark.slow
def test_the_measured_angle_follows_the_true_one_with_the_slope_of_geant4():
    random = np.random.default_rng(5)
    theta = np.deg2rad(random.uniform(60, 120, 600))
    showers = Gflash().draw(np.full(600, 50.0), theta, random)
    slope = np.polyfit(theta, measured_angle(showers), 1)[0]
    assert slope == pytest.approx(0.87, abs=0.025)


@pytest.mark.parametrize("energy", [1.0, 1000.0])
@pytest.mark.parametrize("theta_deg", [0.5, 60.0, 90.0, 179.5])
def test_every_corner_gives_finite_energies_below_the_primary(energy, theta_deg):
    showers = draw(energy, theta_deg, 3)
    assert np.isfinite(showers).all()
    assert (showers >= 0).all()
    assert (showers.sum((1, 2, 3)) < 0.1 * energy).all()


def all_of(count, **options):
    blocks = list(simulate(count, **{"seed": 7, "cells": (9, 9)} | options))
    return np.concatenate([block.ecal_gev for block in blocks])


def test_a_shower_is_a_function_of_seed_and_number_not_of_the_count_or_the_blocks():
    many = all_of(130, block=50)
    assert all_of(60).tobytes() == many[:60].tobytes()
    assert all_of(130, block=100).tobytes() == many.tobytes()
    assert all_of(60).tobytes() != all_of(60, seed=8).tobytes()
    assert not np.array_equal(many[:50], many[50:100])
    assert [len(block) for block in simulate(130, seed=1, cells=(5, 5), block=50)] == [50, 50, 30]


def test_a_smaller_window_is_the_middle_of_the_larger():
    large = all_of(50, cells=(51, 51))
    assert np.array_equal(central(large, (17, 17, 25)), all_of(50, cells=(17, 17)))


def test_energies_and_angles_are_flat_in_the_requested_ranges():
    requested = {"energy_gev": (20.0, 30.0), "theta_deg": (80.0, 100.0), "cells": (3, 3)}
    blocks = list(simulate(1000, seed=3, **requested))
    energy = np.concatenate([block.energy_gev for block in blocks])
    theta = np.rad2deg(np.concatenate([block.theta_rad for block in blocks]))
    assert energy.min() >= 20
    assert energy.max() <= 30
    assert theta.min() >= 80 - 1e-4
    assert theta.max() <= 100 + 1e-4
    assert energy.mean() == pytest.approx(25, abs=4 * 10 / np.sqrt(12 * 1000))
    assert energy.std() == pytest.approx(10 / np.sqrt(12), rel=0.1)


@pytest.mark.parametrize("theta_deg", [1e-9, 90.0, 180 - 1e-12])
def test_one_energy_and_one_angle_can_be_requested_also_at_the_very_edge(theta_deg):
    requested = {"energy_gev": (1.0, 1.0), "theta_deg": (theta_deg, theta_deg), "cells": (9, 9)}
    block = next(simulate(50, seed=1, **requested))
    assert np.isfinite(block.ecal_gev).all()
    assert set(block.energy_gev) == {1.0}
    assert len(set(block.theta_rad)) == 1
    assert 0 < block.theta_rad[0] < np.pi
    assert block.theta_rad[0] == pytest.approx(np.deg2rad(theta_deg), rel=1e-6)


def test_a_block_is_float32_and_carries_its_measured_angle():
    block = next(simulate(50, seed=1))
    assert block.ecal_gev.shape == (50, 51, 51, 25)
    found = (block.ecal_gev, block.energy_gev, block.mtheta_rad)
    assert {array.dtype for array in found} == {np.dtype(np.float32)}
    assert np.array_equal(block.mtheta_rad, measured_angle(block.ecal_gev))


class Listed(Silent):
    def __init__(self):
        self.total, self.amounts = None, []

    def start(self, task, total=None, unit=""):
        self.total = total

    def advance(self, amount=1, note=""):
        self.amounts.append(amount)


def test_progress_counts_every_shower():
    progress = Listed()
    list(simulate(120, seed=1, cells=(3, 3), block=50, progress=progress))
    assert (progress.total, progress.amounts) == (120, [50, 50, 20])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"energy_gev": (0.0, 10.0)}, "1 to 1000 GeV"),
        ({"energy_gev": (-5.0, 10.0)}, "1 to 1000 GeV"),
        ({"energy_gev": (0.5, 10.0)}, "from 0.5 to 10.0 GeV"),
        ({"energy_gev": (100.0, 10.0)}, "lower bound first"),
        ({"energy_gev": (10.0, 2000.0)}, "1 to 1000 GeV"),
        ({"energy_gev": (float("nan"), 100.0)}, "nan"),
        ({"theta_deg": (0.0, 90.0)}, "between 0 and 180"),
        ({"theta_deg": (90.0, 180.0)}, "between 0 and 180"),
        ({"theta_deg": (120.0, 60.0)}, "lower bound first"),
        ({"theta_deg": (60.0, float("inf"))}, "inf"),
        ({"count": 0}, "at least 1"),
        ({"seed": -1}, "0 or more"),
        ({"cells": (0, 51)}, "1 to 255 cells"),
        ({"block": 70}, "multiple of 50"),
        ({"block": 0}, "multiple of 50"),
    ],
)
def test_bad_requests_are_refused_at_the_call(options, message):
    requested = {"count": 10, "seed": 0} | options
    with pytest.raises(ConfigError, match=message):
        simulate(requested.pop("count"), **requested)
