"""A run that goes as its plan assumes costs what the plan, status, report and the cloud's bill say, to the cent.

The bill is written here, from prices by the hour and the month and from the cloud's rules, not by the ledger.
"""

import csv
import datetime as dt
import json
import math
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudgan.launch.plan.jobs import train_forecast
from cloudgan.money.bill import read_bill, reconcile
from cloudgan.money.billing import billing_rule, launch_ledger
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import load_fees
from cloudgan.money.forecast import JobContext, forecast_vs_actual, job_cost, load_startup_times
from cloudgan.money.report import cost_report
from cloudgan.schema.config import RunConfig
from cloudgan.schema.plan import Workers
from cloudgan.schema.price_row import CONTROL_PLANE, SYSTEM_NODE, DataMove, PoolFee
from cloudgan.schema.record import RunRecord
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.speed.candidates import node_counts
from cloudgan.speed.measured import (
    PAPER_NETWORK,
    PAPER_SHOWERS,
    paper_measurements,
)
from cloudgan.speed.model import build_throughput_model
from tests.money.conftest import (
    NOON,
    TODAY,
    after,
    attempt,
    cluster_of,
    epoch,
    launch_of,
    short_run,
    started,
    stopped,
)

FEES, STARTUPS = load_fees(), load_startup_times()
HOUR, MONTH_HOURS = 3600, 730
ATTEMPTS = ((0, 2 * HOUR), (2 * HOUR, 5 * HOUR), (5 * HOUR, 10 * HOUR))
"""Start and end of the nodes; the second and the third attempt begin when the cloud took the nodes before."""
NODES = 2
CLOUDS = {
    "gcp": (("GKE standard", 0.1), ("e2-medium", 0.033506), ("pd-balanced", 100, 0.1)),
    "aws": (("EKS standard support", 0.1), None, ("EBS gp3", 100, 0.08)),
    "azure": (
        ("AKS standard (uptime SLA)", 0.1),
        ("Standard_D2_v2", 0.146),
        ("Premium SSD P10", 128, 0.153984),
    ),
}
"""Control plane, system node and their USD per hour, and the disk of a node: its GiB and USD per GiB and month."""
ADDRESS_USD = 0.005
WRITES, READS = 650, 1800
"""Requests of a node to the bucket in an hour."""
REQUEST_USD = {"gcp": (0.05, 0.004), "aws": (0.05, 0.004), "azure": (0.055, 0.0044)}
"""Of 10,000 writes and of 10,000 reads."""
COLUMNS = (
    *("BilledCost", "BillingCurrency", "ChargeCategory", "ChargePeriodEnd"),
    *("ServiceCategory", "ChargeDescription", "Tags"),
)


def fees_of(cloud):
    product, gib, _ = cloud[2]
    return (
        PoolFee(kind="disk", product=product, quantity=gib),
        PoolFee(kind="public_ip"),
        PoolFee(kind="requests", product="writes and lists", quantity=WRITES),
        PoolFee(kind="requests", product="reads", quantity=READS),
    )


def rows_of(provider, market):
    where = ("us-central1", "us-east-1", "eastus")
    accelerator = "A10G" if provider == "aws" else "T4"
    return next(
        row
        for row in load_catalog().find(provider=provider, market=market, accelerator=accelerator)
        if row.region in where
    )


def preempted(row, cloud, since, until, *, names_cluster):
    """One attempt; the launcher records the cluster when it removes the nodes, from its creation on."""
    plane, system, _ = cloud
    cluster = cluster_of(until, control_plane=plane[0], system_nodes=0)
    if system:
        cluster = cluster_of(until, control_plane=plane[0], system_node=system[0], system_nodes=1)
    return attempt(
        *[(since, until)] * NODES,
        row=row,
        node_count=NODES,
        fees=(CONTROL_PLANE, *((SYSTEM_NODE,) if system else ()), *fees_of(cloud)),
        data=DataMove(),
        cluster=cluster if names_cluster else None,
        program_started_at=after(since),
        program_ended_at=after(until),
        end_reason="preempted" if until < ATTEMPTS[-1][1] else "finished",
        stored_gib_months=0,
        egress_gib=0,
    )


