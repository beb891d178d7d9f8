"""A condition as people type it."""

from __future__ import annotations

import math

import pytest

from cloudgan.core.errors import ConfigError, UnknownNameError
from cloudgan.core.until import BY_METRIC, NUMBERS, Until, parse_until


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("metric<0.15", Until("metric", "<", 0.15)),
        (" profile_z <= 1e-1 ", Until("profile_z", "<=", 0.1)),
        ("hits>0", Until("hits", ">", 0.0)),
        ("angle>=-2", Until("angle", ">=", -2.0)),
    ],
)
def test_a_name_a_sign_and_a_number_are_read_with_or_without_spaces(text, read):
    assert parse_until(text) == read


@pytest.mark.parametrize(
    "text", ["", "0.15", "metric", "metric<", "<1", "metric=1", "metric=<1", "a b<1"]
)
def test_anything_else_is_refused_with_an_example_and_the_names(text):
    with pytest.raises(ConfigError, match="metric") as refused:
        parse_until(text)
    assert all(name in str(refused.value) for name in NUMBERS)


@pytest.mark.parametrize("bound", ["nan", "inf", "0.15x", "1,5", "1<2"])
def test_a_bound_that_is_no_number_is_named(bound):
    with pytest.raises(ConfigError, match=f"'{bound}' is no number"):
        parse_until(f"metric<{bound}")


def test_a_misspelt_name_gets_the_nearest_one_and_the_list():
    with pytest.raises(UnknownNameError, match=r"Did you mean 'metric'\?.*separation"):
        parse_until("metrik<0.15")


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
    assert [parse_until(text).holds({"metric": value}) for value in (0.5, 1.0, 1.5)] == holds


@pytest.mark.parametrize("numbers", [{}, {"metric": math.nan}])
@pytest.mark.parametrize("sign", ["<", ">="])
def test_what_is_no_number_never_holds(numbers, sign):
    assert not Until("metric", sign, 0.0).holds(numbers)


def test_better_is_further_on_the_side_of_the_sign():
    assert BY_METRIC.is_better(0.1, 0.2)
    assert not BY_METRIC.is_better(0.2, 0.2)
    assert Until("hits", ">=", 1.0).is_better(0.2, 0.1)


def test_what_is_no_number_is_worse_than_any():
    assert BY_METRIC.is_better(9.0, math.nan)
    assert not BY_METRIC.is_better(math.nan, 9.0)
    assert not BY_METRIC.is_better(math.nan, math.nan)
