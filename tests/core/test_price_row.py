from __future__ import annotations

import datetime as dt

import pytest
from pydantic import ValidationError

from cloudgan.core.price_row import PriceRow

ROW = {
    "provider": "gcp",
    "node_type": "n1-standard-8+1xT4",
    "accelerator": "T4",
    "accelerator_count": 1,
    "accelerator_memory_gib": 16,
    "vcpu": 8,
    "memory_gib": 30,
    "region": "us-central1",
    "market": "spot",
    "usd_per_hour": 0.28,
    "unit_sold": "parts",
    "source": "somebody's list",
    "date": "2026-11-01",
    "confidence": "A",
    "snapshot": "current",
}


def test_a_row_is_named_by_what_makes_it_unique() -> None:
    row = PriceRow.model_validate(ROW)
    assert row.row_id == "node/gcp/n1-standard-8+1xT4/us-central1/spot/current"


def test_age_counts_to_the_day_that_is_given() -> None:
    row = PriceRow.model_validate(ROW)
    assert row.age_days(dt.date(2026, 11, 21)) == 20
    assert row.age_days(dt.date(2027, 11, 1)) == 365


def test_the_age_of_an_undated_row_is_unknown() -> None:
    undated = PriceRow.model_validate(ROW | {"date": "unknown"})
    assert undated.age_days(dt.date(2026, 11, 21)) is None


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("usd_per_hour", 0),
        ("usd_per_hour", -1),
        ("usd_per_hour", float("nan")),
        ("usd_per_hour", float("inf")),
        ("source", ""),
        ("date", "2022"),
        ("date", "20261101"),
        ("date", "2026-13-01"),
        ("date", ""),
        ("market", "preemptible"),
        ("kind", "gpu"),
        ("kind", "control_plane"),  # stands in fees.csv
        ("confidence", "D"),
        ("snapshot", "2022"),
        ("vcpu", 0),
        ("currency", "EUR"),
    ],
)
def test_a_row_that_is_no_fact_is_refused(column: str, value: object) -> None:
    with pytest.raises(ValidationError, match=column):
        PriceRow.model_validate(ROW | {column: value})
