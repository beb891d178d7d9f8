"""The calorimeter, and the published shapes of a shower in it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special

from cloudgan.simulation import profiles
from cloudgan.simulation.detector import ATOMIC_NUMBERS, CLIC_ECAL


def test_the_stack_is_25_layers_and_21_radiation_lengths_deep():
    depth = CLIC_ECAL.boundaries_x0()
    assert CLIC_ECAL.layers == 25
    assert CLIC_ECAL.thin.sum() == 17
    assert depth[0] == 0
    assert depth[-1] == pytest.approx(21.1, abs=0.05)


def test_a_thick_layer_is_one_more_plate_of_tungsten_than_a_thin_one():
    step_x0 = np.diff(CLIC_ECAL.boundaries_x0())
    assert step_x0[17] - step_x0[16] == pytest.approx(2.4 / 3.929)
    step_mm = np.diff(CLIC_ECAL.silicon_mm())
    assert step_mm[0] == pytest.approx(4.4)
    assert step_mm[-1] == pytest.approx(6.8)


def test_the_first_silicon_is_behind_one_plate_and_its_air_and_foil():
    assert CLIC_ECAL.silicon_mm()[0] == pytest.approx(2.4 + 0.25 + 0.10 + 0.25)


def test_the_medium_is_mostly_tungsten():
    assert CLIC_ECAL.effective_atomic_number() == pytest.approx(66.3, abs=0.3)
    assert CLIC_ECAL.inverse_sampling_frequency() == pytest.approx(0.648, abs=0.002)


def test_each_material_is_made_of_elements_we_know_that_are_all_of_its_mass():
    assert len(CLIC_ECAL.materials) == 5
    for material in CLIC_ECAL.materials:
        shares = dict(material.mass_shares)
        assert set(shares) <= set(ATOMIC_NUMBERS)
        assert sum(shares.values()) == pytest.approx(1, abs=1e-6)
        mean = sum(ATOMIC_NUMBERS[symbol] * share for symbol, share in shares.items())
        assert mean == pytest.approx(material.atomic_number, rel=0.04)


NOTHING = profiles.Medium(atomic_number=0.0, inverse_frequency=0.0, e_over_mip=1.0)


def test_the_energy_between_two_depths_is_the_integral_of_the_published_distribution():
    depth, alpha = 6.3, 4.1
    beta = (alpha - 1) / depth

    def density(t):
        return (beta * t) ** (alpha - 1) * beta * np.exp(-beta * t) / special.gamma(alpha)

    shape = profiles.Longitudinal(np.array([depth]), np.array([alpha]))
    shares = profiles.layer_shares(shape, np.array([0.0, 2.0, 7.5, 20.0]))
    edges = [(0.0, 2.0), (2.0, 7.5), (7.5, 20.0)]
    expected = [integrate.quad(density, *edge)[0] for edge in edges]
    assert shares[0] == pytest.approx(expected, rel=1e-6)


def test_the_whole_depth_holds_the_whole_energy():
    shape = profiles.Longitudinal(np.array([5.0, 9.0]), np.array([3.0, 6.0]))
    assert profiles.layer_shares(shape, np.array([0.0, 500.0])) == pytest.approx(1.0)


def test_the_gradient_is_that_of_the_distribution_and_vanishes_at_the_maximum():
    shape = profiles.Longitudinal(np.array([6.0]), np.array([4.0]))
    depth = np.array([[3.0, 6.0, 12.0]])
    nearby = np.array([depth[0] - 1e-4, depth[0] + 1e-4, depth[0] + 3e-4])
    shares = np.array([profiles.layer_shares(shape, edges)[0] for edges in nearby.T])
    expected = np.log(shares[:, 1] / shares[:, 0]) / 2e-4
    assert profiles.log_gradient(shape, depth)[0] == pytest.approx(expected, abs=1e-3)
    assert profiles.log_gradient(shape, depth)[0, 1] == 0


def test_the_published_maximum_moves_by_one_radiation_length_per_factor_e():
    depth, alpha = profiles.sampling(np.array([7.0, 8.0]), profiles.Medium(66.0, 0.65, 0.71))
    assert alpha[1] == pytest.approx(0.81 + (0.458 + 2.26 / 66) * 8 - 0.476 * 0.65)
    assert depth[1] - depth[0] == pytest.approx(1.0)
    assert depth[0] == pytest.approx(7.0 - 0.812 - 0.55 * 0.65 - 0.69 * 0.29)


def test_showers_spread_as_published():
    log_y = np.full(40_000, 8.0)
    mean, spread = profiles.homogeneous(log_y, 66.0), profiles.sampling_spread(log_y)
    normal = np.random.default_rng(1).standard_normal((2, 40_000))
    drawn = profiles.fluctuate(mean, spread, normal)
    log_depth, log_alpha = np.log(drawn.depth_x0), np.log(drawn.alpha)
    assert log_depth.mean() == pytest.approx(np.log(8 - 0.812), abs=0.003)
    assert log_depth.std() == pytest.approx(1 / (-2.5 + 1.25 * 8), rel=0.02)
    assert log_alpha.std() == pytest.approx(1 / (-0.82 + 0.79 * 8), rel=0.02)
    correlation = np.corrcoef(log_depth, log_alpha)[0, 1]
    assert correlation == pytest.approx(0.784 - 0.023 * 8, abs=0.02)


def test_the_radial_formulas_at_the_points_where_they_are_simple():
    energy = np.array([1.0])  # ln E = 0
    at = profiles.radial(np.array([[0.401, 0.645, 1.0]]), energy, NOTHING, tau_cap=9.0)
    assert at.core[0, 2] == pytest.approx(0.0251 + 0.1162)
    assert at.tail[0, 1] == pytest.approx(2 * 0.659)
    assert at.tail[0, 2] == pytest.approx(0.659 * (np.exp(-2.59 * 0.355) + np.exp(0.3585 * 0.355)))
    tau = profiles.radial(np.array([[2.0]]), energy, NOTHING, tau_cap=9.0)
    argument = (0.401 - 2.0) / 1.313
    assert tau.core_share[0, 0] == pytest.approx(2.632 * np.exp(argument - np.exp(argument)))


def test_the_tail_stops_growing_beyond_the_cap():
    tails = profiles.radial(np.array([[3.4, 6.0]]), np.array([50.0]), NOTHING, tau_cap=3.4).tail[0]
    free = profiles.radial(np.array([[3.4, 6.0]]), np.array([50.0]), NOTHING, tau_cap=9.0).tail[0]
    assert tails[1] <= tails[0] < free[1]


def test_sampling_narrows_the_early_tail_and_widens_the_early_core():
    tau, energy = np.array([[0.5]]), np.array([50.0])
    bare = profiles.radial(tau, energy, profiles.Medium(66.0, 0.0, 1.0), 3.4)
    sampled = profiles.radial(tau, energy, profiles.Medium(66.0, 0.65, 1.0), 3.4)
    assert sampled.core > bare.core
    assert sampled.tail < bare.tail
