from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from cloudgan.validation.observables.bins import Bins, bins_for


def sample(energies, degrees=(60, 120)):
    energies = np.asarray(energies, float)
    angles = np.resize(np.deg2rad(np.asarray(degrees, float)), len(energies))
    return SimpleNamespace(energy_gev=energies, requested_rad=angles, __len__=None)


class Fake(SimpleNamespace):
    def __len__(self):
        return len(self.energy_gev)


def bins(energies, degrees=(60, 120), known=True, count=None):
    one = Fake(**{k: v for k, v in vars(sample(energies, degrees)).items() if k != "__len__"})
    return bins_for(SimpleNamespace(generated=one, reference=one, angle_known=known), count)


@pytest.mark.parametrize(
    ("energies", "edges"),
    [
        ([10.3, 99.2], (10, 40, 70, 100)),
        ([10.03, 19.98], (10, 13.333, 16.667, 20)),
        ([100, 200], (100, 133.33, 166.67, 200)),
        ([100.00001, 199.99999], (100, 133.33, 166.67, 200)),
        ([2.1, 497], (0, 166.67, 333.33, 500)),
        ([50, 50.01], (50, 50.01)),
    ],
)
def test_energy_bins_are_thirds_of_the_range_rounded_outwards(energies, edges):
    assert bins(energies).energy_gev == pytest.approx(edges, rel=1e-4)


def test_with_many_showers_there_are_bins_of_ten_gev():
    assert bins(np.linspace(10, 100, 3000)).energy_gev == pytest.approx(range(10, 101, 10))
    assert bins(np.linspace(10, 100, 2999)).energy_gev == pytest.approx(range(10, 101, 30))


def test_bins_are_named_with_their_unit():
    assert bins([10.3, 99.2]).names() == (
        ("10-40 GeV", "40-70 GeV", "70-100 GeV"),
        ("60-80 deg", "80-100 deg", "100-120 deg"),
    )
    assert bins([50, 50]).names()[0] == ("50 GeV",)
    assert bins([10, 90], known=False).names()[1] == ()
    assert bins([10, 90], degrees=(90, 90)).names()[1] == ()


def test_every_shower_falls_into_one_bin(measured):
    edges = Bins((10.0, 40.0, 70.0, 100.0), (60.0, 90.0, 120.0))
    few = replace(
        measured[:6],
        energy_gev=np.array([9.0, 39.9, 40.0, 70.0, 100.0, 101.0]),
        requested_rad=np.deg2rad([50.0, 89.9, 90.0, 119, 120, 130]),
    )
    energy, angle = edges.bin_numbers(few)
    assert energy.tolist() == [0, 0, 1, 2, 2, 2]
    assert angle.tolist() == [0, 0, 1, 1, 1, 1]
    assert edges.shape == (3, 2)
