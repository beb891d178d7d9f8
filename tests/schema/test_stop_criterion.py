"""Parsing of a stop criterion, and when a training without progress stops."""

import math
import random

import pytest

from cloudgan.core.errors import ConfigError, UnknownNameError
from cloudgan.schema.stop_criterion import (
    DEFAULT_RANKING,
    METRICS,
    EarlyStop,
    StopCriterion,
    parse_stop_criterion,
)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("metric<0.15", StopCriterion("metric", "<", 0.15)),
        (" profile_z <= 1e-1 ", StopCriterion("profile_z", "<=", 0.1)),
        ("hits>0", StopCriterion("hits", ">", 0.0)),
        ("angle>=-2", StopCriterion("angle", ">=", -2.0)),
    ],
)
def test_a_name_a_sign_and_a_number_are_read_with_or_without_spaces(text, read):
    assert parse_stop_criterion(text) == read


@pytest.mark.parametrize(
    "text", ["", "0.15", "metric", "metric<", "<1", "metric=1", "metric=<1", "a b<1"]
)
def test_anything_else_is_refused_with_an_example_and_the_names(text):
    with pytest.raises(ConfigError, match="metric") as refused:
        parse_stop_criterion(text)
    assert all(name in str(refused.value) for name in METRICS)


@pytest.mark.parametrize("bound", ["nan", "inf", "0.15x", "1,5", "1<2"])
def test_a_bound_that_is_no_number_is_named(bound):
    with pytest.raises(ConfigError, match=f"'{bound}' is not a finite number"):
        parse_stop_criterion(f"metric<{bound}")


def test_a_misspelt_name_gets_the_nearest_one_and_the_list():
    with pytest.raises(UnknownNameError, match=r"Did you mean 'metric'\?.*separation"):
        parse_stop_criterion("metrik<0.15")


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("metric<1", [True, False, False]),
        ("metric<=1", [True, True, False]),
        ("metric>1", [False, False, True]),
        ("metric>=1", [False, True, True]),
    ],
)
def test_each_sign_means_what_it_says_at_the_bound_too(text, holds):
    assert [
        parse_stop_criterion(text).holds({"metric": value}) for value in (0.5, 1.0, 1.5)
    ] == holds


@pytest.mark.parametrize("numbers", [{}, {"metric": math.nan}])
@pytest.mark.parametrize("sign", ["<", ">="])
def test_what_is_no_number_never_holds(numbers, sign):
    assert not StopCriterion("metric", sign, 0.0).holds(numbers)


@pytest.mark.parametrize(
    ("ranking", "best", "others"),
    [
        (DEFAULT_RANKING, 0.1, [0.2, 0.1, math.nan]),
        (StopCriterion("hits", ">=", 1.0), 0.2, [0.1, 0.2, math.nan]),
        (DEFAULT_RANKING, 9.0, [math.nan]),
    ],
)
def test_better_is_further_on_the_side_of_the_sign_and_no_number_is_worst(ranking, best, others):
    assert [ranking.is_better(best, one) for one in others] == [one != best for one in others]
    assert not any(ranking.is_better(one, best) for one in others)
    assert not ranking.is_better(math.nan, math.nan)


MORE_HITS = parse_stop_criterion("hits>2")


def metrics(*values, name="metric"):
    return [{name: value} for value in values]


def stops_after(early, numbers, ranking=DEFAULT_RANKING, name="metric"):
    """How many numbers are looked at before training ends; None: it does not."""
    known = []
    for number in numbers:
        known = (known + metrics(number, name=name))[-early.first_stop :]
        if early.is_over(known, ranking):
            return numbers.index(number) + 1
    return None


@pytest.mark.parametrize(
    ("early", "numbers", "after"),
    [
        (EarlyStop(2, 1), [5, 4, 3, 3.1, 3.2, 1], 5),
        (EarlyStop(2, 1), [5, 4, 3, 3.1, 2.9, 2.8], None),
        (EarlyStop(1, 1), [5, 5.0001], 2),
        (EarlyStop(2, 3), [3, 2.0, 9, 2.1, 2.2, 8, 7], 6),  # medians 3, 2.1, 2.2, 2.2
        (EarlyStop(2, 3), [1, 2, 3, 4], None),
    ],
)
def test_it_ends_when_the_median_has_not_improved_for_the_whole_patience(early, numbers, after):
    assert stops_after(early, numbers) == after


def test_a_metric_that_shall_grow_is_compared_the_other_way():
    early = EarlyStop(1, 1)
    assert stops_after(early, [1, 2, 3, 2.5], MORE_HITS, "hits") == 4
    assert stops_after(early, [3, 2.5, 2], MORE_HITS, "hits") == 2


def test_numbers_that_could_not_be_measured_are_the_worst_ones():
    early = EarlyStop(2, 1)
    assert stops_after(early, [math.nan, 3.0, math.nan, 4.0]) == 4
    assert early.smoothed(metrics(math.nan), MORE_HITS) == [-math.inf]
    assert EarlyStop(1, 3).smoothed(metrics(1.0, math.nan, 2.0), DEFAULT_RANKING) == [2.0]


def test_the_numbers_that_are_kept_suffice_for_the_rule_over_all_numbers():
    draw = random.Random(3)
    for _ in range(300):
        early = EarlyStop(draw.randint(1, 5), draw.randint(1, 4))
        numbers = [draw.random() for _ in range(30)]
        medians = early.smoothed(metrics(*numbers), DEFAULT_RANKING)
        best_ages = [n - medians.index(min(medians[: n + 1])) for n in range(len(medians))]
        by_age = [n + early.smooth for n, age in enumerate(best_ages) if age == early.patience]
        assert stops_after(early, numbers) == next(iter(by_age), None)
