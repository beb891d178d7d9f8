"""Reconciliation of a bill with the measured cost, and reasons of differences."""

import datetime as dt
from pathlib import Path

import pytest

from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import load_fees
from cloudgan.money.focus import BillLine, BillSummary
from cloudgan.money.reconciliation import reconcile
from cloudgan.money.report import cost_report
from cloudgan.schema.launch import Node
from cloudgan.schema.record import PreemptionNotice, RunRecord
from tests.money.conftest import (
    NOON,
    ROW,
    TODAY,
    after,
    attempt,
    cluster_of,
    launch_of,
    short_run,
)

HOUR = 3600


def launched(**more):
    """The launch of one node for an hour; `more` changes the times of the node."""
    times = {"started_at": NOON, "last_seen_at": after(HOUR), "terminated_at": after(HOUR)}
    nodes = (Node(name="a", **times | more),)
    shared = {"cluster": cluster_of(HOUR), "fees": (), "end_reason": "finished"}
    return launch_of(attempt(nodes=nodes, **shared))


def bill_of(*lines, launch=None, until=7200, noticed=(), zone=dt.UTC):
    launch = launch or launched()
    record = RunRecord(lines=(*short_run().lines, *noticed))
    report = cost_report("gan", record, TODAY, launch=launch, fees=load_fees())
    read, end = BillSummary(), after(until).astimezone(zone)
    for part, amount, credit in lines:
        read.add(BillLine("gan", part, amount, credit, "USD", end), "gan")
    read.add(BillLine(None, "compute", 99.0, 0.0, "USD", end), "gan")
    return reconcile(read, [Path("x/bill.csv")], report, launch)


def whys(bill):
    return {part.name: part.explanation for part in bill.categories}


def test_what_agrees_needs_no_reason():
    bill = bill_of(("compute", ROW.usd_per_hour, -0.4))
    compute = bill.categories[0]
    assert compute.billed_usd == pytest.approx(compute.measured_usd)
    assert compute.explanation == ""
    assert (bill.billed_usd, bill.credits_usd) == (pytest.approx(ROW.usd_per_hour), -0.4)
    assert bill.is_complete
    assert bill.files == ("bill.csv",)
    assert (bill.lines, bill.total_lines) == (1, 2)


def test_an_incomplete_export_is_reported():
    tokyo = dt.timezone(dt.timedelta(hours=9))
    bill = bill_of(("compute", 1.0, 0), until=1800, zone=tokyo)
    assert bill.is_complete is False
    assert whys(bill)["compute"] == "the export is incomplete"
    assert (
        "the export ends at 2026-11-21 12:30 UTC, the nodes were up until 2026-11-21 13:00 UTC:"
        " export again a day later"
    ) in bill.notes


def test_a_bill_for_nodes_that_should_be_free_is_explained():
    """AWS took the only node in its first hour, and its bill has it all the same."""
    spot = load_catalog().row("aws/g5.xlarge/us-east-1/spot")
    notice = PreemptionNotice(
        time=after(580).isoformat(), step=10, worker=0, cloud="aws", seconds=120
    )
    launch = launch_of(attempt((0, 600), row=spot, end_reason="preempted"))
    bill = bill_of(("compute", 0.05, 0), launch=launch, noticed=(notice,))
    assert whys(bill)["compute"] == (
        "by the times of the nodes and the cloud's billing rule they cost nothing"
    )


def test_an_export_without_lines_of_the_run_explains_what_to_do():
    bill = bill_of()
    assert any("label cloudgan-run=gan" in note for note in bill.notes)
    assert any("activated" in note for note in bill.notes)


PAID = ROW.usd_per_hour


@pytest.mark.parametrize(
    ("lines", "seen", "part", "said"),
    [
        ([("compute", PAID, 0)], HOUR, "control plane", "shared by all runs"),
        ([("compute", PAID, 0), ("disk", 0.3, 0)], HOUR, "disk", "not measured by cloudgan"),
        ([("compute", PAID / 2, 0)], 600, "compute", "not observed"),
        ([("compute", PAID / 2, 0)], HOUR, "compute", "50% below the measured cost at prices of"),
        ([("compute", PAID * 2, 0)], HOUR, "compute", "100% above the measured cost"),
    ],
)
def test_a_difference_has_its_reason(lines, seen, part, said):
    bill = bill_of(*lines, launch=launched(last_seen_at=after(seen)))
    assert said in whys(bill)[part]


def test_nodes_still_up_make_completeness_unknown():
    bill = bill_of(("compute", 1.0, 0), launch=launched(terminated_at=None))
    assert bill.is_complete is None
    assert "unknown to cloudgan: nodes of attempt 1" in whys(bill)["compute"]
