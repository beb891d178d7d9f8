"""Published start-up times of nodes."""

import datetime as dt

import pytest

from cloudgan.core.clouds import CLOUDS
from cloudgan.core.errors import DataError
from cloudgan.money.forecast import find_startup_time, load_startup_times

HEAD = "provider,least_nodes,low_seconds,high_seconds,source,date,note\n"
ROWS = load_startup_times()


def test_each_cloud_has_a_time_with_its_source_and_its_day():
    assert {row.provider for row in ROWS} == set(CLOUDS)
    for row in ROWS:
        assert row.low_seconds <= row.high_seconds
        assert row.source.startswith("https://github.com/")
        assert dt.date.fromisoformat(row.date) < dt.date(2026, 11, 21)
        assert row.source in row.basis
        assert row.date in row.basis


def test_azure_needs_longer_for_two_nodes_than_for_one():
    one, two, many = (find_startup_time(ROWS, "azure", nodes) for nodes in (1, 2, 16))
    assert one.high_seconds < two.high_seconds
    assert two == many


def test_an_unmeasured_startup_time_is_none():
    assert find_startup_time(ROWS, "elsewhere", 1) is None


def test_a_broken_row_is_named(tmp_path):
    file = tmp_path / "startup.csv"
    file.write_text(f"{HEAD}gcp,1,0,540,a list,2022-03-06,\n")
    with pytest.raises(DataError, match=r"startup.csv:2: low_seconds"):
        load_startup_times(file)
