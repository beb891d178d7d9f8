from __future__ import annotations

import numpy as np
import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.data.showers import central, measured_angle
from cloudgan.simulation.gflash import simulate


def all_of(count, **options):
    blocks = list(simulate(count, **{"seed": 7, "cells": (9, 9)} | options))
    return np.concatenate([block.ecal_gev for block in blocks])


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    assert all_of(60).tobytes() == all_of(60).tobytes()
    assert all_of(60).tobytes() != all_of(60, seed=8).tobytes()


def test_a_shower_depends_neither_on_how_many_are_asked_for_nor_on_the_blocks():
    many = all_of(130, block=50)
    assert all_of(60).tobytes() == many[:60].tobytes()
    assert all_of(130, block=100).tobytes() == many.tobytes()


def test_streams_differ_from_each_other():
    showers = all_of(100, block=50)
    assert not np.array_equal(showers[:50], showers[50:])


def test_blocks_are_of_the_size_asked_for_and_the_last_holds_the_rest():
    assert [len(block) for block in simulate(130, seed=1, cells=(5, 5), block=50)] == [50, 50, 30]


def test_a_smaller_window_is_the_middle_of_the_larger():
    large = all_of(50, cells=(51, 51))
    assert np.array_equal(central(large, (17, 17, 25)), all_of(50, cells=(17, 17)))


def test_energies_and_angles_are_flat_in_the_ranges_asked_for():
    asked = {"energy_gev": (20.0, 30.0), "theta_deg": (80.0, 100.0), "cells": (3, 3)}
    blocks = list(simulate(1000, seed=3, **asked))
    energy = np.concatenate([block.energy_gev for block in blocks])
    theta = np.rad2deg(np.concatenate([block.theta_rad for block in blocks]))
    assert energy.min() >= 20
    assert energy.max() <= 30
    assert theta.min() >= 80 - 1e-4
    assert theta.max() <= 100 + 1e-4
    assert energy.mean() == pytest.approx(25, abs=4 * 10 / np.sqrt(12 * 1000))
    assert energy.std() == pytest.approx(10 / np.sqrt(12), rel=0.1)


def test_one_energy_and_one_angle_can_be_asked_for():
    block = next(simulate(50, seed=1, energy_gev=(1.0, 1.0), theta_deg=(90.0, 90.0)))
    assert set(block.energy_gev) == {1.0}
    assert set(block.theta_rad) == {np.float32(np.pi / 2)}


@pytest.mark.parametrize("theta_deg", [1e-9, 180 - 1e-12])
def test_an_angle_at_the_very_edge_still_gives_finite_showers(theta_deg):
    block = next(simulate(50, seed=1, theta_deg=(theta_deg, theta_deg), cells=(9, 9)))
    assert np.isfinite(block.ecal_gev).all()
    assert 0 < block.theta_rad[0] < np.pi


def test_a_block_is_float32_and_carries_its_measured_angle():
    block = next(simulate(50, seed=1))
    assert block.ecal_gev.shape == (50, 51, 51, 25)
    assert {a.dtype for a in (block.ecal_gev, block.energy_gev, block.mtheta_rad)} == {
        np.dtype(np.float32)
    }
    assert np.array_equal(block.mtheta_rad, measured_angle(block.ecal_gev))


class Listed:
    def __init__(self):
        self.total, self.amounts = None, []

    def start(self, task, total=None, unit=""):
        self.total = total

    def advance(self, amount=1, note=""):
        self.amounts.append(amount)

    def say(self, line):
        pass


def test_progress_counts_every_shower():
    progress = Listed()
    list(simulate(120, seed=1, cells=(3, 3), block=50, progress=progress))
    assert progress.total == 120
    assert progress.amounts == [50, 50, 20]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"energy_gev": (0.0, 10.0)}, "1 to 1000 GeV"),
        ({"energy_gev": (-5.0, 10.0)}, "1 to 1000 GeV"),
        ({"energy_gev": (0.5, 10.0)}, "from 0.5 to 10.0 GeV"),
        ({"energy_gev": (100.0, 10.0)}, "the lower one first"),
        ({"energy_gev": (10.0, 2000.0)}, "1 to 1000 GeV"),
        ({"energy_gev": (float("nan"), 100.0)}, "nan"),
        ({"theta_deg": (0.0, 90.0)}, "between 0 and 180"),
        ({"theta_deg": (90.0, 180.0)}, "between 0 and 180"),
        ({"theta_deg": (120.0, 60.0)}, "the lower one first"),
        ({"theta_deg": (60.0, float("inf"))}, "inf"),
        ({"count": 0}, "at least 1"),
        ({"seed": -1}, "0 or more"),
        ({"cells": (0, 51)}, "1 to 255 cells"),
        ({"block": 70}, "multiple of 50"),
        ({"block": 0}, "multiple of 50"),
    ],
)
def test_bad_requests_are_refused_at_the_call(options, told):
    asked = {"count": 10, "seed": 0} | options
    with pytest.raises(ConfigError, match=told):
        simulate(asked.pop("count"), **asked)
