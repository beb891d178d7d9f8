"""Samplers on functions whose minimum is known."""

from __future__ import annotations

import statistics

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
