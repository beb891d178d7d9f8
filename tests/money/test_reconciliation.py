"""Reconciliation of a bill with the measured cost, and reasons of differences."""

from pathlib import Path

import pytest

from cloudgan.money.fees import load_fees
from cloudgan.money.focus import BillLine, BillSummary
from cloudgan.money.reconciliation import reconcile
from cloudgan.money.report import cost_report
from cloudgan.schema.launch import Node
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


def bill_of(*lines, launch=None, until=7200):
    launch = launch or launched()
    report = cost_report("gan", short_run(), TODAY, launch=launch, fees=load_fees())
    read = BillSummary()
    for part, amount, credit in lines:
        read.add(BillLine("gan", part, amount, credit, "USD", after(until)), "gan")
    read.add(BillLine(None, "compute", 99.0, 0.0, "USD", after(until)), "gan")
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
    bill = bill_of(("compute", 1.0, 0), until=1800)
    assert bill.is_complete is False
    assert whys(bill)["compute"] == "the export is incomplete"
    assert any("export again a day later" in note for note in bill.notes)


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
