"""Values of --energy, --theta and --step."""

from __future__ import annotations

import pytest

from cloudgan.cli.options.values import parse_range, parse_step
from cloudgan.core.errors import ConfigError


def test_a_step_is_a_number_best_or_by_default_the_newest():
    assert [parse_step(text) for text in ("0", "120", "best", None)] == [0, 120, "best", None]


@pytest.mark.parametrize("text", ["", "-1", "1.5", "worst", "Best", "²"])
def test_any_other_step_is_refused(text):
    with pytest.raises(ConfigError, match="the number of a step, or best"):
        parse_step(text)


def test_a_range_is_two_numbers_or_one_for_both():
    assert parse_range("energy", "10:100") == (10, 100)
    assert parse_range("energy", "50") == (50, 50)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("ten", "10:100"),
        ("1:2:3", "10:100"),
        ("100:10", "--energy=10:100"),
        ("nan:1", "expected a finite number"),
    ],
)
def test_any_other_range_is_refused_with_a_valid_one(text, advice):
    with pytest.raises(ConfigError, match=advice):
        parse_range("energy", text)
