"""The ledger: lines add up, shares lose nothing, and neither time nor an attempt without usage lowers a sum."""

import datetime as dt
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudgan.core.clouds import BillingRule
from cloudgan.launch.plan.build import deadline
from cloudgan.launch.plan.launch_job import usd_of_earlier_attempts
from cloudgan.money.billing import launch_ledger
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import load_fees
from cloudgan.money.forecast import JobContext, job_cost, load_startup_times
from cloudgan.money.ledger import Ledger, Usage
from cloudgan.schema import launch
from cloudgan.schema.item import Item
from cloudgan.schema.launch import Attempt
from cloudgan.schema.price_row import CONTROL_PLANE, SYSTEM_NODE, DataMove, PoolFee
from cloudgan.schema.run_folder import RunFolder
from tests.money.conftest import NOON, ROW, after, attempt, launch_of

HOUR = 3600
FEES = load_fees()
SECONDS = st.floats(0, 1e6)
DISK = PoolFee(kind="disk", product="pd-balanced", quantity=100)


@st.composite
def usages(draw):
    """A line of nodes, of a disk, of traffic, or of what has no price; timed, still up, or an amount."""
    item, row = draw(
        st.sampled_from(
            [
                (Item.NODES, ROW),
                (Item.DISKS, FEES.find("disk", "gcp", "us-central1")),
                (Item.EGRESS, FEES.find("egress_gib", "gcp")),
                (Item.NAT, None),
            ]
        )
    )
    known = {"item": item, "row": row, "attempt": draw(st.integers(0, 3)), "why": "a test"}
    if item is Item.EGRESS or draw(st.booleans()):
        return Usage(quantity=draw(st.none() | SECONDS), **known)
    lasts = draw(st.none() | SECONDS)
    since = after(draw(SECONDS))
    until = None if lasts is None else since + dt.timedelta(seconds=lasts)
    rule = draw(
        st.sampled_from([None, BillingRule(1, 60, "a page"), BillingRule(60, 300, "a page")])
    )
    return Usage(units=draw(st.integers(1, 32)), since=since, until=until, rule=rule, **known)


LEDGERS = st.lists(usages(), max_size=8).map(lambda lines: Ledger(tuple(lines)))
WEIGHTS = st.dictionaries(st.sampled_from("abcd"), st.just(0.0) | st.floats(1e-6, 1e6), min_size=1)
CLOSE = {"rel": 1e-9, "abs": 1e-12}


@given(LEDGERS, WEIGHTS)
def test_shares_and_groups_lose_nothing(ledger, weights):
    for parts in (ledger.shares(lambda _: weights), ledger.by(lambda line: line.attempt)):
        assert math.fsum(one.known_usd for one in parts.values()) == pytest.approx(
            ledger.known_usd, **CLOSE
        )
        assert math.fsum(one.node_seconds for one in parts.values()) == pytest.approx(
            ledger.node_seconds, **CLOSE
        )
        lines = [line for one in parts.values() for line in one.lines]
        unknown = [line for line in lines if line.usd is None]
        assert len(unknown) >= sum(line.usd is None for line in ledger.lines), "none becomes known"
    total = ledger.total()
    assert total.known_usd == pytest.approx(ledger.known_usd, **CLOSE)
    assert bool(total.unknown) == any(line.usd is None for line in ledger.lines)


@given(LEDGERS, SECONDS, SECONDS)
def test_more_time_never_costs_less_and_what_ended_costs_its_whole(ledger, one, other):
    early, late = (ledger.until(after(seconds)).known_usd for seconds in sorted((one, other)))
    assert early <= late * (1 + 1e-9)
    ended = Ledger(tuple(line for line in ledger.lines if line.until or line.quantity is not None))
    assert ended.until(after(1e7)).known_usd == pytest.approx(ended.known_usd, **CLOSE)


TIMES = st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=3)


@given(st.lists(TIMES, max_size=3), st.lists(st.integers(0, 3), max_size=3), SECONDS)
def test_an_attempt_without_usage_changes_no_sum(times, places, moment):
    refused = Attempt(
        provider="azure", region="r", market="spot", node_type="n", end_reason="no quota"
    )
    attempts = [
        attempt(*[(up, up + long) for up, long in nodes], fees=(DISK,), end_reason="done")
        for nodes in times
    ]
    more = list(attempts)
    for place in places:
        more.insert(min(place, len(more)), refused)
    plain, padded = (launch_ledger(launch_of(*each)) for each in (attempts, more))
    assert padded.known_usd == plain.known_usd
    assert padded.node_seconds == plain.node_seconds
    assert padded.until(after(moment)).known_usd == plain.until(after(moment)).known_usd
    assert len(padded.total().unknown) == len(plain.total().unknown)


