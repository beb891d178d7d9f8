"""Showers do not depend on who simulates them, nor on how many there are."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.simulation.geant4.farm import Farm
from cloudgan.simulation.geant4.primaries import Asked

ASKED = Asked(3, (2.0, 4.0), (60.0, 120.0))


@pytest.fixture(scope="module")
def alone(installation):
    with Farm(ASKED, installation.tables, 1) as farm:
        return {event.number: event.cells for event in farm.events(range(8))}


def test_every_number_is_simulated_once(alone):
    assert sorted(alone) == list(range(8))
    assert all(len(cells.place) > 20 for cells in alone.values())
    assert all(np.all(np.diff(cells.place) > 0) for cells in alone.values())
    assert all(np.all(cells.energy_gev > 0) for cells in alone.values())


def test_two_workers_and_another_order_give_the_same_bits(alone, installation):
    with Farm(ASKED, installation.tables, 2) as farm:
        for number, cells in farm.events([7, 2, 5, 0]):
            np.testing.assert_array_equal(cells.place, alone[number].place)
            assert cells.energy_gev.tobytes() == alone[number].energy_gev.tobytes()


def test_another_cut_gives_other_showers(alone, installation):
    coarse = Asked(3, (2.0, 4.0), (60.0, 120.0), cut_mm=3.0)
    with Farm(coarse, installation.tables, 1) as farm:
        (event,) = farm.events([0])
    assert event.cells.energy_gev.tobytes() != alone[0].energy_gev.tobytes()


def test_a_shower_leans_along_y_as_its_angle_says(installation):
    """At 60 degrees y grows with depth, at 120 it falls."""
    means = []
    for degrees in (60.0, 120.0):
        asked = Asked(1, (4.0, 4.0), (degrees, degrees))
        with Farm(asked, installation.tables, 1) as farm:
            found = [event.cells for event in farm.events(range(3))]
        image = np.zeros((51, 51, 25))
        for cells in found:
            image.reshape(-1)[cells.place] += cells.energy_gev
        layers = image.sum(0)
        y_mean = np.arange(51) @ layers / layers.sum(0).clip(1e-12)
        means.append(y_mean[12] - y_mean[3])
    assert means[0] > 3
    assert means[1] < -3
