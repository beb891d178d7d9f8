"""What masters and workers cost; the parts add up to the line items."""

from __future__ import annotations

import datetime as dt
import math

import pytest

from cloudgan.api.cost_page import shares_table
from cloudgan.cost.accounting.run_cost import cost_report
from cloudgan.cost.prices.catalog import load_catalog
from cloudgan.schema.exchange_line import Exchanged
from cloudgan.schema.launch import Attempt, Launch, Node
from cloudgan.schema.record import RunRecord
from tests.cost.conftest import epoch, started, stopped

TODAY = dt.date(2026, 11, 23)
NOON = dt.datetime(2026, 11, 23, 12, tzinfo=dt.UTC)
ROW = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/on_demand")


def exchanged(number, rank, worker, **seconds):
    return Exchanged(
        time="t",
        step=1,
        epoch=number,
        rank=rank,
        worker=worker,
        updates=1,
        seconds={"wait": 0.0} | seconds,
        staleness={},
    )


def record(*, last=()):
    """A tracing epoch of 20 s and one of 10 s; a master and two workers."""
    busy = {"train": 6.0, "gather": 0.5, "update": 0.5, "wait": 1.0, "save": 1.0}
    return RunRecord(
        lines=(
            started(),
            epoch(0, 20, first=True),
            exchanged(0, 0, None, wait=19.0, update=1.0),
            exchanged(0, 1, 0, train=20.0),
            exchanged(0, 2, 1, train=20.0),
            epoch(1, 10),
            exchanged(1, 0, None, wait=9.0, update=1.0),
            exchanged(1, 1, 0, **busy),
            exchanged(1, 2, 1, **busy),
            *last,
            stopped(20, 50),
        )
    )


def test_the_epochs_are_divided_among_the_ranks_and_their_routines():
    report = cost_report("r", record(), TODAY, row=ROW)
    seconds = {share.name: share.node_seconds for share in report.shares}
    # Three ranks: a third of 20 s and of 10 s each; of the second epoch by the workers' clocks.
    assert seconds == pytest.approx(
        {
            "masters": 10.0,
            "workers: train": 2 * (20 + 6) / 3,
            "workers: exchange": 2 / 3,
            "workers: wait": 2 / 3,
            "workers: save": 2 / 3,
            "workers: other": 2 / 3,
            "outside of the epochs": 20.0,
        }
    )
    known = math.fsum(share.usd for share in report.shares)
    assert known == pytest.approx(report.totals.known_usd, rel=1e-12)
    assert known == pytest.approx(ROW.cost_usd(50))
    assert shares_table(report).rows[0][0] == "masters"


def test_a_group_counts_with_all_its_ranks():
    report = cost_report("r", record(), TODAY, row=ROW, group=2)
    seconds = {share.name: share.node_seconds for share in report.shares}
    assert seconds["masters"] == pytest.approx(30 / 5)
    assert seconds["workers: wait"] == pytest.approx(4 / 5)


def test_clocks_of_a_worker_that_exceed_the_epoch_are_scaled_to_it():
    late = (epoch(2, 10), exchanged(2, 0, None), exchanged(2, 1, 0, train=15.0, wait=5.0))
    report = cost_report("r", record(last=late), TODAY, row=ROW)
    assert math.fsum(share.node_seconds for share in report.shares) == pytest.approx(50)


def test_the_parts_of_a_provisioned_run_add_up_to_the_bill():
    """Provisioning, idle tail, rounding and fees besides nodes are parts, too."""
    node = Node(name="n", started_at=NOON, terminated_at=NOON + dt.timedelta(seconds=100))
    attempt = Attempt(
        provider="gcp",
        node_type=ROW.node_type,
        region=ROW.region,
        market="on_demand",
        price_rows=(ROW,),
        nodes=(node,),
        program_started_at=NOON + dt.timedelta(seconds=30),
        program_ended_at=NOON + dt.timedelta(seconds=80),
    )
    launch = Launch(run="r", config_hash="abc", attempts=(attempt,))
    report = cost_report("r", record(), TODAY, launch=launch)
    seconds = {share.name: share.node_seconds for share in report.shares}
    assert seconds["masters"] == pytest.approx(10)
    assert math.fsum(seconds.values()) == pytest.approx(
        report.billed_attempts[0].billed_node_seconds
    )
    assert math.fsum(share.usd for share in report.shares) == pytest.approx(report.totals.known_usd)


def test_without_a_price_the_parts_have_seconds_only_and_other_runs_have_no_parts():
    report = cost_report("r", record(), TODAY)
    assert report.shares[0].node_seconds == pytest.approx(10)
    assert {share.usd for share in report.shares} == {None}
    plain = RunRecord(lines=(started(), epoch(0, 20, first=True), stopped(20, 50)))
    assert cost_report("r", plain, TODAY, row=ROW).shares == ()
