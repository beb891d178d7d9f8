"""Tsai's formula against what is known of it in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.simulation.geant4.bremsstrahlung import coulomb_correction, scaled_cross_section

AVOGADRO_PER_MB = 6.02214076e23 * 1e-27
# S. Navas et al. (Particle Data Group), Phys. Rev. D 110 (2024) 030001, "Atomic and nuclear
# properties of materials": standard atomic weight in g/mol, radiation length in g/cm2.
MEASURED = {14: (28.0855, 21.82), 26: (55.845, 13.84), 29: (63.546, 12.86), 74: (183.84, 6.76)}


@pytest.mark.parametrize("z", [6, 29, 74])
def test_the_coulomb_correction_is_the_sum_it_stands_for(z):
    a = (z / 137.035999) ** 2
    n = np.arange(1.0, 200_000)
    assert coulomb_correction(z) == pytest.approx(a * np.sum(1 / (n * (n**2 + a))), abs=2e-4)


@pytest.mark.parametrize("z", [14, 74])
def test_a_soft_photon_of_a_fast_electron_meets_the_fully_screened_atom(z):
    """Tsai, eq. 3.83 and table B.2: L_rad = ln(184.15 / Z^(1/3)), L'_rad = ln(1194 / Z^(2/3))."""
    radiation = np.log(184.15 / z ** (1 / 3)) - coulomb_correction(z)
    radiation += np.log(1194 / z ** (2 / 3)) / z
    four_alpha_r2_mb = 4 * 79.40788 / 137.035999
    expected = four_alpha_r2_mb * (4 / 3 * radiation + (1 + 1 / z) / 9)
    assert scaled_cross_section(z, 1e9, 1e-5) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("z", "known"), MEASURED.items())
def test_a_fast_electron_loses_a_radiation_length(z, known):
    weight, length = known
    share = np.linspace(0, 1, 20_001)
    chi = scaled_cross_section(z, 1e6, share)
    per_length = z**2 * np.trapezoid(chi, share) * AVOGADRO_PER_MB / weight
    # Tsai, eq. 3.84: the loss exceeds E/X0 by b = (1 + 1/Z) / 18 / (L_rad - f + L'_rad / Z).
    assert per_length * length == pytest.approx(1.012, abs=0.01)


@pytest.mark.parametrize("kinetic_mev", [0.001, 1.0, 1000.0])
def test_it_is_positive_and_falls_with_the_energy_of_the_photon(kinetic_mev):
    chi = scaled_cross_section(74, kinetic_mev, np.linspace(0, 0.95, 30))
    assert np.all(chi > 0)
    assert np.all(np.diff(chi[:18]) < 0)  # 1 - y + 3/4 y^2 has its least value at y = 2/3


def test_many_energies_and_shares_are_broadcast():
    kinetic, share = np.array([1.0, 10.0])[:, None], np.array([0.1, 0.5, 1.0])
    table = scaled_cross_section(29, kinetic, share)
    assert table.shape == (2, 3)
    assert table[1, 2] == scaled_cross_section(29, 10.0, 1.0)
