"""A run that goes as its plan assumes costs what the plan says."""

import datetime as dt
import math
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudgan.launch.plan.jobs import train_forecast
from cloudgan.money.billing import billing_rule, launch_ledger
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import load_fees
from cloudgan.money.forecast import JobContext, forecast_vs_actual, job_cost, load_startup_times
from cloudgan.money.report import cost_report
from cloudgan.schema.config import RunConfig
from cloudgan.schema.plan import Workers
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
    attempt,
    cluster_of,
    epoch,
    launch_of,
    started,
    stopped,
)

FEES, STARTUPS = load_fees(), load_startup_times()
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
