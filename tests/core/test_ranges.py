"""Numbers of users are within the limits of disk, memory and clock."""

from __future__ import annotations

import math

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.core.ranges import Range, parse_whole


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0", "--n=0: expected at least 1"),
        ("-1", "--n=-1: expected at least 1"),
        ("101", "--n=101: expected at most 100"),
        ("9" * 5000, "--n has 5000 digits: expected at most 100"),
        ("-" + "9" * 5000, "--n has 5000 digits: expected at least 1"),
        ("1.5", "--n must be a whole number"),
        ("1e3", "--n must be a whole number"),
        *(
            (text, "--n must be a whole number")
            for text in ("", "1_0_", "_1", "1__0", "+-1", "--1", "1_", "+")
        ),
        ("\N{ARABIC-INDIC DIGIT THREE}", "--n must be a whole number"),
        ("\N{SUPERSCRIPT TWO}", "--n must be a whole number"),
    ],
)
def test_a_number_outside_of_its_range_is_refused_with_the_range(text, said):
    with pytest.raises(ConfigError) as refused:
        parse_whole("--n", text, Range(1, 100))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ("+100", 100), ("1_0", 10), ("0" * 99 + "7", 7)]
)
def test_a_number_in_its_range_is_read(text, value):
    assert parse_whole("--n", text, Range(1, 100)) == value


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 0.0, -1.0, 101.0])
def test_only_finite_numbers_of_the_range_pass(value):
    known = Range(0, 100, above=True)
    known.check("--x", 100)
    with pytest.raises(ConfigError, match="--x="):
        known.check("--x", value)
