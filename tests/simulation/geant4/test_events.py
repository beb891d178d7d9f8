"""Primaries and image windows."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.simulation.geant4.events import (
    STREAM_PRIMARIES,
    EventCells,
    PrimaryRequest,
    crop,
    primary,
)


def requested(**changed):
    return PrimaryRequest(
        **{"seed": 1, "energy_gev": (10.0, 20.0), "theta_deg": (60.0, 120.0)} | changed
    )


def many(count=2000, **changed):
    return [primary(requested(**changed), number) for number in range(count)]


def test_a_primary_is_a_function_of_its_request_and_number():
    forward = many(STREAM_PRIMARIES + 5)
    assert [primary(requested(), n) for n in reversed(range(len(forward)))][::-1] == forward
    for changed in ({"seed": 2}, {"energy_gev": (10.0, 21.0)}):
        assert primary(requested(**changed), 7) != forward[7]
    one = primary(requested(energy_gev=(50.0, 50.0), theta_deg=(90.0, 90.0)), 3)
    assert (one.energy_gev, one.theta_rad) == (50, pytest.approx(np.pi / 2))


def test_primaries_are_flat_in_their_ranges():
    found = many()
    energy = np.array([one.energy_gev for one in found])
    degrees = np.rad2deg([one.theta_rad for one in found])
    for values, low, high in ((energy, 10, 20), (degrees, 60, 120)):
        assert low <= values.min() <= values.max() <= high
        assert np.histogram(values, 4, (low, high))[0] == pytest.approx(500, abs=90)
    # Both are what a file of float32 holds.
    assert all(one.energy_gev == np.float32(one.energy_gev) for one in found)
    assert all(one.theta_rad == np.float32(one.theta_rad) for one in found)
    for place in ("x_mm", "y_mm"):
        values = np.array([getattr(one, place) for one in found])
        assert -2.55 <= values.min() < -2.4 < 2.4 < values.max() <= 2.55


def test_no_two_have_the_same_seeds_and_none_is_zero():
    seeds = {one.seeds for one in many()} | {one.seeds for one in many(seed=2)}
    assert len(seeds) == 4000
    assert all(0 < value < 2**32 for four in seeds for value in four)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"energy_gev": (0.5, 20.0)}, r"--energy=0.5:20: valid range: 1 to 1000 GeV"),
        ({"energy_gev": (10.0, 2000.0)}, "1 to 1000 GeV"),
        ({"energy_gev": (20.0, 10.0)}, "lower bound first"),
        ({"energy_gev": (float("nan"), 10.0)}, "1 to 1000 GeV"),
        ({"theta_deg": (20.0, 90.0)}, r"--theta=20:90: valid range: 45 to 135 degrees"),
        ({"cut_mm": 0.0}, "--cut-mm=0: valid range: 0.01 to 10 mm"),
        ({"seed": -1}, "--seed=-1 is negative; give 0 or more"),
    ],
)
def test_invalid_requests_are_refused(changed, said):
    with pytest.raises(ConfigError, match=said):
        requested(**changed)


SHAPE, WINDOW = (9, 9, 2), (3, 5)


def cells(*hits):
    """Cells from (x, y, layer, energy)."""
    places = sorted((int(np.ravel_multi_index(hit[:3], SHAPE)), hit[3]) for hit in hits)
    place, energy = zip(*places, strict=True) if places else ((), ())
    return EventCells(np.array(place, np.int64), np.array(energy, np.float32))


def image(found):
    dense = np.zeros((*WINDOW, SHAPE[2]), np.float32)
    dense.reshape(-1)[found.flat_index] = found.energy_gev
    return dense


def test_the_barycentre_is_in_the_middle():
    found = image(crop(cells((2, 4, 0, 1.0), (4, 4, 1, 1.0), (3, 6, 1, 0.25)), SHAPE, WINDOW))
    assert found[0, 2, 0] == 1  # the barycentre is in cell (3, 4): the window begins at (2, 2)
    assert found[2, 2, 1] == 1
    assert found[1, 4, 1] == 0.25


def test_cells_outside_the_window_are_discarded():
    found = crop(cells((4, 4, 0, 10.0), (0, 4, 0, 0.5), (4, 8, 1, 0.5)), SHAPE, WINDOW)
    assert found.energy_gev.tolist() == [10.0]


@pytest.mark.parametrize(("x", "y"), [(0, 0), (8, 8)])
def test_at_the_border_the_window_stays_inside(x, y):
    found = crop(cells((x, y, 1, 1.0)), SHAPE, WINDOW)
    wanted = (0, 0, 1) if x == 0 else (2, 4, 1)
    assert np.unravel_index(found.flat_index[0], (*WINDOW, 2)) == wanted


def test_a_shower_without_energy_is_an_empty_image():
    found = crop(cells(), SHAPE, WINDOW)
    assert (len(found.flat_index), len(found.energy_gev)) == (0, 0)
