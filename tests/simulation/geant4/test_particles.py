"""Showers of photons and positrons differ from those of electrons as physics says."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.simulation.detector import CLIC_ECAL
from cloudgan.simulation.geant4.events import PrimaryRequest, primary

pytestmark = pytest.mark.slow

NORMAL = (90.0, 90.0)
EDGES = CLIC_ECAL.boundaries_x0()
CONVERSION_X0 = 9 / 7
"""Mean free path for pair production at high energies (PDG, Passage of particles through matter, 34.4)."""
VISIBLE_GEV = 1e-4
"""In a layer: less than a particle that crosses 0.5 mm of silicon, more than backscattered photons."""


def layers(simulated, particle, count, gev=2.0):
    """Energy of each layer, GeV, (count, 25)."""
    requested = PrimaryRequest(5, (gev, gev), NORMAL, particle=particle)
    return simulated(requested, count).sum((1, 2), dtype=np.float64)


@pytest.fixture(scope="module")
def electrons(simulated):
    return layers(simulated, "electron", 60)


@pytest.fixture(scope="module")
def photons(simulated):
    return layers(simulated, "photon", 120)


def front_x0(found):
    """Mean depth of the front of the first layer with energy."""
    return EDGES[(found > VISIBLE_GEV).argmax(1)].mean()


def depth_x0(found):
    """Mean barycentre; a thick layer counts twice, as it is sampled half as often."""
    weighted = found * np.where(CLIC_ECAL.thin, 1.0, 2.0)
    return (weighted @ ((EDGES[1:] + EDGES[:-1]) / 2) / weighted.sum(1)).mean()


def test_an_electron_leaves_energy_in_the_first_layer(electrons):
    assert front_x0(electrons) < 0.1


def test_a_photon_converts_after_9_7_radiation_lengths(photons):
    """An exponential depth, rounded down to the front of its layer; 120 photons: error 0.1 X0."""
    kept = np.exp(-EDGES[1] / CONVERSION_X0)
    assert front_x0(photons) == pytest.approx(EDGES[1] * kept / (1 - kept), abs=0.35)


def test_a_photon_shower_is_later_by_half_a_radiation_length_or_more(electrons, photons):
    assert 0.45 < depth_x0(photons) - depth_x0(electrons) < 1.6


def test_the_sum_of_a_photon_is_that_of_an_electron(electrons, photons):
    assert photons.sum(1).mean() / electrons.sum(1).mean() == pytest.approx(1, abs=0.1)


def test_positrons_are_neither_electrons_nor_late(simulated, electrons):
    positrons = layers(simulated, "positron", 20)
    assert not np.array_equal(positrons, electrons[:20])
    assert front_x0(positrons) < 0.2
    assert depth_x0(positrons) == pytest.approx(depth_x0(electrons), abs=0.9)


def test_the_particle_changes_neither_energy_nor_angle_nor_seeds():
    flat = (2.0, 9.0), (60.0, 120.0)
    wanted = primary(PrimaryRequest(5, *flat), 70)
    assert primary(PrimaryRequest(5, *flat, particle="photon"), 70) == wanted
