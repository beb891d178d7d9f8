"""Forecast and measurement of a run, and the largest cause of a difference."""

import pytest

from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import Fees, load_fees
from cloudgan.money.forecast import JobContext, forecast_vs_actual, job_cost, load_startup_times
from cloudgan.money.report import cost_report
from cloudgan.schema.item import Item
from cloudgan.schema.plan import Forecast, ForecastPart, JobCost
from cloudgan.schema.price_row import CONTROL_PLANE, SYSTEM_NODE, PoolFee
from cloudgan.schema.record import RunRecord
from tests.money.conftest import (
    NOON,
    ROW,
    TODAY,
    after,
    attempt,
    cluster_of,
    epoch,
    launch_of,
    started,
    stopped,
)

A_SECOND = ROW.usd_per_hour / 3600


def rows(*, up=100, ended_at=70, slow=1.0, epochs=4, **forecast):
    """A run of 4 epochs of 10 s; its machine is up from 0 to `up`."""
    lines = [started(), epoch(0, 20 * slow, first=True)]
    lines += [epoch(number, 10 * slow) for number in range(1, epochs)]
    record = RunRecord(lines=(*lines, stopped(10 * epochs, ended_at)))
    times = {"program_started_at": NOON, "program_ended_at": after(ended_at)}
    launch = launch_of(attempt((0, up), end_reason="finished", **times))
    report = cost_report("gan", record, TODAY, launch=launch, fees=Fees(()))
    known = {
        "epochs": 4,
        "epoch_seconds": 10,
        "low_epoch_seconds": 9,
        "high_epoch_seconds": 11,
        "low_seconds": 50,
        "high_seconds": 70,
        "low_usd": 50 * A_SECOND,
        "high_usd": 70 * A_SECOND,
    }
    ahead = Forecast(**known | forecast)
    low, high = 50 * A_SECOND, 70 * A_SECOND
    training = ForecastPart(item=Item.TRAINING, low_usd=low, usd=high)
    cost = JobCost(parts=(training,), known_low_usd=low, known_usd=high)
    found = forecast_vs_actual(report, ahead, len(record.epochs()), cost)
    return {row.metric: row for row in found}


def test_forecast_and_measurement_are_compared():
    found = rows(up=70)
    epoch_row, seconds, usd = found.values()
    assert (epoch_row.low, epoch_row.predicted, epoch_row.high) == (9, 10, 11)
    assert epoch_row.measured == 10
    assert (seconds.low, seconds.high, seconds.measured) == (50, 70, 20 + 30 + 8 + 4)
    assert usd.measured == pytest.approx(70 * A_SECOND)
    assert usd.billed is None
    assert [row.explanation.partition(";")[0] for row in found.values()] == ["inside the band"] * 3
    beside = "disks, addresses and data transfer of the nodes, cluster"
    assert f"not counted: {beside}" in usd.explanation


@pytest.mark.parametrize(
    ("run", "cause", "usd"),
    [
        ({"up": 1070}, "idle tail", 1000 * A_SECOND),
        ({"slow": 10, "up": 520, "ended_at": 520}, "epochs slower than the band", 0),
    ],
)
def test_the_largest_cause_of_a_higher_cost_is_named(run, cause, usd):
    found = rows(**run)
    why = found["USD"].explanation
    assert f"above the band; largest cause: {cause}" in why
    assert not usd or f"{usd:.4g} USD" in why
    epochs = "809% above the band" if "slow" in run else "inside the band"
    assert found["seconds per epoch"].explanation == epochs


def test_an_early_end_reports_the_trained_epochs():
    found = rows(epochs=2, up=40, ended_at=40)
    assert found["seconds of all epochs"].explanation == "2 of 4 epochs were trained"
    assert found["USD"].explanation.startswith("2 of 4 epochs were trained")


def test_a_metric_without_forecast_has_no_row():
    found = rows(low_usd=None, high_usd=None, low_seconds=None, high_seconds=None)
    assert list(found) == ["seconds per epoch"]


HOUR = 3600


def test_the_forecast_of_the_whole_job_is_compared_with_the_whole_cost():
    """Training 10 to 12 h of a T4, cluster and disk: a run of 11 h is inside, not above for its cluster."""
    row = load_catalog().row("gcp/n1-standard-8+1xT4/us-central1/spot")
    fees = (PoolFee(kind="disk", product="pd-balanced", quantity=100), PoolFee(kind="public_ip"))
    planned = job_cost(
        row, 1, (10 * HOUR, 12 * HOUR), JobContext(load_fees(), load_startup_times()), fees=fees
    ).cost
    edges = {"low_seconds": 10 * HOUR, "high_seconds": 12 * HOUR}
    usd = {"low_usd": row.cost_usd(10 * HOUR), "high_usd": row.cost_usd(12 * HOUR)}
    ahead = Forecast(epochs=2, **edges | usd)
    hours = 11 * HOUR
    epochs = (epoch(number, hours / 2 - 3, first=not number) for number in (0, 1))
    begun = started().model_copy(update={"startup_seconds": 0})
    record = RunRecord(lines=(begun, *epochs, stopped(20, hours)))

    def usd_row(up):
        cluster = cluster_of(up, system_node="e2-medium", system_nodes=1)
        times = {"program_started_at": NOON, "program_ended_at": after(hours), "cluster": cluster}
        known = {"end_reason": "finished", "stored_gib_months": 0, "egress_gib": 0} | times
        known |= {"fees": (CONTROL_PLANE, SYSTEM_NODE, *fees)}
        known = attempt((0, up), row=row, **known)
        report = cost_report("r", record, TODAY, launch=launch_of(known), fees=load_fees())
        return forecast_vs_actual(report, ahead, 2, planned)[-1], report.totals.known_usd

    hourly = row.usd_per_hour + 0.1 + 0.033506 + 100 * 0.1 / 730 + 0.005
    inside, usd = usd_row(hours)
    assert inside.measured == pytest.approx(usd) == pytest.approx(11 * hourly)
    assert (inside.low, inside.high) == (planned.known_low_usd, planned.known_usd)
    assert inside.explanation == "inside the band"
    planned = planned.model_copy(update={"known_usd": usd * (1 - 1e-15)})
    assert usd_row(hours)[0].explanation == "inside the band", "another order of the same sum"
    above, _ = usd_row(hours + 5 * HOUR)
    tail = row.cost_usd(5 * HOUR)
    assert f"largest cause: idle tail, {tail:.4g} USD more than planned" in above.explanation
