"""Bills come from the provider's timestamps, by the provider's rule, or they are unknown."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudgan.core.clouds import CLOUDS, BillingRule
from cloudgan.money.billing import billing_rule, launch_ledger
from cloudgan.money.catalog import load_catalog
from cloudgan.money.report import AttemptBill, attempt_bills, by_activity
from cloudgan.schema.item import Item
from cloudgan.schema.launch import Attempt, Launch, Node, local_attempt
from cloudgan.schema.record import PreemptionNotice

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
ROW = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/spot")


def after(seconds: float) -> dt.datetime:
    return NOON + dt.timedelta(seconds=seconds)


def attempt_bill(number: int, attempt: Attempt, notices: Any = ()) -> AttemptBill:
    """The nodes of an attempt that comes after refused ones."""
    refused = Attempt(
        provider="gcp", region="r", market="spot", node_type="n", end_reason="no quota"
    )
    launch = Launch(run="r", config_hash="h", attempts=(*[refused] * (number - 1), attempt))
    return attempt_bills(launch_ledger(launch, notices=notices), launch)[-1]


def waited(bill: AttemptBill) -> float:
    """Node seconds until all nodes were up."""
    return by_activity(bill.nodes, bill, None).of(Item.PROVISIONING).node_seconds


def provisioned(*nodes: Node, **more: Any) -> Attempt:
    known = {
        "provider": ROW.provider,
        "region": ROW.region,
        "node_type": ROW.node_type,
        "market": ROW.market,
        "nodes": nodes,
        "price_rows": (ROW,),
    }
    return Attempt(**(known | more))


@pytest.mark.parametrize(
    ("unit", "minimum", "up", "billed"),
    [
        (1, 60, 59.2, 60),
        (1, 60, 60.2, 61),
        (60, 60, 61, 120),
        (60, 0, 120, 120),
        (3600, 3600, 1, 3600),
        (3600, 3600, 3601, 7200),
        (1, 0, 0, 0),
    ],
)
def test_a_unit_that_was_begun_is_paid_whole(
    unit: float, minimum: float, up: float, billed: float
) -> None:
    assert BillingRule(unit, minimum, "s").billed_seconds(up) == billed


def test_no_node_is_up_for_less_than_no_time() -> None:
    with pytest.raises(ValueError, match="-1"):
        BillingRule(1, 60, "s").billed_seconds(-1)


def test_each_provider_bills_by_its_own_rule_and_names_its_source() -> None:
    for provider, node, minimum in (
        ("gcp", "n1-standard-8+1xV100", 60),
        ("gcp", "v3-8", 0),
        ("aws", "g5.xlarge", 60),
        ("azure", "Standard_NC4as_T4_v3", 300),
    ):
        rule = billing_rule(provider, node, NOON)
        assert rule is not None
        assert (rule.unit_seconds, rule.minimum_seconds) == (1, minimum)
    assert all("http" in r.source for cloud in CLOUDS.values() for r in cloud.billing)


def test_azures_five_minutes_count_from_the_day_they_were_introduced() -> None:
    before = billing_rule("azure", "Standard_NC4as_T4_v3", dt.datetime(2025, 5, 31, tzinfo=dt.UTC))
    assert before is not None
    assert before.minimum_seconds == 60


def test_nodes_are_billed_while_they_wait_for_the_last_one() -> None:
    bill = attempt_bill(
        1,
        provisioned(
            Node(name="a", started_at=NOON, terminated_at=after(600)),
            Node(name="b", started_at=after(90), terminated_at=after(600)),
        ),
    )
    assert bill.row == ROW
    assert bill.nodes.node_seconds == 600 + 510
    assert waited(bill) == 90
    assert bill.why_unknown == ""


def test_waiting_ends_when_a_node_terminates() -> None:
    bill = attempt_bill(
        1,
        provisioned(
            Node(name="a", started_at=NOON, terminated_at=after(30)),
            Node(name="b", started_at=after(90), terminated_at=after(600)),
        ),
    )
    assert waited(bill) == 30
    assert (bill.up_seconds, bill.nodes.node_seconds) == (540, 570)


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (provisioned(Node(name="a", started_at=NOON)), "still up"),
        (provisioned(), "lists no node"),
        (
            provisioned(Node(name="a", started_at=NOON, terminated_at=after(9)), price_rows=()),
            "no price row",
        ),
    ],
)
def test_an_unknown_bill_has_a_reason(attempt: Attempt, message: str) -> None:
    bill = attempt_bill(3, attempt)
    assert message in bill.why_unknown
    assert "attempt 3" in bill.why_unknown


def test_a_price_of_another_market_or_region_is_not_taken() -> None:
    gone = Node(name="a", started_at=NOON, terminated_at=after(9))
    for other in ({"market": "on_demand"}, {"region": "us-east1"}, {"node_type": "n1"}):
        assert "no price row" in attempt_bill(1, provisioned(gone, **other)).why_unknown


def test_a_node_of_a_price_file_is_billed_by_the_second() -> None:
    row = ROW.model_copy(update={"provider": "lambda"})
    gone = Node(name="a", started_at=NOON, terminated_at=after(9))
    bill = attempt_bill(1, provisioned(gone, provider="lambda", price_rows=(row,)))
    assert (bill.nodes.node_seconds, bill.why_unknown) == (9, "")


AWS = load_catalog().row("aws/g5.xlarge/us-east-1/spot")
ON_AWS = {"provider": "aws", "region": AWS.region, "node_type": AWS.node_type, "price_rows": (AWS,)}


def notice(seconds: float, cloud: str = "aws") -> PreemptionNotice:
    return PreemptionNotice(
        time=after(seconds).isoformat(), step=1, worker=0, cloud=cloud, seconds=120
    )


@pytest.mark.parametrize(
    ("up", "notices", "billed"),
    [
        (3500, [notice(3400)], 0),
        (3700, [notice(3600)], 3700),
        (3500, [], 3500),
        (3500, [notice(3400, "gcp")], 3500),
        (3500, [notice(100)], 3500),
    ],
)
def test_a_spot_node_that_ec2_takes_in_its_first_hour_costs_nothing(
    up: float, notices: list[PreemptionNotice], billed: float
) -> None:
    """Without a notice of the cloud the node may have been deleted by its user, who pays."""
    gone = Node(name="a", started_at=NOON, terminated_at=after(up))
    bill = attempt_bill(1, provisioned(gone, **ON_AWS), notices)
    assert bill.nodes.node_seconds == billed
    on_demand = AWS.model_copy(update={"market": "on_demand"})
    kept = provisioned(gone, **ON_AWS | {"market": "on_demand", "price_rows": (on_demand,)})
    assert attempt_bill(1, kept, notices).nodes.node_seconds == up


def test_one_notice_frees_one_node_and_google_takes_a_tpu_for_nothing_in_a_minute_only() -> None:
    gone = [Node(name=n, started_at=NOON, terminated_at=after(600)) for n in "abc"]
    assert attempt_bill(1, provisioned(*gone, **ON_AWS), [notice(590)]).nodes.node_seconds == 1200
    tpu = load_catalog().row("gcp/v3-8/us-central1/spot")
    on_tpu = {"node_type": "v3-8", "price_rows": (tpu,)}
    for up, billed in ((50, 0), (70, 70)):
        node = Node(name="a", started_at=NOON, terminated_at=after(up))
        attempt = provisioned(node, **on_tpu)
        assert attempt_bill(1, attempt, [notice(up, "gcp")]).nodes.node_seconds == billed


def test_an_attempt_without_nodes_has_no_node_cost() -> None:
    bill = attempt_bill(1, provisioned(end_reason="no capacity"))
    assert (bill.nodes.node_seconds, bill.why_unknown) == (0, "")


def test_only_rented_attempts_are_billed() -> None:
    gone = provisioned(Node(name="a", started_at=NOON, terminated_at=after(100)))
    launch = Launch(run="r", config_hash="h", attempts=(local_attempt("x"), gone))
    assert [bill.number for bill in attempt_bills(launch_ledger(launch), launch)] == [2]
    assert attempt_bills(launch_ledger(Launch(run="r", config_hash="h")), None) == ()


@given(
    up=st.floats(0, 1e7),
    unit=st.sampled_from([1, 60, 3600]),
    minimum=st.sampled_from([0, 60, 3600]),
)
def test_billed_time_is_at_least_uptime_and_less_than_one_unit_more(
    up: float, unit: float, minimum: float
) -> None:
    billed = BillingRule(unit, minimum, "s").billed_seconds(up)
    assert billed >= up - 1e-6 * unit
    assert billed <= max(minimum, up + unit)