def charges(row, cloud):
    """What the cloud bills: service, category, USD, and whether the line has the label of the run."""
    plane, system, (_, gib, usd_per_month) = cloud
    for since, until in ATTEMPTS:
        hours = (until - since) / HOUR
        for _ in range(NODES):
            yield "Compute", row.usd_per_hour * hours, True
            yield "Networking", ADDRESS_USD * hours, True
            yield "Storage", gib * usd_per_month / MONTH_HOURS * hours, True
            for count, usd in zip((WRITES, READS), REQUEST_USD[row.provider], strict=True):
                yield "Requests", count * usd / 1e4 * hours, False
    for shared in (plane, system):
        if shared:
            yield "Compute", shared[1] * ATTEMPTS[-1][1] / HOUR, False


def written_bill(path, lines):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for category, usd, is_labelled in lines:
            tags = json.dumps({"cloudgan-run": "gan"} if is_labelled else {})
            what = "a disk" if category == "Storage" else "a node"
            until, of = "2026-11-22T12:00:00Z", "Storage" if category == "Requests" else category
            writer.writerow((usd, "USD", "Usage", until, of, what, tags))
    return path


@pytest.mark.parametrize("recorded", ["by each attempt", "by the last attempt"])
@pytest.mark.parametrize("market", ["spot", "on_demand"])
@pytest.mark.parametrize("provider", CLOUDS)
def test_the_four_documents_of_a_launch_that_was_preempted_twice_are_one_sum(
    provider, market, recorded, tmp_path
):
    row, cloud, fees = rows_of(provider, market), CLOUDS[provider], FEES
    seconds = ATTEMPTS[-1][1]
    planned = job_cost(
        row, NODES, (seconds, seconds), JobContext(fees, ()), fees=fees_of(cloud)
    ).cost
    every = recorded == "by each attempt"
    whole = launch_of(
        *(
            preempted(row, cloud, *times, names_cluster=every or times is ATTEMPTS[-1])
            for times in ATTEMPTS
        )
    )
    status = launch_ledger(whole).until(after(seconds + HOUR)).known_usd
    report = cost_report("gan", short_run(), TODAY, launch=whole, fees=fees)
    lines = tuple(charges(row, cloud))
    billed = math.fsum(usd for _, usd, _ in lines)
    documents = (planned.known_usd, status, report.totals.known_usd, billed)
    assert {round(usd, 2) for usd in documents} == {round(billed, 2)}, documents
    has_price = fees.find("storage_gib_month", provider, row.region)
    assert report.totals.unknown == (() if has_price else ("storage",)), "named, and not zero"

    path = written_bill(tmp_path / "bill.csv", lines)
    bill = reconcile(read_bill([path], "gan"), [path], report, whole)
    of = {part.name: part for part in bill.categories}
    assert bill.is_complete
    for name in ("compute", "disk", "network"):
        assert of[name].billed_usd == pytest.approx(of[name].measured_usd, abs=0.005)
        assert of[name].explanation == ""
    for name, service in (("control plane", "Compute"), ("storage", "Requests")):
        shared = math.fsum(usd for what, usd, labelled in lines if what == service and not labelled)
        assert of[name].measured_usd == pytest.approx(shared, abs=0.005)
        assert "shared by all runs" in of[name].explanation


THROUGHPUT = build_throughput_model(PAPER_NETWORK, PAPER_SHOWERS, paper_measurements())


@cache
def offers():
    return [
        row
        for row in load_catalog().find(market="on_demand")
        if row.accelerator_count and THROUGHPUT.epoch(row.accelerator, row.accelerator_count, 64)
    ]


def between(edges, place):
    low, high = edges
    return low + place * (high - low)


def simulated_record(epochs, steady, estimate):
    """A record of epochs of `steady` seconds, with the estimate's gaps and first epoch."""
    lines = [started().model_copy(update={"startup_seconds": 0})]
    for number in range(epochs):
        more = 0 if number else estimate.first_more_seconds
        gaps = {"validation_seconds": estimate.between_seconds, "checkpoint_seconds": 0}
        whole = epoch(number, steady + more, first=number == 0)
        lines.append(whole.model_copy(update=gaps | {"trace_seconds": 0}))
    seconds = epochs * (steady + estimate.between_seconds) + estimate.first_more_seconds
    return RunRecord(lines=(*lines, stopped(10 * epochs, seconds))), seconds


