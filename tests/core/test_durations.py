"""Lengths of time as people type them."""

from __future__ import annotations

import pytest

from cloudgan.core.durations import duration_range, format_duration, parse_duration
from cloudgan.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 7200),
        ("90m", 5400),
        ("90min", 5400),
        ("1h30m", 5400),
        ("1h 30M", 5400),
        ("1.5h", 5400),
        ("45s", 45),
        ("2d", 172_800),
    ],
)
def test_times_are_read(text, seconds):
    assert parse_duration(text, "--deadline") == seconds


@pytest.mark.parametrize(
    "text", ["", "0h", "-2h", "2 hours", "h", "30m1h", "1h1h", "1e3h", "nan", "2w"]
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ConfigError, match="--deadline takes a time such as 2h"):
        parse_duration(text, "--deadline")


def test_a_number_without_unit_is_asked_back():
    with pytest.raises(ConfigError, match=r"did you mean 2\.5h\?"):
        parse_duration("2.5", "--deadline")


def test_times_are_shown_in_the_unit_that_reads_best():
    assert [format_duration(one) for one in (45, 750, 13_032)] == ["45 s", "12.5 min", "3.62 h"]


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (180, 1860, "3 to 31 min"),
        (1860, 12_000, "31 min to 3 h 20 min"),
        (12_000, 19_200, "3 h 20 min to 5 h 20 min"),
        (183_600, 442_800, "2 d 3 h to 5 d 3 h"),
        (1860, 1861, "31 min"),
    ],
)
def test_an_interval_of_times_has_its_unit_once_if_each_time_has_one(low, high, text):
    assert duration_range(low, high) == text
