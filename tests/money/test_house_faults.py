"""Sums that four calculators had wrong, each with the right figure."""

import pytest

from cloudgan.money.billing import launch_ledger
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import load_fees
from cloudgan.money.focus import BillLine, BillSummary
from cloudgan.money.forecast import JobContext, job_cost
from cloudgan.money.forecast_vs_actual import forecast_vs_actual
from cloudgan.money.reconciliation import reconcile
from cloudgan.money.report import cost_report
from cloudgan.money.startup import load_startup_times
from cloudgan.schema.item import Item
from cloudgan.schema.plan import Forecast
from cloudgan.schema.price_row import CONTROL_PLANE, SYSTEM_NODE, DataMove, PoolFee
from cloudgan.schema.record import PreemptionNotice, RunRecord
from tests.money import conftest
from tests.money.conftest import (
    NOON,
    TODAY,
    after,
    cluster_of,
    epoch,
    launch_of,
    short_run,
    started,
    stopped,
)

HOUR = 3600
DISK, ADDRESS = PoolFee(kind="disk", product="pd-balanced", quantity=100), PoolFee(kind="public_ip")


def row_of(provider, market, **more):
    rows = load_catalog().find(provider=provider, market=market, **more)
    return next(row for row in rows if row.region in ("us-central1", "us-east-1", "eastus"))


def attempt(row, seconds, *, nodes=1, **more):
    known = {"end_reason": "finished", "fees": (), "stored_gib_months": 0, "egress_gib": 0}
    return conftest.attempt(*[(0, seconds)] * nodes, row=row, **known | more)


def ledger(*attempts, notices=()):
    return launch_ledger(launch_of(*attempts), None, notices)


def test_ten_hours_of_a_t4_cost_its_disk_and_its_address_too():
    row = row_of("gcp", "spot", accelerator="T4")
    found = ledger(attempt(row, 10 * HOUR, fees=(DISK, ADDRESS)))
    beside = 10 * (100 * 0.1 / 730 + 0.005)
    assert beside == pytest.approx(0.187, abs=0.001)
    assert found.known_usd == pytest.approx(row.cost_usd(10 * HOUR) + beside)
    assert found.total().unknown == ()
    planned = job_cost(
        row, 1, (10 * HOUR, 10 * HOUR), JobContext(load_fees(), ()), on_cluster=False,
        fees=(DISK, ADDRESS),
    ).cost  # fmt: skip
    assert planned.known_usd == pytest.approx(found.known_usd), "the plan and the bill are one sum"


def test_a_budget_counts_the_fees_of_earlier_attempts():
    row = row_of("gcp", "spot", accelerator="T4")
    first = attempt(row, 15 * HOUR, fees=(CONTROL_PLANE, DISK, ADDRESS))
    spent = ledger(first).until(after(20 * HOUR)).known_usd
    fees = 0.1 + 0.033506 + 100 * 0.1 / 730 + 0.005
    assert spent == pytest.approx(15 * (row.usd_per_hour + fees))


def test_a_node_that_aws_takes_after_58_minutes_costs_nothing_for_budget_and_report():
    row = row_of("aws", "spot", accelerator="A10G")
    notice = PreemptionNotice(
        time=after(58 * 60).isoformat(), step=1, worker=0, cloud="aws", seconds=120
    )
    taken = ledger(attempt(row, 58 * 60), notices=(notice,))
    assert taken.known_usd == taken.until(after(HOUR)).known_usd == 0
    assert ledger(attempt(row, 58 * 60)).known_usd == pytest.approx(row.cost_usd(58 * 60))


def test_a_refused_attempt_changes_nothing():
    row = row_of("gcp", "spot", accelerator="T4")
    good = attempt(row, 10 * HOUR)
    refused = attempt(
        row, 0, nodes=0, end_reason="no quota", stored_gib_months=None, egress_gib=None
    )
    assert ledger(refused, good).total() == ledger(good).total()
    assert launch_of(refused, good).billed_seconds() == 10 * HOUR
    assert ledger(refused).total() == ledger().total()