OFFERS = [
    next(
        row for row in load_catalog().find(provider=cloud, market=market) if row.accelerator == "T4"
    )
    for cloud in ("gcp", "aws", "azure")
    for market in ("on_demand", "spot")
]
PAIR = st.tuples(st.integers(1, 64), st.integers(1, 64)).map(sorted)


@settings(deadline=None)
@given(
    st.sampled_from(OFFERS),
    PAIR,
    st.tuples(SECONDS, SECONDS).map(sorted),
    st.tuples(st.floats(0, 1e4), st.floats(0, 1e4)).map(sorted),
    st.booleans(),
)
def test_more_nodes_hours_or_data_never_cost_less(row, nodes, seconds, gib, knows_the_place):
    """Neither what is known, nor the bound by which offers are ranked."""
    place = ("aws", "us-west-1") if knows_the_place else (row.provider, None)

    def of(count, time, volume):
        move = DataMove(gib=volume, provider=place[0], region=place[1])
        context = JobContext(FEES, load_startup_times(), move, keep_seconds=600)
        return job_cost(row, count, (time, time), context, fees=(DISK, PoolFee(kind="public_ip")))

    least = of(nodes[0], seconds[0], gib[0])
    for more in (
        of(nodes[1], seconds[0], gib[0]),
        of(nodes[0], seconds[1], gib[0]),
        of(nodes[0], seconds[0], gib[1]),
    ):
        assert more.low.known_usd >= least.low.known_usd * (1 - 1e-9)
        assert more.high.known_usd >= least.high.known_usd * (1 - 1e-9)
        assert more.worst_case_usd >= least.worst_case_usd * (1 - 1e-9)


AKS = (
    *(CONTROL_PLANE, SYSTEM_NODE, PoolFee(kind="load_balancer", per_node=False)),
    PoolFee(kind="public_ip", per_node=False),
    PoolFee(kind="disk", product="Premium SSD P10", quantity=128),
    PoolFee(kind="disk", product="Premium SSD P10", quantity=128, per_node=False),
)
FEES_OF_AKS = 0.1 + 0.146 + 0.025 + 0.005 + 2 * 128 * 0.153984 / 730
"""USD per hour, with the dearer of the two sizes that a system node may have."""


def test_a_budget_of_10_usd_holds_for_a_second_attempt_after_one_of_15_hours(tmp_path):
    """A node of 0.06 USD/h, and 0.33 USD/h beside it, which the first attempt has paid for, too."""
    row = next(one for one in OFFERS if (one.provider, one.market) == ("azure", "spot"))
    row = row.model_copy(update={"region": "eastus", "usd_per_hour": 0.06})
    hourly = 0.06 + FEES_OF_AKS
    folder = RunFolder(tmp_path / "gan")
    folder.create()
    first = attempt((0, 15 * HOUR), row=row, fees=AKS, end_reason="preempted")
    launch.write(folder.launch_file, launch_of(first))
    spent = usd_of_earlier_attempts(folder)
    assert spent == pytest.approx(15 * hourly)
    planned = job_cost(row, 1, (HOUR, HOUR), JobContext(FEES, ()), fees=AKS[2:]).cost
    assert planned.fees_usd_per_hour == pytest.approx(FEES_OF_AKS)
    per_second = (0.06 + planned.fees_usd_per_hour) / HOUR
    found = deadline(
        max_hours=100,
        budget_usd=10,
        usd_per_second=per_second,
        spent_usd=spent,
        reserve_seconds=300,
    )
    ends = 15 * HOUR + found.seconds + 300
    second = attempt((15 * HOUR, ends), row=row, fees=AKS, end_reason="stopped")
    whole = launch_ledger(launch_of(first, second))
    assert whole.until(NOON + dt.timedelta(seconds=ends)).known_usd == pytest.approx(10, abs=0.001)
    assert 10 <= found.seconds / HOUR <= 11, "and not the 23 h that nodes alone would leave"


def test_ten_hours_of_a_t4_pay_for_their_disk_and_address():
    """4.13 USD of nodes, cluster and system node as before, and 0.19 USD beside them."""
    row = load_catalog().row("gcp/n1-standard-8+1xT4/us-central1/spot")
    beside = (PoolFee(kind="disk", product="pd-balanced", quantity=100), PoolFee(kind="public_ip"))
    known = {"row": row, "end_reason": "finished", "stored_gib_months": 0, "egress_gib": 0}
    times = (0, 10 * HOUR)
    with_fees, without = (
        launch_ledger(launch_of(attempt(times, fees=(CONTROL_PLANE, SYSTEM_NODE, *more), **known)))
        for more in (beside, ())
    )
    assert with_fees.known_usd - without.known_usd == pytest.approx(0.187, abs=0.0005)
    assert with_fees.of(Item.DISKS, Item.ADDRESSES).known_usd == pytest.approx(0.187, abs=0.0005)
