from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cloudgan.data.showers import Showers, join_showers, measured_angle
from cloudgan.simulation.gflash import simulate
from cloudgan.validation.assess import assess
from cloudgan.validation.observables import Observables, observe


@pytest.fixture(scope="session")
def reference() -> Showers:
    """Six hundred showers of 21 x 21 cells, enough for three bins of energy."""
    return join_showers(simulate(600, seed=11, cells=(21, 21)))


@pytest.fixture(scope="session")
def remade(reference):
    """Returns a function that turns changed cells into a sample."""

    def make(change) -> Showers:
        ecal = change(reference.ecal_gev.astype(np.float64)).astype(np.float32)
        return replace(reference, ecal_gev=ecal, mtheta_rad=measured_angle(ecal))

    return make


@pytest.fixture(scope="session")
def noise(reference) -> Showers:
    """Sample of an untrained network: the right energy sum without shape."""
    ecal = np.random.default_rng(2).uniform(0, 1, reference.ecal_gev.shape)
    wanted = reference.ecal_gev.sum((1, 2, 3), keepdims=True)
    ecal = (ecal * wanted / ecal.sum((1, 2, 3), keepdims=True)).astype(np.float32)
    return replace(reference, ecal_gev=ecal)


@pytest.fixture(scope="session")
def measured(reference) -> Observables:
    """Observables of the reference."""
    return observe(reference)


@pytest.fixture(scope="session")
def others() -> Showers:
    """Four hundred other showers of the same source."""
    return join_showers(simulate(400, seed=12, cells=(21, 21)))


@pytest.fixture(scope="session")
def same_source(others, measured):
    """Other showers of the same source against the reference."""
    return assess(observe(others), measured, classify=False)
