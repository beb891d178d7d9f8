from __future__ import annotations

import numpy as np
import pytest

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
