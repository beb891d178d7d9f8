"""An electron is a function of the seed, its number and the ranges."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.simulation.geant4.primaries import STREAM_PRIMARIES, Asked, primary


def asked(**changed):
    return Asked(**{"seed": 1, "energy_gev": (10.0, 20.0), "theta_deg": (60.0, 120.0)} | changed)


def many(count=2000, **changed):
    return [primary(asked(**changed), number) for number in range(count)]


def test_the_same_question_has_the_same_answer_in_any_order():
    forward = many(STREAM_PRIMARIES + 5)
    assert [primary(asked(), n) for n in reversed(range(len(forward)))][::-1] == forward


@pytest.mark.parametrize("changed", [{"seed": 2}, {"energy_gev": (10.0, 21.0)}])
def test_another_question_has_another_answer(changed):
    assert primary(asked(**changed), 7) != primary(asked(), 7)


def test_they_fill_their_ranges_evenly():
    found = many()
    energy = np.array([one.energy_gev for one in found])
    degrees = np.rad2deg([one.theta_rad for one in found])
    for values, low, high in ((energy, 10, 20), (degrees, 60, 120)):
        assert low <= values.min() <= values.max() <= high
        assert np.histogram(values, 4, (low, high))[0] == pytest.approx(500, abs=90)
    for place in ("x_mm", "y_mm"):
        values = np.array([getattr(one, place) for one in found])
        assert -2.55 <= values.min() < -2.4 < 2.4 < values.max() <= 2.55


def test_no_two_have_the_same_seeds_and_none_is_zero():
    seeds = {one.seeds for one in many()} | {one.seeds for one in many(seed=2)}
    assert len(seeds) == 4000
    assert all(0 < value < 2**32 for four in seeds for value in four)


def test_energy_and_angle_are_what_a_file_of_float32_holds():
    one = primary(asked(), 3)
    assert one.energy_gev == float(np.float32(one.energy_gev))
    assert one.theta_rad == float(np.float32(one.theta_rad))


def test_one_value_for_both_ends_gives_that():
    one = primary(asked(energy_gev=(50.0, 50.0), theta_deg=(90.0, 90.0)), 3)
    assert one.energy_gev == 50
    assert one.theta_rad == pytest.approx(np.pi / 2)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"energy_gev": (0.5, 20.0)}, r"--energy=0.5:20: Geant4 simulates 1 to 1000 GeV"),
        ({"energy_gev": (10.0, 2000.0)}, "1 to 1000 GeV"),
        ({"energy_gev": (20.0, 10.0)}, "the lower one first"),
        ({"energy_gev": (float("nan"), 10.0)}, "1 to 1000 GeV"),
        ({"theta_deg": (20.0, 90.0)}, r"--theta=20:90: Geant4 simulates 45 to 135 degrees"),
        ({"cut_mm": 0.0}, "--cut_mm=0: Geant4 simulates 0.01 to 10 mm"),
        ({"seed": -1}, "--seed=-1: a seed is 0 or more"),
    ],
)
def test_what_has_no_sense_is_told(changed, said):
    with pytest.raises(ConfigError, match=said):
        asked(**changed)


def test_a_question_travels_as_json():
    assert Asked.from_json(asked(cut_mm=3.0).as_json()) == asked(cut_mm=3.0)
