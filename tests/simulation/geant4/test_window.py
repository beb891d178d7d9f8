"""The image follows the shower; it never leaves the simulated planes."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.simulation.geant4.window import Cells, crop

SHAPE, WINDOW = (9, 9, 2), (3, 5)


def cells(*hits):
    """Of (x, y, layer, energy)."""
    places = sorted((int(np.ravel_multi_index(hit[:3], SHAPE)), hit[3]) for hit in hits)
    place, energy = zip(*places, strict=True) if places else ((), ())
    return Cells(np.array(place, np.int64), np.array(energy, np.float32))


def image(found):
    dense = np.zeros((*WINDOW, SHAPE[2]), np.float32)
    dense.reshape(-1)[found.place] = found.energy_gev
    return dense


def test_the_barycentre_stands_in_the_middle():
    found = image(crop(cells((2, 4, 0, 1.0), (4, 4, 1, 1.0), (3, 6, 1, 0.25)), SHAPE, WINDOW))
    assert found[0, 2, 0] == 1  # the barycentre is in cell (3, 4): the window begins at (2, 2)
    assert found[2, 2, 1] == 1
    assert found[1, 4, 1] == 0.25


def test_what_is_outside_is_lost():
    found = crop(cells((4, 4, 0, 10.0), (0, 4, 0, 0.5), (4, 8, 1, 0.5)), SHAPE, WINDOW)
    assert found.energy_gev.tolist() == [10.0]


@pytest.mark.parametrize(("x", "y"), [(0, 0), (8, 8)])
def test_at_the_border_the_window_stays_inside(x, y):
    found = crop(cells((x, y, 1, 1.0)), SHAPE, WINDOW)
    wanted = (0, 0, 1) if x == 0 else (2, 4, 1)
    assert np.unravel_index(found.place[0], (*WINDOW, 2)) == wanted


def test_a_shower_that_left_nothing_is_an_empty_image():
    found = crop(cells(), SHAPE, WINDOW)
    assert (len(found.place), len(found.energy_gev)) == (0, 0)