def simulated_launch(row, nodes, waited, seconds, system_node):
    """The launch of nodes that are up from noon until training ends, which began after `waited`."""
    began = NOON + dt.timedelta(milliseconds=math.floor(1e3 * waited))
    ended = began + dt.timedelta(milliseconds=math.ceil(1e3 * seconds))
    cluster = cluster_of(
        (ended - NOON).total_seconds(),
        control_plane=FEES.find("control_plane", row.provider, row.region).name,
        system_node=system_node,
        system_nodes=1,
    )
    times = {"program_started_at": began, "program_ended_at": ended}
    up = [(0, (ended - NOON).total_seconds())] * nodes
    return launch_of(attempt(*up, row=row, cluster=cluster, end_reason="finished", **times))


@given(st.data())
@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
def test_the_price_of_a_plan_is_the_cost_of_a_run_that_goes_as_it_assumes(data):
    row = data.draw(st.sampled_from(offers()))
    nodes = data.draw(st.sampled_from(node_counts(row)))
    epochs = data.draw(st.integers(2, 20))
    places = st.floats(0, 1)
    batch = data.draw(st.sampled_from([16, 64, 96]))
    estimate = THROUGHPUT.epoch(row.accelerator, nodes * row.accelerator_count, batch)
    job = job_cost(row, nodes, estimate.job_seconds(epochs), JobContext(FEES, STARTUPS)).cost
    workers = Workers(
        nodes=nodes,
        accelerator=row.accelerator,
        accelerators_per_node=row.accelerator_count,
        cpus=1,
        memory_gib=1,
    )
    config = RunConfig(training=TrainingConfig(epochs=epochs, batch_per_replica=batch))
    ahead = train_forecast(config, workers, THROUGHPUT, row)

    steady = between((estimate.low_seconds, estimate.high_seconds), data.draw(places))
    record, seconds = simulated_record(epochs, steady, estimate)
    waited = between((job.startup_low_seconds or 0, job.startup_seconds or 0), data.draw(places))
    systems = [
        fee.name
        for fee in FEES.rows
        if (fee.kind, fee.provider, fee.region) == ("system_node", row.provider, row.region)
    ]
    system = data.draw(st.sampled_from(systems)) if systems else None
    launch = simulated_launch(row, nodes, waited, seconds, system)
    report = cost_report("gan", record, NOON.date(), launch=launch, fees=FEES)

    ended = launch.attempts[0].nodes[0].terminated_at
    spent = launch_ledger(launch).until(ended).known_usd
    assert spent == pytest.approx(report.totals.known_usd), "the budget counts what the report has"

    rule = billing_rule(row.provider, row.node_type, NOON)
    rounding = row.cost_usd(rule.unit_seconds, nodes)
    millisecond = row.cost_usd(1e-3, nodes)
    assert (
        job.known_low_usd - millisecond
        <= report.totals.known_usd
        <= job.known_usd + rounding + millisecond
    )
    trained = [
        item.usd
        for item in report.line_items
        if item.name in {"first epoch", "steady epochs", "validation", "checkpoints"}
    ]
    assert ahead.low_usd * (1 - 1e-9) <= math.fsum(trained) <= ahead.high_usd * (1 + 1e-9)
    known = {one.metric: one for one in forecast_vs_actual(report, ahead, epochs)}
    assert known["seconds per epoch"].explanation == "inside the band"
    assert known["seconds of all epochs"].explanation == "inside the band"


def test_32_azure_nodes_for_40_seconds_are_planned_as_they_are_billed():
    row = load_catalog().find(provider="azure", market="on_demand", accelerator="T4")[0]
    planned = job_cost(row, 32, (40, 40), JobContext(FEES, ()), on_cluster=False).cost
    billed = launch_ledger(launch_of(attempt(*[(0, 40)] * 32, row=row, end_reason="finished")))
    assert billed.node_seconds == 9600
    assert planned.known_usd == pytest.approx(billed.known_usd) == pytest.approx(row.cost_usd(9600))
