"""Two sources are compared offer by offer."""

from __future__ import annotations

import pytest

from cloudgan.cost.catalog import shipped_catalog
from cloudgan.cost.verify import Second, verify

ROW = shipped_catalog().row("aws/p3.2xlarge/us-east-1/on_demand")  # 3.06 USD/h
SPOT = shipped_catalog().row("aws/p3.2xlarge/us-east-1/spot")


def second(usd: float, market: str = "on_demand", **changes: str) -> Second:
    base = Second("aws", "p3.2xlarge", "us-east-1", market, usd)  # type: ignore[arg-type]
    return base._replace(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("usd", [3.06, 3.06 * 1.049, 3.06 * 0.951])
def test_within_five_per_cent_both_say_the_same(usd: float) -> None:
    found = verify([ROW], [second(usd)])
    assert (found.agreed, found.disagreements, found.unknown_there) == (1, (), 0)


@pytest.mark.parametrize(("factor", "difference"), [(1.06, 0.06), (0.5, -0.5)])
def test_beyond_five_per_cent_they_disagree_by_a_part_of_our_price(
    factor: float, difference: float
) -> None:
    found = verify([ROW], [second(3.06 * factor)])
    (one,) = found.disagreements
    assert one.difference == pytest.approx(difference)
    assert (one.row, found.agreed, found.unknown_there) == (ROW, 0, 0)


def test_the_widest_apart_comes_first() -> None:
    found = verify([ROW, SPOT], [second(4), second(10 * SPOT.usd_per_hour, "spot")])
    assert [one.row.market for one in found.disagreements] == ["spot", "on_demand"]


def test_the_cheapest_zone_counts() -> None:
    assert verify([ROW], [second(5), second(3.06), second(4)]).agreed == 1


@pytest.mark.parametrize(
    "other",
    [
        second(3.06, provider="gcp"),
        second(3.06, region="us-west-2"),
        second(3.06, node_type="p3.8xlarge"),
        second(3.06, "spot"),
    ],
)
def test_another_offer_is_not_compared(other: Second) -> None:
    found = verify([ROW], [other])
    assert (found.agreed, found.disagreements, found.unknown_there) == (0, (), 1)


def test_prices_of_2021_are_not_compared_with_today() -> None:
    old = [row for row in shipped_catalog().rows if row.snapshot == "2021"]
    found = verify(old, [])
    assert (found.agreed, found.unknown_there) == (0, 0)


def test_a_known_fault_of_the_second_source_is_remarked() -> None:
    row = shipped_catalog().row("gcp/v3-8/europe-west4/spot")
    wrong = Second("gcp", "v3-8", "europe-west4", "spot", 4 * row.usd_per_hour)
    (one,) = verify([row], [wrong]).disagreements
    assert "multiplies" in one.remark
    (other,) = verify([ROW], [second(9)]).disagreements
    assert other.remark == ""
