import math
import random

import pytest

from cloudgan.schema.stop_criterion import DEFAULT_RANKING, EarlyStop, parse_stop_criterion

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
