"""The same showers with the same noise each time, measured beside held-back ones."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.core.errors import DataError
from cloudgan.core.presets import find_preset
from cloudgan.core.progress import Silent
from cloudgan.core.until import NUMBERS
from cloudgan.data.showers import join_showers, measured_angle
from cloudgan.models.networks import build_generator
from cloudgan.simulation.gflash import simulate
from cloudgan.training import judge as judging
from cloudgan.training.generating import Conditions, ShowerGenerator
from cloudgan.training.judge import Judge
from cloudgan.validation.observables import observe
from cloudgan.validation.quality import quick_numbers

pytestmark = pytest.mark.tf
PRESET = find_preset("smoke")


class HeldBack:
    """As much of a training set as a judge reads."""

    def __init__(self, showers):
        self.showers, self.held_back_count = showers, len(showers)
        self.read = []

    def held_back_rows(self, rows):
        self.read.append(rows)
        return self.showers[rows]


@pytest.fixture(scope="module")
def showers():
    return join_showers(simulate(60, seed=3, cells=(11, 11), block=50))


@pytest.fixture(scope="module")
def weights():
    return build_generator(PRESET).get_weights()


def judge(showers, seen, *, seed=1):
    def measure(generated, reference):
        seen.append((generated, reference))
        return {"metric": generated.sum_gev.mean() / reference.sum_gev.mean()}

    return Judge(PRESET, HeldBack(showers), seed=seed, measure=measure)


def numbers(one, weights):
    return one.numbers(weights, Silent(), gives_up=lambda: False)


def test_the_same_generator_gets_the_same_numbers_and_another_one_others(showers, weights):
    one = judge(showers, [])
    first = numbers(one, weights)
    other = numbers(one, [weight * 1.5 for weight in weights])
    assert other != first
    assert numbers(one, weights) == first == numbers(judge(showers, []), weights)


def test_each_reference_shower_has_a_generated_one_of_its_energy_and_angle(showers, weights):
    one = judge(showers, seen := [])
    numbers(one, weights)
    ((generated, reference),) = seen
    np.testing.assert_array_equal(generated.energy_gev, reference.energy_gev)
    np.testing.assert_array_equal(generated.requested_rad, reference.requested_rad)
    rows = np.argsort(showers.theta_rad)
    order = np.argsort(reference.requested_rad)
    np.testing.assert_array_equal(reference.energy_gev[order], showers.energy_gev[rows])
    angles = measured_angle(showers.ecal_gev[rows, 1:-1, 1:-1])
    generator = ShowerGenerator(PRESET)
    generator.set_weights(weights)
    asked = Conditions(reference.energy_gev.astype(np.float32), angles[np.argsort(order)])
    same = observe(join_showers(generator.showers(asked, seed=1)))
    np.testing.assert_allclose(generated.profile_z_gev, same.profile_z_gev, rtol=1e-4, atol=1e-9)


def test_what_the_network_cannot_see_is_cut_off(showers, weights):
    numbers(judge(showers, seen := []), weights)
    whole = showers.ecal_gev[:, 1:-1, 1:-1].sum((1, 2, 3))
    np.testing.assert_allclose(np.sort(seen[0][1].sum_gev), np.sort(whole), rtol=1e-4)


def test_a_few_of_many_are_taken_from_all_over_by_the_seed(showers, weights, monkeypatch):
    monkeypatch.setattr(judging, "SHOWERS", 20)
    one, other = (judge(showers, [], seed=seed) for seed in (1, 2))
    for each in (one, one, other):
        numbers(each, weights)
    (rows,), (others,) = one._showers.read, other._showers.read
    assert len(rows) == len(set(rows)) == len(one) == 20
    assert max(rows) >= 40, "not only the first of the file"
    assert set(rows) != set(others)


def test_who_is_told_to_stop_gives_up_after_a_few_showers(showers, weights):
    asked = []
    one = judge(showers, seen := [])
    assert one.numbers(weights, Silent(), gives_up=lambda: asked.append(1) or True) is None
    assert (len(asked), seen) == (1, [])


def test_a_generator_without_numbers_is_no_reference_without_numbers(showers, weights):
    with pytest.raises(DataError, match="generated showers"):
        numbers(judge(showers, []), [np.full_like(weight, np.nan) for weight in weights])


def test_the_numbers_that_can_be_asked_for_are_those_that_are_measured():
    many = join_showers(simulate(200, seed=4, cells=(9, 9), block=50))
    first, second = (observe(many[slice(part, None, 2)]) for part in (0, 1))
    assert tuple(quick_numbers(first, second)) == NUMBERS
