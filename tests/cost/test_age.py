"""The age of a price is always told, and never made up."""

from __future__ import annotations

import datetime as dt

import pytest

from cloudgan.core.fee_row import FeeRow
from cloudgan.cost.age import age_text, is_stale
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.fees import load_fees

TODAY = dt.date(2026, 11, 21)


def fee(date: str, note: str = "") -> FeeRow:
    return FeeRow(
        provider="gcp",
        kind="disk",
        name="a disk",
        region="any",
        usd=0.1,
        unit="gib_month",
        source="a page",
        date=date,
        confidence="A",
        note=note,
    )


@pytest.mark.parametrize(
    ("date", "note", "text", "stale"),
    [
        ("2026-11-21", "", "2026-11-21, 0 days old", False),
        ("2026-11-20", "", "2026-11-20, 1 day old", False),
        ("2026-08-23", "", "2026-08-23, 90 days old", False),
        ("2026-08-22", "", "2026-08-22, 91 days old", True),
        ("2026-11-22", "", "2026-11-22, dated in the future", True),
        ("unknown", "", "age unknown", True),
        ("unknown", "x; as of: about 2024; y", "age unknown (about 2024)", True),
    ],
)
def test_the_age_is_told_and_old_or_undated_is_stale(
    date: str, note: str, text: str, stale: bool
) -> None:
    row = fee(date, note)
    assert age_text(row, TODAY) == text
    assert is_stale(row, TODAY) is stale


def test_every_shipped_row_has_an_age_that_says_something() -> None:
    for row in (*load_catalog().rows, *load_fees().rows):
        assert age_text(row, TODAY) != "age unknown", row.row_id
