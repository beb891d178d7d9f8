"""The choice among generators of all cells, on pools whose best ensemble is known, beside the mixture."""

from dataclasses import replace

import numpy as np
import pytest

from cloudgan.coevolution.cell import CellState, Population
from cloudgan.coevolution.ensemble import EnsembleSearch, compare
from cloudgan.coevolution.evolution import Mixture
from cloudgan.coevolution.task import Individual
from cloudgan.schema.coevolution import CoevolutionConfig, SampleQuality
from coevolution.quadratic_game import QuadraticGame, QuadraticPair

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
    return SampleQuality(
        score=float(np.abs(shares - 1 / MODES).sum() / 2),
        details={"modes": float((shares > 0).sum())},
    )


def test_greedy_finds_the_four_generators_that_cover_all_modes():
    pools = {cell: pool((2 * (cell // 2), 2 * (cell // 2) + 1)) for cell in range(8)}
    found = EnsembleSearch(pools, variation, seed=1).greedy()
    assert len(found.cells) == 4
    assert {cell // 2 for cell in found.cells} == {0, 1, 2, 3}
    assert found.quality.details == {"modes": 8.0}
    assert found.quality.score < 0.05  # samples are assigned at random


def test_greedy_stops_where_no_generator_improves_or_at_the_size():
    pools = {0: pool((0, 1, 2, 3)), 1: pool((0, 1)), 2: pool((4, 5)), 3: pool((3,))}
    search = EnsembleSearch(pools, variation, seed=1)
    assert search.greedy(1).cells == (0,)
    found = search.greedy()
    assert found.cells == (0, 2)
    assert found.scored == 4 + 3 + 2


@pytest.mark.parametrize("size", [4, None])
def test_the_genetic_choice_finds_the_ensemble_that_greedy_steps_miss(pools, size):
    search = EnsembleSearch(pools, variation, seed=1)
    found = search.genetic(size)
    assert set(found.cells) == COVERING
    assert found.scored < 2 ** len(pools) / 2
    assert search.greedy(size).quality.score > found.quality.score


def test_ensembles_of_a_fixed_size_keep_it_and_the_seed_decides():
    random = np.random.default_rng(1)
    pools = {cell: random.integers(0, MODES, 50) for cell in range(7)}
    first = EnsembleSearch(pools, variation, seed=3).genetic(3)
    assert len(set(first.cells)) == 3
    assert first == EnsembleSearch(pools, variation, seed=3).genetic(3)
    assert EnsembleSearch(pools, variation, seed=3).genetic(20).cells == tuple(range(7))


def test_one_generator_is_its_own_ensemble():
    search = EnsembleSearch({5: pool((1,))}, variation, seed=1)
    assert search.greedy().cells == search.genetic().cells == search.genetic(4).cells == (5,)


CONFIG = CoevolutionConfig(score_samples=400)
LEVELS = (0.2, 1.8, 0.9, 1.01)
"""The game's score is the distance of a generator's level from 1."""


def individual(level):
    state = np.array([level, level, level, 0], np.float32)
    return Individual("generator", state, 1e-3, "bce", 0.0, "")


@pytest.fixture
def states():
    mixture = Mixture((1, 0, 2), (0.0, 0.25, 0.75))
    scores = (3.0, 1.0, 2.0, float("inf"))
    return [
        CellState(7, Population((individual(level),), ()), mixture, score)
        for level, score in zip(LEVELS, scores, strict=True)
    ]


def measure(states, **options):
    return compare(CONFIG, states, task=QuadraticGame(), pair=QuadraticPair(), **options)


def test_the_mixture_of_the_best_cell_is_measured_beside_its_best_member_and_equal_weights(states):
    found = measure(states)
    assert (found.iteration, found.cell, found.samples) == (7, 1, 400)
    assert found.mixture.score == pytest.approx(0.25 * 0.8 + 0.75 * 0.1, abs=0.01)
    assert found.best_generator_cell == 2
    assert found.best_generator.score == pytest.approx(0.1, abs=0.01)
    assert found.uniform.score == pytest.approx((0.8 + 0.8 + 0.1) / 3, abs=0.01)
    assert found.ensemble is None


def test_the_ensemble_may_have_generators_of_all_cells(states):
    found = measure(states, ensemble="greedy").ensemble
    assert (found.method, found.cells) == ("greedy", (3,))  # no neighbour of the best cell
    assert len(measure(states, ensemble="genetic", size=2).ensemble.cells) == 2


def test_without_an_ensemble_only_the_members_generate(states):
    other = replace(states[3], population=Population((), ()))
    assert measure([*states[:3], other]).cell == 1
