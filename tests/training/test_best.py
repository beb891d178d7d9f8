"""Which checkpoint is the best."""

from __future__ import annotations

import math

import pytest

from cloudgan.core.until import BY_METRIC, parse_until
from cloudgan.training.best import Best

pytestmark = pytest.mark.tf


def best(metric, **others):
    return Best(step=10, epoch=0, numbers={"metric": metric} | others)


def test_the_first_that_has_a_number_is_the_best():
    assert best(9.0).beats(None, BY_METRIC)
    assert not best(math.nan).beats(None, BY_METRIC)


def test_of_two_that_are_as_good_the_earlier_stays():
    assert best(0.1).beats(best(0.2), BY_METRIC)
    assert not best(0.2).beats(best(0.2), BY_METRIC)


def test_another_number_ranks_those_that_were_measured_before():
    ranking = parse_until("hits>=0.9")
    assert best(0.5, hits=0.8).beats(best(0.1, hits=0.7), ranking)
    assert best(0.5, hits=0.8).beats(best(0.1), ranking)
    assert not best(0.1).beats(best(0.5, hits=0.8), ranking)
