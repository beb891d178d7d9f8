"""Reconciliation of a bill with the measured cost, and reasons of differences."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import load_fees
from cloudgan.money.focus import BillLine, BillSummary
from cloudgan.money.reconciliation import reconcile
from cloudgan.money.report import cost_report
from cloudgan.schema.launch import Attempt, Cluster, Launch, Node
from cloudgan.schema.record import RunRecord
from tests.money.conftest import epoch, started, stopped

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
ROW = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/on_demand")
HOUR = 3600


def after(seconds):
    return NOON + dt.timedelta(seconds=seconds)


def launched(**more):
    node = {
        "name": "a",
        "started_at": NOON,
        "last_seen_at": after(HOUR),
        "terminated_at": after(HOUR),
    }
    cluster = Cluster(
        name="c",
        control_plane="GKE standard",
        system_nodes=0,
        created_at=NOON,
        deleted_at=after(HOUR),
        run_seconds=HOUR,
    )
    attempt = Attempt(
        provider="gcp",
        region=ROW.region,
        node_type=ROW.node_type,
        market=ROW.market,
        nodes=(Node(**node | more),),
        price_rows=(ROW,),
        cluster=cluster,
        fees=(),
        end_reason="finished",
    )
    return Launch(run="gan", config_hash="h", attempts=(attempt,))


def bill_of(*lines, launch=None, until=7200):
    launch = launch or launched()
    record = RunRecord(lines=(started(), epoch(0, 20, first=True), stopped(10, 60)))
    report = cost_report("gan", record, NOON.date(), launch=launch, fees=load_fees())
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


def test_a_shared_control_plane_has_no_line_of_the_run():
    bill = bill_of(("compute", ROW.usd_per_hour, 0))
    assert "shared by all runs" in whys(bill)["control plane"]


def test_a_disk_is_billed_and_not_measured():
    bill = bill_of(("compute", ROW.usd_per_hour, 0), ("disk", 0.3, 0))
    assert whys(bill)["disk"] == "not measured by cloudgan"


def test_an_incomplete_export_is_reported():
    bill = bill_of(("compute", 1.0, 0), until=1800)
    assert bill.is_complete is False
    assert whys(bill)["compute"] == "the export is incomplete"
    assert any("export again a day later" in note for note in bill.notes)


def test_an_export_without_lines_of_the_run_explains_what_to_do():
    bill = bill_of()
    assert any("label cloudgan-run=gan" in note for note in bill.notes)
    assert any("activated" in note for note in bill.notes)


def test_unobserved_time_explains_the_difference():
    launch = launched(last_seen_at=after(600))
    bill = bill_of(("compute", ROW.usd_per_hour / 2, 0), launch=launch)
    assert "not observed" in whys(bill)["compute"]
    bill = bill_of(("compute", ROW.usd_per_hour / 2, 0))
    assert "50% below the measured cost at prices of" in whys(bill)["compute"]
    bill = bill_of(("compute", ROW.usd_per_hour * 2, 0))
    assert "100% above the measured cost" in whys(bill)["compute"]


def test_nodes_still_up_make_completeness_unknown():
    bill = bill_of(("compute", 1.0, 0), launch=launched(terminated_at=None))
    assert bill.is_complete is None
    assert "unknown to cloudgan: nodes of attempt 1" in whys(bill)["compute"]
