"""Mixture weights: exact proportions, mutation, and the (1+1) evolution strategy."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.coevolution.evolution import Mixture, Purpose, assign, evolve_weights, random_numbers
from cloudgan.coevolution.task import Draw
from cloudgan.schema.coevolution import SampleQuality


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
