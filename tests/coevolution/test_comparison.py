"""The mixture of a grid beside its members and beside an ensemble, with pools of known answer."""

from dataclasses import replace

import numpy as np
import pytest

from cloudgan.coevolution.cell import CellState, Population
from cloudgan.coevolution.comparison import compare
from cloudgan.coevolution.individual import Individual
from cloudgan.coevolution.mixture import Mixture
from cloudgan.schema.coevolution import CoevolutionConfig
from coevolution.quadratic_game import QuadraticGame, QuadraticPair

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
