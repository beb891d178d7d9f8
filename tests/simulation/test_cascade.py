from __future__ import annotations

import numpy as np
import pytest

from cloudgan.data.showers import measured_angle
from cloudgan.simulation import profiles
from cloudgan.simulation.cascade import Gflash
from cloudgan.simulation.detector import CLIC_ECAL, Detector


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
    normals = np.random.default_rng(99).standard_normal((2, draws))
    shape = profiles.fluctuate(
        source.mean_shape(energies), profiles.sampling_spread(log_y), normals
    )
    boundaries = CLIC_ECAL.boundaries_x0()
    lost = energy * profiles.layer_shares(shape, boundaries).mean(0)
    early = source.tuning.early_crossings * np.exp(-boundaries[1:]) * source.tuning.crossing_gev
    return lost * source.sampling_fractions() + early


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