def test_an_exact_azure_bill_has_no_difference_although_system_nodes_have_no_label_of_the_run():
    row = row_of("azure", "spot", accelerator="T4")
    system = load_fees().find("system_node", "azure", row.region)
    plane = load_fees().find("control_plane", "azure", row.region).name
    cluster = cluster_of(HOUR, control_plane=plane, system_node=system.name, system_nodes=2)
    whole = launch_of(attempt(row, HOUR, cluster=cluster))
    report = cost_report("r", short_run(), TODAY, launch=whole, fees=load_fees())
    assert report.totals.known_usd > 1.5 * row.usd_per_hour, "system nodes cost more than half a T4"
    read = BillSummary()
    read.add(BillLine("r", "compute", row.usd_per_hour, 0.0, "USD", after(2 * HOUR)), "r")
    compute, plane = reconcile(read, (), report, whole).categories
    assert compute.measured_usd == pytest.approx(row.usd_per_hour), "not 49 % below the measured"
    assert compute.explanation == ""
    assert (plane.name, plane.billed_usd) == ("control plane", 0)
    assert "shared by all runs" in plane.explanation


def test_data_in_a_bucket_of_the_same_cloud_are_bounded_by_its_own_price_between_regions():
    """100 GiB to 4 nodes of AWS: at most 400 x 0.138 USD, not 400 x 0.15, the dearest of any cloud."""
    row = row_of("aws", "on_demand", accelerator="T4")
    moving = JobContext(load_fees(), (), DataMove(gib=100, provider="aws"))
    found, without = (
        job_cost(row, 4, (HOUR, HOUR), context, on_cluster=False)
        for context in (moving, JobContext(load_fees(), ()))
    )
    assert "data transfer" in found.cost.unknown
    assert found.worst_case_usd - without.worst_case_usd == pytest.approx(400 * 0.138)


def test_the_forecast_of_the_whole_job_is_compared_with_the_whole_cost():
    """Training 10 to 12 h of a T4, cluster and disk: a run of 11 h is inside, not above for its cluster."""
    row = row_of("gcp", "spot", accelerator="T4")
    fees = (DISK, ADDRESS)
    planned = job_cost(
        row, 1, (10 * HOUR, 12 * HOUR), JobContext(load_fees(), load_startup_times()), fees=fees
    ).cost
    ahead = Forecast(
        epochs=2,
        low_seconds=10 * HOUR,
        high_seconds=12 * HOUR,
        low_usd=row.cost_usd(10 * HOUR),
        high_usd=row.cost_usd(12 * HOUR),
    )
    hours = 11 * HOUR
    record = RunRecord(
        lines=(
            started().model_copy(update={"startup_seconds": 0}),
            epoch(0, hours / 2 - 3, first=True),
            epoch(1, hours / 2 - 3),
            stopped(20, hours),
        )
    )

    def usd_row(up):
        cluster = cluster_of(up, system_node="e2-medium", system_nodes=1)
        times = {"program_started_at": NOON, "program_ended_at": after(hours), "cluster": cluster}
        known = attempt(row, up, fees=(CONTROL_PLANE, SYSTEM_NODE, *fees), **times)
        report = cost_report("r", record, TODAY, launch=launch_of(known), fees=load_fees())
        return forecast_vs_actual(report, ahead, 2, planned)[-1], report.totals.known_usd

    hourly = row.usd_per_hour + 0.1 + 0.033506 + 100 * 0.1 / 730 + 0.005
    inside, usd = usd_row(hours)
    assert inside.measured == pytest.approx(usd) == pytest.approx(11 * hourly)
    assert (inside.low, inside.high) == (planned.known_low_usd, planned.known_usd)
    assert inside.explanation == "inside the band"
    above, _ = usd_row(hours + 5 * HOUR)
    tail = row.cost_usd(5 * HOUR)
    assert f"largest cause: idle tail, {tail:.4g} USD more than planned" in above.explanation


def test_32_azure_nodes_for_40_seconds_are_planned_as_they_are_billed():
    row = row_of("azure", "on_demand", accelerator="T4")
    planned = job_cost(row, 32, (40, 40), JobContext(load_fees(), ()), on_cluster=False).cost
    billed = ledger(attempt(row, 40, nodes=32))
    assert billed.node_seconds == 9600
    assert planned.known_usd == pytest.approx(billed.known_usd) == pytest.approx(row.cost_usd(9600))
    assert billed.of(Item.NODES).known_usd == billed.known_usd
