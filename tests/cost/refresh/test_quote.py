"""A price list is believed only where it can be true."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudgan.cost.catalog import Catalog, shipped_catalog, suspects
from cloudgan.cost.refresh.quote import Quote, price, sift

NODE = shipped_catalog().row("aws/p3.8xlarge/us-east-1/on_demand")  # 4 GPUs


def quote(usd: float = 12.0, market: str = "on_demand", **changes: object) -> Quote:
    base = Quote(NODE, "us-east-1", market, usd, "USD", "a list", "2026-11-21")  # type: ignore[arg-type]
    return base._replace(**changes)  # type: ignore[arg-type]


def test_a_sound_price_becomes_a_row_of_its_node() -> None:
    rows, refused = sift([quote(), quote(3.7, "spot", region="eu-west-1")])
    assert refused == ()
    assert [row.row_id for row in rows] == [
        "node/aws/p3.8xlarge/eu-west-1/spot/current",
        "node/aws/p3.8xlarge/us-east-1/on_demand/current",
    ]
    row = rows[0]
    assert (row.usd_per_hour, row.source, row.date) == (3.7, "a list", "2026-11-21")
    assert (row.accelerator, row.accelerator_count, row.note) == ("V100", 4, "")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"usd_per_hour": -1.0}, "is no price"),
        ({"usd_per_hour": 0.0}, "is no price"),
        ({"usd_per_hour": 0.00001}, "is no price"),
        ({"usd_per_hour": math.nan}, "is no price"),
        ({"usd_per_hour": math.inf}, "is no price"),
        ({"usd_per_hour": 700.0}, "more than any 4 accelerators cost"),
        ({"unit": "month"}, "per month, not per hour"),
        ({"currency": "EUR"}, "in EUR, not in USD"),
        ({"currency": ""}, "in no currency"),
    ],
)
def test_a_price_that_cannot_be_is_refused_with_its_reason(
    wrong: dict[str, object], why: str
) -> None:
    rows, (refusal,) = sift([quote(**wrong), quote(region="us-west-2")])
    assert [row.region for row in rows] == ["us-west-2"]
    assert refusal.name == "aws/p3.8xlarge/us-east-1/on_demand"
    assert why in refusal.why


def test_two_prices_of_one_offer_are_both_refused_unless_equal() -> None:
    rows, (refusal,) = sift([quote(12), quote(13)])
    assert rows == ()
    assert "13 USD/h, and 12 USD/h too" in refusal.why
    rows, refused = sift([quote(12), quote(12)])
    assert (len(rows), refused) == (1, ())


def test_spot_above_on_demand_refuses_both_for_nobody_knows_which_is_wrong() -> None:
    rows, refused = sift([quote(12), quote(13, "spot")])
    assert rows == ()
    assert {one.name.rpartition("/")[2] for one in refused} == {"spot", "on_demand"}


@pytest.mark.parametrize(("spot", "why"), [(12, "as dear as"), (1.2, "exactly a tenth")])
def test_a_spot_price_that_means_none_to_be_had_is_refused_alone(spot: float, why: str) -> None:
    rows, (refusal,) = sift([quote(12), quote(spot, "spot")])
    assert [row.market for row in rows] == ["on_demand"]
    assert why in refusal.why


@pytest.mark.parametrize("told", [None, True, [], {}, "", "free", "1,5"])
def test_what_is_no_number_is_no_price(told: object) -> None:
    assert math.isnan(price(told))
    assert price("0.5") == price(0.5) == 0.5


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(), st.sampled_from(["on_demand", "spot"]), st.sampled_from(["a", "b", "c"])
        )
    )
)
def test_whatever_a_list_says_the_rows_are_sound(said: list[tuple[float, str, str]]) -> None:
    rows, refused = sift(quote(usd, market, region=region) for usd, market, region in said)
    assert len({row.row_id for row in rows}) == len(rows) <= len(said)
    assert all(0.001 <= row.usd_per_hour < 201 for row in rows)
    assert all(full.usd_per_hour > spot.usd_per_hour for full, spot in suspects(Catalog(rows)))
    assert bool(rows or refused) == bool(said)
