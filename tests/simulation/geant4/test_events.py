"""A shower as a line."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.simulation.geant4.events import Event, from_line, to_line
from cloudgan.simulation.geant4.window import Cells

EVENT = Event(
    41, Cells(np.array([3, 70, 65024], np.int64), np.array([1e-7, 0.3333, 2.5], np.float32))
)


def test_a_shower_comes_back_with_all_its_bits():
    line = to_line(EVENT)
    assert "\n" not in line
    number, (place, energy) = from_line(line)
    assert number == 41
    np.testing.assert_array_equal(place, EVENT.cells.place)
    assert energy.tobytes() == EVENT.cells.energy_gev.tobytes()


def test_an_empty_one_too():
    empty = Event(0, Cells(np.zeros(0, np.int64), np.zeros(0, np.float32)))
    assert len(from_line(to_line(empty)).cells.place) == 0


@pytest.mark.parametrize("kept", [0, 1, 30, -1])
def test_a_part_of_a_line_is_none(kept):
    with pytest.raises(ValueError, match="no event"):
        from_line(to_line(EVENT)[:kept])


@pytest.mark.parametrize(
    "line", ["[]", "3", '{"number": 1}', '{"number": 1, "place": "AAAAAA==", "energy_gev": ""}']
)
def test_something_else_is_none(line):
    with pytest.raises(ValueError, match="no event"):
        from_line(line)
