"""A bill beside what was counted, and why they differ."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from cloudgan.core.launch import Attempt, Cluster, Launch, Node
from cloudgan.core.record import RunRecord
from cloudgan.cost.bills.bill_line import BillLine
from cloudgan.cost.bills.reading import ReadBill
from cloudgan.cost.bills.reconciling import reconciled
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.fees import load_fees
from cloudgan.cost.run_cost import cost_report
from tests.cost.conftest import epoch, started, stopped

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
ROW = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/on_demand")
HOUR = 3600


def after(seconds):
    return NOON + dt.timedelta(seconds=seconds)


def launched(**more):
    node = {"name": "a", "up": NOON, "seen": after(HOUR), "down": after(HOUR)}
    cluster = Cluster(
        name="c",
        control_plane="GKE standard",
        system_nodes=0,
        up=NOON,
        down=after(HOUR),
        own_run_seconds=1,
        all_runs_seconds=1,
    )
    attempt = Attempt(
        provider="gcp",
        region=ROW.region,
        node_type=ROW.node_type,
        market=ROW.market,
        nodes=(Node(**node | more),),
        price_rows=(ROW,),
        cluster=cluster,
        ended="finished",
    )
    return Launch(run="gan", config_hash="h", attempts=(attempt,))


def bill_of(*lines, launch=None, until=7200):
    launch = launch or launched()
    record = RunRecord(lines=(started(), epoch(0, 20, first=True), stopped(10, 60)))
    report = cost_report("gan", record, NOON.date(), launch=launch, fees=load_fees())
    read = ReadBill(formats=["F"])
    for part, amount, credit in lines:
        read.take(BillLine("gan", part, amount, credit, "USD", after(until)), "gan")
    read.take(BillLine(None, "compute", 99.0, 0.0, "USD", after(until)), "gan")
    return reconciled(read, [Path("x/bill.csv")], report, launch)


def whys(bill):
    return {part.name: part.why for part in bill.parts}


def test_what_agrees_needs_no_reason():
    bill = bill_of(("compute", ROW.usd_per_hour, -0.4))
    compute = bill.parts[0]
    assert compute.billed_usd == pytest.approx(compute.measured_usd)
    assert compute.why == ""
    assert (bill.billed_usd, bill.credits_usd) == (pytest.approx(ROW.usd_per_hour), -0.4)
    assert bill.is_complete
    assert bill.files == ("bill.csv",)
    assert (bill.lines, bill.lines_in_all) == (1, 2)


def test_a_control_plane_is_shared_and_has_no_line_of_the_run():
    bill = bill_of(("compute", ROW.usd_per_hour, 0))
    assert "all runs share it" in whys(bill)["control plane"]


def test_a_disk_is_billed_and_not_counted():
    bill = bill_of(("compute", ROW.usd_per_hour, 0), ("disk", 0.3, 0))
    assert whys(bill)["disk"] == "cloudgan does not count it"


def test_lines_that_are_not_there_yet_are_told():
    bill = bill_of(("compute", 1.0, 0), until=1800)
    assert bill.is_complete is False
    assert whys(bill)["compute"] == "lines are still to come"
    assert any("ask again when it is a day newer" in note for note in bill.notes)


def test_no_line_at_all_tells_what_to_do():
    bill = bill_of()
    assert any("label cloudgan-run=gan" in note for note in bill.notes)
    assert any("activated" in note for note in bill.notes)


def test_time_that_nobody_saw_is_the_reason_where_it_is_enough():
    launch = launched(seen=after(600))
    bill = bill_of(("compute", ROW.usd_per_hour / 2, 0), launch=launch)
    assert "in which nobody looked" in whys(bill)["compute"]
    bill = bill_of(("compute", ROW.usd_per_hour / 2, 0))
    assert "50% below what was counted, at prices of" in whys(bill)["compute"]
    bill = bill_of(("compute", ROW.usd_per_hour * 2, 0))
    assert "100% above what was counted" in whys(bill)["compute"]


def test_machines_that_are_still_up_leave_it_unknown_whether_lines_come():
    bill = bill_of(("compute", 1.0, 0), launch=launched(down=None))
    assert bill.is_complete is None
    assert "cloudgan does not know: nodes of attempt 1" in whys(bill)["compute"]
