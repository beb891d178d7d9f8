"""Samplers on functions whose minimum is known."""

from __future__ import annotations

import statistics

import cmaes
import numpy as np
import optuna
import pytest

from cloudgan.schema.search import Dimension
from cloudgan.search.samplers import distributions, grid, make_sampler

optuna.logging.set_verbosity(optuna.logging.ERROR)


def cube(size):
    return {name: Dimension(low=0.0, high=1.0) for name in "abcdef"[:size]}


def quadratic(point):
    return (point["a"] - 0.3) ** 2 + 2 * (point["b"] - 0.7) ** 2


def sphere(point):
    return sum((value - 0.37) ** 2 for value in point.values())


def searched(name, space, function, trials, *, seed, at_once=1):
    study = optuna.create_study()
    running = []
    for number in range(trials):
        study.sampler = make_sampler(name, space, seed=seed, number=number, trials=trials)
        running.append(study.ask(distributions(space)))
        if len(running) == at_once:
            trial = running.pop(0)
            study.tell(trial, function(trial.params))
    for trial in running:
        study.tell(trial, function(trial.params))
    return study


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 4])
def test_the_gaussian_process_finds_the_minimum_of_a_quadratic_in_25_trials(at_once):
    assert searched("gp", cube(2), quadratic, 25, seed=0, at_once=at_once).best_value <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["evolution", "cmaes"])
def test_a_rule_of_generations_comes_ten_times_closer_than_random_in_120_trials(sampler):
    found = {
        name: statistics.median(
            searched(name, cube(6), sphere, 120, seed=seed).best_value for seed in range(5)
        )
        for name in (sampler, "random")
    }
    assert found[sampler] <= found["random"] / 10


@pytest.mark.parametrize("name", ["gp", "evolution", "cmaes", "tpe", "nsgaii", "random", "grid"])
def test_every_sampler_stays_in_ranges_integers_and_choices(name):
    space = {
        "rate": Dimension(low=1e-4, high=1e-1, log=True),
        "channels": Dimension(low=1, high=4),
        "optimizer": Dimension(choices=("adam", "rmsprop")),
    }
    study = searched(name, space, lambda point: point["rate"] * point["channels"], 16, seed=1)
    for trial in study.trials:
        assert 1e-4 <= trial.params["rate"] <= 1e-1
        assert trial.params["channels"] in {1, 2, 3, 4}
        assert trial.params["optimizer"] in {"adam", "rmsprop"}
    assert len({tuple(trial.params.values()) for trial in study.trials}) > 6


def test_a_grid_has_both_ends_of_every_range_and_at_most_the_trials():
    space = {"a": Dimension(low=0.0, high=1.0), "b": Dimension(choices=("x", "y", "z"))}
    found = grid(space, 13)
    assert len(found) == 12
    assert sorted(found[:, 0])[::3] == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_the_gaussian_process_asks_no_point_twice_where_a_corner_is_best():
    """A training with the same seed has the same result."""
    study = searched("gp", cube(3), lambda point: sum(point.values()) ** 2, 16, seed=1, at_once=2)
    points = {tuple(trial.params.values()) for trial in study.trials}
    assert (0, 0, 0) in points
    assert len(points) == 16


def test_a_point_that_failed_is_not_asked_again():
    space = cube(1)
    study = optuna.create_study()
    asked = []
    for number in range(14):
        study.sampler = make_sampler("gp", space, seed=2, number=number, trials=14)
        trial = study.ask(distributions(space))
        value = trial.params["a"]
        asked.append(value)
        if value < 0.5:  # the optimum is where the program fails
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, value)
    assert sum(value < 0.45 for value in asked[8:]) <= 2


@pytest.mark.parametrize("name", ["gp", "evolution", "cmaes", "random"])
@pytest.mark.parametrize("at_once", [1, 3])
def test_no_values_are_asked_twice_until_all_were(name, at_once):
    """Two positions in the unit cube may be the same integer and choice, so the same training."""
    space = {"channels": Dimension(low=1, high=6), "optimizer": Dimension(choices=("a", "b", "c"))}
    study = searched(
        name, space, lambda point: (point["channels"] - 2) ** 2, 21, seed=3, at_once=at_once
    )
    points = [tuple(trial.params.values()) for trial in study.trials]
    assert len(set(points[:18])) == 18
    assert len(points) == 21  # nothing new is left


def test_cmaes_learns_from_trials_as_they_ended_with_those_that_failed_in_their_place():
    space, seed, size = cube(2), 5, 6
    study = optuna.create_study()
    for number in range(3 * size):
        study.sampler = make_sampler("random", space, seed=seed, number=number, trials=100)
        study.ask(distributions(space))
    order = [4, 0, 2, 9, 1, 3, 17, 5, 16, 6, 7, 8, 10, 11, 15, 12]  # 13 and 14 still run
    told = []
    for number in order:
        point = study.trials[number].params
        failed = number in {2, 16}
        state = optuna.trial.TrialState.FAIL if failed else None
        study.tell(number, None if failed else sphere(point), state=state)
        told.append((np.array(list(point.values())), 1e9 if failed else sphere(point)))
    study.sampler = make_sampler("cmaes", space, seed=seed, number=18, trials=100)
    asked = study.ask(distributions(space)).params
    drawn = int(np.random.default_rng((seed, 18)).integers(2**31))
    bounds = np.tile([0.0, 1.0], (2, 1))
    expected = cmaes.CMA(np.full(2, 0.5), 0.3, bounds=bounds, seed=drawn)
    assert expected.population_size == size
    for generation in (told[:size], told[size : 2 * size]):
        expected.tell(generation)
    assert list(asked.values()) == pytest.approx(list(expected.ask()), abs=1e-12)
