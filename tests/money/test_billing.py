"""Bills come from the provider's timestamps, by the provider's rule, or they are unknown."""

import datetime as dt
from functools import partial

import pytest

from cloudgan.core.clouds import BillingRule
from cloudgan.money.billing import billing_rule, launch_ledger
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import Fees, load_fees
from cloudgan.money.report import attempt_bills, by_activity
from cloudgan.schema.item import Item
from cloudgan.schema.launch import Attempt, local_attempt
from cloudgan.schema.price_row import CONTROL_PLANE, PoolFee
from cloudgan.schema.record import PreemptionNotice
from tests.money.conftest import NOON, after, attempt, launch_of

ROW = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/spot")
AWS = load_catalog().row("aws/g5.xlarge/us-east-1/spot")


def bill_of(attempt, notices=(), number=1):
    """The nodes of an attempt that comes after refused ones."""
    refused = Attempt(
        provider="gcp", region="r", market="spot", node_type="n", end_reason="no quota"
    )
    launch = launch_of(*[refused] * (number - 1), attempt)
    return attempt_bills(launch_ledger(launch, notices=notices), launch)[-1]


provisioned = partial(attempt, row=ROW)


def waited(bill):
    """Node seconds until all nodes were up."""
    return by_activity(bill, None).of(Item.PROVISIONING).node_seconds


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
def test_a_unit_that_was_begun_is_paid_whole(unit, minimum, up, billed):
    assert BillingRule(unit, minimum, "s").billed_seconds(up) == billed
    with pytest.raises(ValueError, match="-1"):
        BillingRule(unit, minimum, "s").billed_seconds(-1)


@pytest.mark.parametrize(
    ("provider", "node", "time", "minimum"),
    [
        ("gcp", "n1-standard-8+1xV100", NOON, 60),
        ("gcp", "v3-8", NOON, 0),
        ("aws", "g5.xlarge", NOON, 60),
        ("azure", "Standard_NC4as_T4_v3", NOON, 300),
        # The day before Azure introduced its five minutes.
        ("azure", "Standard_NC4as_T4_v3", dt.datetime(2025, 5, 31, tzinfo=dt.UTC), 60),
    ],
)
def test_each_provider_bills_by_its_own_rule(provider, node, time, minimum):
    rule = billing_rule(provider, node, time)
    assert (rule.unit_seconds, rule.minimum_seconds) == (1, minimum)
    assert "http" in rule.source


@pytest.mark.parametrize(
    ("first_ends", "waiting", "up", "billed"), [(600, 90, 1110, 1110), (30, 30, 540, 570)]
)
def test_nodes_are_billed_while_they_wait_for_the_last_one_or_end(first_ends, waiting, up, billed):
    bill = bill_of(provisioned((0, first_ends), (90, 600)))
    assert waited(bill) == waiting
    assert (bill.up_seconds, bill.nodes.node_seconds) == (up, billed)
    assert (bill.row, bill.why_unknown) == (ROW, "")


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (provisioned((0, None)), "still up"),
        (provisioned(), "lists no node"),
        (provisioned((0, 9), price_rows=()), "no price row"),
        (provisioned((0, 9), market="on_demand"), "no price row"),
        (provisioned((0, 9), region="us-east1"), "no price row"),
        (provisioned((0, 9), node_type="n1"), "no price row"),
    ],
)
def test_an_unknown_bill_has_a_reason(attempt, message):
    bill = bill_of(attempt, number=3)
    assert message in bill.why_unknown
    assert "attempt 3" in bill.why_unknown


@pytest.mark.parametrize(
    ("attempt", "node_seconds"),
    [
        (provisioned((0, 9), row=ROW.model_copy(update={"provider": "lambda"})), 9),
        (provisioned(end_reason="no capacity"), 0),
    ],
    ids=["a price file bills by the second", "no node costs nothing"],
)
def test_a_bill_without_a_clouds_rule_or_without_nodes_is_known(attempt, node_seconds):
    bill = bill_of(attempt)
    assert (bill.nodes.node_seconds, bill.why_unknown) == (node_seconds, "")


def notice(seconds, cloud="aws"):
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
def test_a_spot_node_that_ec2_takes_in_its_first_hour_costs_nothing(up, notices, billed):
    """Without a notice of the cloud the node may have been deleted by its user, who pays."""
    on_demand = AWS.model_copy(update={"market": "on_demand"})
    taken = attempt((0, up), row=AWS)
    assert bill_of(taken, notices).nodes.node_seconds == billed
    for_budget = launch_ledger(launch_of(taken), notices=notices).until(after(up))
    assert for_budget.known_usd == pytest.approx(AWS.cost_usd(billed))
    assert bill_of(attempt((0, up), row=on_demand), notices).nodes.node_seconds == up


def test_one_notice_frees_one_node_and_google_takes_a_tpu_for_nothing_in_a_minute_only():
    three = attempt(*[(0, 600)] * 3, row=AWS)
    assert bill_of(three, [notice(590)]).nodes.node_seconds == 1200
    tpu = load_catalog().row("gcp/v3-8/us-central1/spot")
    for up, billed in ((50, 0), (70, 70)):
        found = bill_of(attempt((0, up), row=tpu), [notice(up, "gcp")])
        assert found.nodes.node_seconds == billed


def test_a_refused_attempt_changes_nothing():
    good = provisioned((0, 36_000), end_reason="finished", fees=(), egress_gib=0)
    refused = provisioned(end_reason="no quota", fees=())
    assert launch_ledger(launch_of(refused, good)).total() == launch_ledger(launch_of(good)).total()
    assert launch_of(refused, good).billed_seconds() == 36_000
    assert launch_ledger(launch_of(refused)).total() == launch_ledger(launch_of()).total()


def test_what_is_billed_beside_the_nodes_is_no_time_of_nodes():
    """Not even where it has no price: 100 GiB for 100 s, 5 GiB months, 7 GiB of egress."""
    disk = PoolFee(kind="disk", quantity=100)
    rented = provisioned((0, 100), fees=(disk,), stored_gib_months=5, egress_gib=7)
    for fees in (Fees(()), load_fees()):
        assert launch_ledger(launch_of(rented), fees).node_seconds == 100


@pytest.mark.parametrize(
    ("fees", "items"), [((), set()), ((CONTROL_PLANE,), {Item.CLUSTER, Item.SYSTEM_NODES})]
)
def test_a_cluster_costs_where_the_attempt_names_its_fee_only(fees, items):
    ledger = launch_ledger(launch_of(provisioned((0, 3600), fees=fees)), load_fees())
    of_cluster = [one for one in ledger.lines if one.item in {Item.CLUSTER, Item.SYSTEM_NODES}]
    assert {one.item for one in of_cluster} == items
    assert all(one.usd for one in of_cluster)


def test_only_rented_attempts_are_billed():
    launch = launch_of(local_attempt("x"), provisioned((0, 100)))
    assert [bill.number for bill in attempt_bills(launch_ledger(launch), launch)] == [2]
    assert attempt_bills(launch_ledger(launch_of()), None) == ()
