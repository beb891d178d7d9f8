"""The choice among generators of all cells, on pools whose best ensemble is known."""

import numpy as np
import pytest

from cloudgan.coevolution.ensemble import EnsembleSearch
from cloudgan.coevolution.task import Quality

MODES = 8
COVERING = {3, 4, 6, 9}  # the only four of two modes each that cover all


def pool(modes):
    """Samples of some modes, in equal shares."""
    return np.resize(np.array(modes), 240)


@pytest.fixture(scope="module")
def pools():
    halves = {3: (0, 1), 4: (2, 3), 6: (4, 5), 9: (6, 7)}
    others = {0: (0, 2), 1: (0, 4), 2: (2, 6), 5: (4, 6), 7: (0, 6), 8: (2, 4)}
    return {cell: pool(modes) for cell, modes in sorted((halves | others).items())}


def variation(samples):
    shares = np.bincount(samples, minlength=MODES) / len(samples)
    return Quality(
        float(np.abs(shares - 1 / MODES).sum() / 2), {"modes": float((shares > 0).sum())}
    )


def test_greedy_finds_the_four_generators_that_cover_all_modes():
    pools = {cell: pool((2 * (cell // 2), 2 * (cell // 2) + 1)) for cell in range(8)}
    found = EnsembleSearch(pools, variation, seed=1).greedy()
    assert len(found.members) == 4
    assert {cell // 2 for cell in found.members} == {0, 1, 2, 3}
    assert found.quality.details == {"modes": 8.0}
    assert found.quality.score < 0.05  # samples are assigned at random


def test_greedy_stops_where_no_generator_improves_or_at_the_size():
    pools = {0: pool((0, 1, 2, 3)), 1: pool((0, 1)), 2: pool((4, 5)), 3: pool((3,))}
    search = EnsembleSearch(pools, variation, seed=1)
    assert search.greedy(1).members == (0,)
    found = search.greedy()
    assert found.members == (0, 2)
    assert found.scored == 4 + 3 + 2


@pytest.mark.parametrize("size", [4, None])
def test_the_genetic_choice_finds_the_ensemble_that_greedy_steps_miss(pools, size):
    search = EnsembleSearch(pools, variation, seed=1)
    found = search.genetic(size)
    assert set(found.members) == COVERING
    assert found.scored < 2 ** len(pools) / 2
    assert search.greedy(size).quality.score > found.quality.score


def test_ensembles_of_a_fixed_size_keep_it_and_the_seed_decides():
    random = np.random.default_rng(1)
    pools = {cell: random.integers(0, MODES, 50) for cell in range(7)}
    first = EnsembleSearch(pools, variation, seed=3).genetic(3)
    assert len(set(first.members)) == 3
    assert first == EnsembleSearch(pools, variation, seed=3).genetic(3)
    assert EnsembleSearch(pools, variation, seed=3).genetic(20).members == tuple(range(7))


def test_one_generator_is_its_own_ensemble():
    search = EnsembleSearch({5: pool((1,))}, variation, seed=1)
    assert search.greedy().members == search.genetic().members == search.genetic(4).members == (5,)
