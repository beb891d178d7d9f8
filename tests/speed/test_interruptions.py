"""Interruptions of spot nodes in public traces."""

from __future__ import annotations

import datetime as dt

import pytest

from cloudgan.core.errors import DataError
from cloudgan.speed.interruptions import interruption_rate, load_interruption_traces

HEAD = "provider,accelerator,node_type,zone,nodes,node_hours,interruptions,source,date,note\n"
ROWS = load_interruption_traces()


def test_each_trace_has_an_address_of_one_version_and_a_day_or_none():
    for row in ROWS:
        assert row.source.startswith("https://github.com/")
        assert "/blob/" in row.source
        assert row.date == "unknown" or dt.date.fromisoformat(row.date) < dt.date(2026, 11, 21)


@pytest.mark.parametrize(
    ("accelerator", "rate", "low", "high"),
    [("V100", 0.137, 0.048, 0.289), ("T4", 0.225, 0.175, 0.540)],
)
def test_a_rate_is_that_of_all_traces_of_the_accelerator_together(accelerator, rate, low, high):
    found = interruption_rate("aws", accelerator)
    assert found[:3] == pytest.approx((rate, low, high), abs=0.002)
    assert found.basis.startswith(f"public traces of {accelerator}, ")


def test_an_accelerator_without_a_trace_has_the_rate_of_its_clouds_other_ones():
    found = interruption_rate("aws", "H100")
    assert found.accelerators == ("T4", "V100")
    assert (found.low, found.high) == pytest.approx((0.048, 0.540), abs=0.002)
    assert 0.137 < found.per_node_hour < 0.225


@pytest.mark.parametrize("provider", ["gcp", "azure", "lambda"])
def test_a_cloud_without_a_trace_has_no_rate(provider):
    assert interruption_rate(provider, "V100") is None


def test_a_broken_row_is_named(tmp_path):
    file = tmp_path / "interruptions.csv"
    file.write_text(f"{HEAD}gcp,V100,n1,a,4,0,3,https://example.org,2022-03-06,\n")
    with pytest.raises(DataError, match=r"interruptions.csv:2: node_hours"):
        load_interruption_traces(file)
