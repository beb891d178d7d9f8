"""Fitness, selection, mutation, replacement and mixture against values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.coevolution.evolution import (
    Mixture,
    Purpose,
    aggregate,
    assign,
    evolve_weights,
    mutate,
    random_numbers,
    replace_worst,
    tournament,
)
from cloudgan.coevolution.task import Draw, Individual
from cloudgan.schema.coevolution import CoevolutionConfig, SampleQuality

LOSSES = np.array([[1.0, 4.0, 1.0], [2.0, 3.0, 2.5], [0.1, np.nan, 0.2]])


def individual(name="0-0/0/g0", *, kind="generator", fitness=1.0, rate=1e-3):
    return Individual(kind, np.zeros(3, np.float32), rate, "bce", fitness, name)


@pytest.mark.parametrize(
    ("how", "expected"),
    [("worst", [4.0, 3.0, np.inf]), ("best", [1.0, 2.0, 0.1]), ("mean", [2.0, 2.5, np.inf])],
)
def test_fitness_is_the_worst_mean_or_best_loss_and_no_loss_is_not_a_number(how, expected):
    assert aggregate(LOSSES, how) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("size", "wins"), [(1, [1000, 1000, 1000]), (2, [0, 2000, 1000]), (3, [0, 3000, 0])]
)
def test_a_tournament_is_won_by_the_fittest_of_those_that_are_drawn(size, wins):
    random = random_numbers(Draw(1, 0, 0, Purpose.TOURNAMENT))
    winners = np.bincount(tournament(np.array([3.0, 1.0, 2.0]), size, 3000, random), minlength=3)
    assert winners == pytest.approx(wins, abs=120)
    assert [won == 0 for won in winners] == [expected == 0 for expected in wins]


def test_the_rate_moves_by_a_gaussian_with_the_given_probability():
    config = CoevolutionConfig(rate_probability=0.5, rate_sigma=1e-4)
    random = random_numbers(Draw(1, 0, 0, Purpose.MUTATION))
    moved = [mutate(individual(), config, random).rate - 1e-3 for _ in range(4000)]
    changed = [step for step in moved if step]
    assert len(changed) == pytest.approx(2000, abs=150)
    assert np.mean(changed) == pytest.approx(0, abs=1e-5)
    assert np.std(changed) == pytest.approx(1e-4, rel=0.06)


def test_a_rate_stays_above_zero():
    config = CoevolutionConfig(rate_probability=1.0, rate_sigma=1.0)
    random = random_numbers(Draw(1, 0, 0, Purpose.MUTATION))
    assert min(mutate(individual(), config, random).rate for _ in range(50)) > 0


def test_losses_are_drawn_and_a_discriminator_has_cross_entropy_for_the_heuristic():
    config = CoevolutionConfig(losses=("bce", "least_squares", "heuristic"))
    random = random_numbers(Draw(1, 0, 0, Purpose.MUTATION))
    drawn = [mutate(individual(), config, random).loss for _ in range(60)]
    assert set(drawn) == {"bce", "least_squares", "heuristic"}
    critic = individual(kind="discriminator")
    assert {mutate(critic, config, random).loss for _ in range(60)} == {"bce", "least_squares"}


@pytest.mark.parametrize(
    ("old", "new", "limit", "expected", "count"),
    [
        pytest.param([1, 3], [2], 1, [1, 2], 1, id="better than the worst"),
        pytest.param([1, 3], [4], 1, [1, 3], 0, id="worse"),
        pytest.param([1], [1], 1, [1], 0, id="equal"),
        pytest.param([1], [np.inf], 1, [1], 0, id="not finite"),
        pytest.param([1, 3, 5], [0.5, 2, 4], 2, [0.5, 1, 2], 2, id="up to the limit"),
        pytest.param([1, 3, 5], [0.5, 2, 4], 3, [0.5, 1, 2], 2, id="the third is no better"),
    ],
)
def test_the_best_new_ones_replace_the_worst_old_ones_where_they_are_better(
    old, new, limit, expected, count
):
    found, entered = replace_worst(
        [individual(f"old {f}", fitness=f) for f in old],
        [individual(f"new {f}", fitness=f) for f in new],
        limit,
    )
    assert [one.fitness for one in found] == expected
    assert entered == count == sum(one.name.startswith("new") for one in found)


def test_random_numbers_differ_by_seed_cell_iteration_purpose_and_batch_and_repeat():
    draws = [Draw(*numbers) for numbers in np.ndindex(2, 3, 3, 3)]
    first = [random_numbers(draw).integers(2**62) for draw in draws]
    assert len(set(first)) == len(draws)
    assert first == [random_numbers(draw).integers(2**62) for draw in draws]
    batches = {random_numbers(draws[0], batch).integers(2**62) for batch in range(9)}
    assert len(batches | set(first)) == 9 + len(draws)


def test_a_child_names_its_parent_and_owns_its_state():
    parent = individual("0-1/3/g0")
    child = parent.child("1-1/4/g0")
    child.state[0] = 7
    assert (child.name, child.parent, parent.state[0]) == ("1-1/4/g0", "0-1/3/g0", 0)


def random(iteration=0, purpose=Purpose.MIXTURE):
    return random_numbers(Draw(1, 0, iteration, purpose))


@pytest.mark.parametrize(
    ("weights", "count", "expected"),
    [
        ([0.5, 0.3, 0.2], 1000, [500, 300, 200]),
        ([0.45, 0.35, 0.2], 3, [1, 1, 1]),
        ([0.7, 0.2, 0.1], 4, [3, 1, 0]),
        ([0.2, 0.5, 0.3], 1, [0, 1, 0]),
    ],
)
def test_members_get_samples_in_proportion_rounded_by_the_largest_remainder_and_permuted(
    weights, count, expected
):
    chosen = assign(np.array(weights), count, random())
    assert np.bincount(chosen, minlength=3).tolist() == expected
    assert count < 1000 or not (np.diff(chosen) >= 0).all()


def test_a_mutated_mixture_is_normalised_and_not_negative():
    mixture = Mixture((0, 1, 2), (0.98, 0.01, 0.01))
    for iteration in range(50):
        mutated = mixture.mutated(0.1, random(iteration))
        assert min(mutated.weights) >= 0
        assert sum(mutated.weights) == pytest.approx(1)
    assert mutated.weights != mixture.weights


def test_a_mixture_that_lost_all_weight_is_uniform():
    assert Mixture((0, 1), (1.0, 0.0)).mutated(0.0, random()).weights == (1.0, 0.0)
    mutations = [Mixture((0, 1), (0.5, 0.5)).mutated(1e6, random(n)).weights for n in range(40)]
    assert (0.5, 0.5) in mutations  # both fell below zero
    assert all(sum(weights) == pytest.approx(1) for weights in mutations)


def test_new_neighbours_get_the_mean_weight_and_common_ones_keep_their_ratio():
    mixture = Mixture((0, 1, 2), (0.6, 0.2, 0.2)).with_members((0, 2, 5))
    assert mixture.members == (0, 2, 5)
    assert mixture.weights == pytest.approx((0.5, 1 / 6, 1 / 3))


def test_sample_n_of_a_mixture_is_sample_n_of_a_member():
    pools = {4: np.arange(10), 7: np.arange(10) + 100}
    found = Mixture((4, 7), (0.5, 0.5)).samples(pools, random())
    assert (found % 100).tolist() == list(range(10))
    assert (found >= 100).sum() == 5


def distance_from_half(samples):
    return SampleQuality(score=abs(float(samples.mean()) - 0.5))


def test_the_strategy_keeps_the_better_mixture_and_finds_the_best_shares():
    pools = {0: np.zeros(1000), 1: np.ones(1000)}
    mixture, scores = Mixture((0, 1), (0.95, 0.05)), []
    for iteration in range(200):
        mixture, quality = evolve_weights(
            mixture,
            lambda cell, rows: pools[cell][rows],
            distance_from_half,
            count=1000,
            sigma=0.05,
            mutation=random(iteration),
            sampling=lambda: random(0, Purpose.SCORE),
        )
        scores.append(quality.score)
    assert scores == sorted(scores, reverse=True)
    assert mixture.weights == pytest.approx((0.5, 0.5), abs=0.02)


def test_only_samples_of_one_of_the_two_mixtures_are_measured_each_once():
    pools, asked, scored = {4: np.arange(1000.0), 7: np.arange(1000.0) + 0.5}, [], []

    def measured(cell, rows):
        asked.append(pools[cell][rows])
        return asked[-1]

    def quality(samples):
        scored.append(samples.copy())
        return SampleQuality(score=1.0)

    parent = Mixture((4, 7), (0.6, 0.4))
    evolve_weights(
        parent, measured, quality, count=1000, sigma=0.02, mutation=random(), sampling=random
    )
    assert len(np.unique(np.concatenate(asked))) == sum(map(len, asked))
    child = parent.mutated(0.02, random())
    for mixture, samples in zip((parent, child), scored, strict=True):
        np.testing.assert_array_equal(samples, mixture.samples(pools, random()))
    assert 1000 < sum(map(len, asked)) < 1100
