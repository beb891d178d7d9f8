"""Validation of quotes."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudgan.money.catalog import shipped_catalog
from cloudgan.money.refresh.feeds import Quote, parse_price, validate

NODE = shipped_catalog().row("aws/g5.12xlarge/us-east-1/on_demand")  # 4 GPUs


def quote(usd=12.0, market="on_demand", **changes):
    base = Quote(NODE, "us-east-1", market, usd, "USD", "a list", "2026-11-21")
    return base._replace(**changes)


def test_a_sound_price_becomes_a_row_of_its_node():
    rows, refused = validate([quote(), quote(3.7, "spot", region="eu-west-1")])
    assert refused == ()
    assert [row.row_id for row in rows] == [
        "node/aws/g5.12xlarge/eu-west-1/spot/current",
        "node/aws/g5.12xlarge/us-east-1/on_demand/current",
    ]
    row = rows[0]
    assert (row.usd_per_hour, row.source, row.date) == (3.7, "a list", "2026-11-21")
    assert (row.accelerator, row.accelerator_count, row.note) == ("A10G", 4, "")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"usd_per_hour": -1.0}, "is not a valid price"),
        ({"usd_per_hour": 0.0}, "is not a valid price"),
        ({"usd_per_hour": 0.00001}, "is not a valid price"),
        ({"usd_per_hour": math.nan}, "is not a valid price"),
        ({"usd_per_hour": math.inf}, "is not a valid price"),
        ({"usd_per_hour": 700.0}, "implausibly high for 4 accelerators"),
        ({"unit": "month"}, "per month, not per hour"),
        ({"currency": "EUR"}, "in EUR, not in USD"),
        ({"currency": ""}, "in no currency"),
    ],
)
def test_an_invalid_price_is_rejected_with_its_reason(wrong, why):
    rows, (refusal,) = validate([quote(**wrong), quote(region="us-west-2")])
    assert [row.region for row in rows] == ["us-west-2"]
    assert refusal.offer == "aws/g5.12xlarge/us-east-1/on_demand"
    assert why in refusal.why


def test_two_different_prices_of_one_offer_are_rejected():
    rows, (refusal,) = validate([quote(12), quote(13)])
    assert rows == ()
    assert "two prices: 13 and 12 USD/h" in refusal.why
    rows, refused = validate([quote(12), quote(12)])
    assert (len(rows), refused) == (1, ())


def test_spot_above_on_demand_rejects_both():
    rows, refused = validate([quote(12), quote(13, "spot")])
    assert rows == ()
    assert {one.offer.rpartition("/")[2] for one in refused} == {"spot", "on_demand"}


@pytest.mark.parametrize(("spot", "why"), [(12, "costs as much as"), (1.2, "exactly a tenth")])
def test_a_spot_price_without_capacity_is_rejected_alone(spot, why):
    rows, (refusal,) = validate([quote(12), quote(spot, "spot")])
    assert [row.market for row in rows] == ["on_demand"]
    assert why in refusal.why
    azure = NODE.model_copy(update={"provider": "azure"})  # which sells at up to 90 % less
    rows, _ = validate([quote(12, node=azure), quote(spot, "spot", node=azure)])
    assert len(rows) == (2 if spot < 12 else 1)


@pytest.mark.parametrize("message", [None, True, [], {}, "", "free", "1,5"])
def test_what_is_no_number_is_no_price(message):
    assert math.isnan(parse_price(message))
    assert parse_price("0.5") == parse_price(0.5) == 0.5


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(), st.sampled_from(["on_demand", "spot"]), st.sampled_from(["a", "b", "c"])
        )
    )
)
def test_validated_rows_are_always_consistent(said):
    rows, refused = validate(quote(usd, market, region=region) for usd, market, region in said)
    assert len({row.row_id for row in rows}) == len(rows) <= len(said)
    assert all(0.001 <= row.usd_per_hour < 201 for row in rows)
    by_id = {row.row_id: row for row in rows}
    for row in rows:
        spot = by_id.get(row.row_id.replace("/on_demand/", "/spot/"), row)
        assert spot is row or row.usd_per_hour > spot.usd_per_hour
    assert bool(rows or refused) == bool(said)
