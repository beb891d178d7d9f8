"""Islands of ranks, from matrices of bandwidth."""

from __future__ import annotations

import random

import pytest

from cloudgan.bench.islands import find_islands


def matrix(count, link, own=508.0):
    return [[own if a == b else link(a, b) for b in range(count)] for a in range(count)]


def noisy(values, seed):
    chance = random.Random(seed)
    return [[value * chance.lognormvariate(0, 0.1) for value in row] for row in values]


def dgx1(a, b):
    """The links of a DGX-1: each GPU of one half has one to the other half."""
    return 36.8 if a // 4 == b // 4 or abs(a - b) == 4 else 17.0


def test_the_two_halves_of_a_dgx_1_are_islands_in_spite_of_the_links_between_them():
    found = find_islands(matrix(8, dgx1))
    assert found.ranks == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert (found.inside, found.across, found.group) == (36.8, 17.0, 4)


@pytest.mark.parametrize("seed", range(5))
def test_noise_neither_makes_islands_nor_hides_them(seed):
    alike = find_islands(noisy(matrix(8, lambda a, b: 20.0), seed))
    assert alike.ranks == (tuple(range(8)),)
    assert (alike.across, alike.group) == (None, None)
    hosts = find_islands(noisy(matrix(8, lambda a, b: 20.0 if a // 2 == b // 2 else 2.0), seed))
    assert hosts.ranks == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert hosts.group == 2


def test_one_slow_pair_makes_no_island():
    values = matrix(6, lambda a, b: 20.0)
    values[1][4] = 1.0
    assert len(find_islands(values).ranks) == 1
    three = matrix(3, lambda a, b: 1.0 if {a, b} == {0, 1} else 6.0)
    assert find_islands(three).ranks == ((0, 1, 2),)


def test_a_link_counts_with_its_slower_direction():
    found = find_islands(matrix(4, lambda a, b: 20.0 if a // 2 == b // 2 or a < b else 2.0))
    assert found.ranks == ((0, 1), (2, 3))


def test_unequal_islands_have_the_largest_group_that_divides_them():
    home = [0, 0, 0, 0, 1, 1]
    assert find_islands(matrix(6, lambda a, b: 20 if home[a] == home[b] else 2)).group == 2
    lone = [0, 0, 0, 1]
    found = find_islands(matrix(4, lambda a, b: 20 if lone[a] == lone[b] else 2))
    assert (found.ranks, found.group) == (((0, 1, 2), (3,)), None)


def test_ranks_that_alternate_between_islands_fit_no_group():
    found = find_islands(matrix(8, lambda a, b: 20 if a % 2 == b % 2 else 2))
    assert found.ranks == ((0, 2, 4, 6), (1, 3, 5, 7))
    assert found.group is None


def test_two_ranks_are_one_island():
    found = find_islands(matrix(2, lambda a, b: 3.0))
    assert (found.ranks, found.inside) == (((0, 1),), 3.0)
