"""A fee is a positive price with a unit, a source and a day, or it is no row."""

from __future__ import annotations

import datetime as dt

import pytest
from pydantic import ValidationError

from cloudgan.core.fee_row import FeeRow

ROW = {
    "provider": "gcp",
    "kind": "control_plane",
    "name": "GKE standard",
    "region": "any",
    "usd": 0.1,
    "unit": "hour",
    "source": "a page",
    "date": "2026-11-01",
    "confidence": "A",
}


def test_a_fee_names_itself_and_its_age() -> None:
    row = FeeRow.model_validate(ROW)
    assert row.row_id == "control_plane/gcp/GKE standard/any/current"
    assert row.age_days(dt.date(2026, 11, 21)) == 20
    assert FeeRow.model_validate(ROW | {"date": "unknown"}).age_days(dt.date(2026, 11, 21)) is None


@pytest.mark.parametrize(
    ("column", "value"),
    [("usd", 0), ("usd", -1), ("unit", "month"), ("kind", "node"), ("date", ""), ("name", "")],
)
def test_a_fee_that_is_no_fact_is_refused(column: str, value: object) -> None:
    with pytest.raises(ValidationError, match=column):
        FeeRow.model_validate(ROW | {column: value})
