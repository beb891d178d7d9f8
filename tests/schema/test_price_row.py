"""Price rows have an id, an age and a validated date."""

import datetime as dt

import pytest
from pydantic import ValidationError

from cloudgan.schema.price_row import FeeRow, PoolFee, PriceRow
from records import price_row
from tests.money.conftest import fee

TODAY = dt.date(2026, 11, 21)
ROW = price_row(usd_per_hour=0.28).model_dump()
FEE = fee("control_plane", 0.1, "GKE standard").model_dump()


def test_a_row_and_a_fee_are_named_by_what_makes_them_unique():
    assert price_row().row_id == "node/gcp/n1-standard-96+8xV100/us-central1/spot/current"
    assert FeeRow(**FEE).row_id == "control_plane/gcp/GKE standard/any/current"


RANGE = {"low_usd_per_hour": 0.2, "high_usd_per_hour": 0.4, "range_since": "2026-10-02"}


@pytest.mark.parametrize(
    ("row", "wrong", "said"),
    [
        *(
            (ROW, {column: value}, column)
            for column, values in {
                "usd_per_hour": (0, -1, float("nan"), float("inf")),
                "source": ("",),
                "date": ("2022", "20261101", "2026-13-01", "", "01.11.2026", "Unknown"),
                "market": ("preemptible",),
                "kind": ("gpu", "control_plane"),  # the latter stands in fees.csv
                "confidence": ("D",),
                "snapshot": ("2022",),
                "vcpu": (0,),
                "currency": ("EUR",),
            }.items()
            for value in values
        ),
        *(
            (FEE, {column: value}, column)
            for column, value in (
                *(("usd", 0), ("usd", -1), ("unit", "month")),
                *(("kind", "node"), ("date", ""), ("name", "")),
            )
        ),
        (
            {"kind": "load_balancer"},
            {},
            "not billed per node; valid: disk, public_ip, nat, requests",
        ),
        ({"kind": "nat", "per_node": False}, {}, "once for the cluster; valid: control_plane,"),
        ({"kind": "egress_gib"}, {}, "egress_gib is not billed per node"),
        (ROW | RANGE, {"high_usd_per_hour": None}, "or none"),
        (ROW | RANGE, {"range_since": "unknown"}, "or none"),
        (ROW | RANGE, {"low_usd_per_hour": 0.3}, "0.28 USD/h is not between 0.3 and 0.4"),
        (ROW | RANGE, {"high_usd_per_hour": 0.25}, "0.28 USD/h is not between 0.2 and 0.25"),
    ],
)
def test_a_row_that_is_no_fact_is_refused(row, wrong, said):
    model = FeeRow if row is FEE else PriceRow if "node_type" in row else PoolFee
    with pytest.raises(ValidationError, match=said):
        model.model_validate(row | wrong)


@pytest.mark.parametrize(
    ("date", "note", "text", "ago", "stale"),
    [
        ("2026-11-21", "", "2026-11-21, 0 days old", "0 days ago", False),
        ("2026-11-20", "", "2026-11-20, 1 day old", "1 day ago", False),
        ("2026-08-23", "", "2026-08-23, 90 days old", "90 days ago", False),
        ("2026-08-22", "", "2026-08-22, 91 days old", "91 days ago", True),
        ("2025-11-21", "", "2025-11-21, 365 days old", "365 days ago", True),
        ("2026-11-22", "", "2026-11-22, dated in the future", "dated in the future", True),
        ("unknown", "", "age unknown", "undated", True),
        (
            "2026-01-21",
            "x; not before this date: y",
            "2026-01-21 or later, at most 304 days old",
            "≤304 days ago",
            True,
        ),
        ("unknown", "x; as of: about 2024; y", "age unknown (about 2024)", "undated", True),
    ],
)
def test_the_age_is_described_and_old_or_undated_rows_are_stale(date, note, text, ago, stale):
    row = fee("disk", 0.1, date=date, note=note)
    assert row.age_text(TODAY) == text
    assert row.ago_text(row.age_days(TODAY)) == ago
    assert row.is_stale(TODAY) is stale
    assert price_row(date=date, note=note).age_text(TODAY) == text


def test_a_spot_price_may_have_the_range_of_its_readings():
    row = PriceRow.model_validate(ROW | RANGE)
    assert row.range_text == "0.2 to 0.4 USD/h since 2026-10-02"
    assert PriceRow.model_validate(ROW).range_text == ""
