"""Forecast and measurement of a run, and the largest cause of a difference."""

import pytest

from cloudgan.money.fees import Fees
from cloudgan.money.forecast_vs_actual import forecast_vs_actual
from cloudgan.money.report import cost_report
from cloudgan.schema.item import Item
from cloudgan.schema.plan import Forecast, ForecastPart, JobCost
from cloudgan.schema.record import RunRecord
from tests.money.conftest import (
    NOON,
    ROW,
    TODAY,
    after,
    attempt,
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
    edges = {"low_usd": 50 * A_SECOND, "usd": 70 * A_SECOND}
    cost = JobCost(
        parts=(ForecastPart(item=Item.TRAINING, **edges),),
        known_low_usd=edges["low_usd"],
        known_usd=edges["usd"],
    )
    found = forecast_vs_actual(report, ahead, len(record.epochs()), cost)
    return {row.metric: row for row in found}


def test_forecast_and_measurement_are_compared():
    found = rows(up=70)
    epoch_row, seconds, usd = found.values()
    assert (epoch_row.low, epoch_row.predicted, epoch_row.high, epoch_row.measured) == (
        9,
        10,
        11,
        10,
    )
    assert (seconds.low, seconds.high, seconds.measured) == (50, 70, 20 + 30 + 8 + 4)
    assert usd.measured == pytest.approx(70 * A_SECOND)
    assert usd.billed is None
    assert [row.explanation.partition(";")[0] for row in found.values()] == ["inside the band"] * 3
    assert (
        "not counted: disks, addresses and data transfer of the nodes, cluster" in usd.explanation
    )


def test_an_idle_tail_is_named_as_the_largest_cause():
    why = rows(up=1070)["USD"].explanation
    assert "above the band; largest cause: idle tail" in why
    assert f"{1000 * A_SECOND:.4g} USD" in why


def test_slow_epochs_are_named_as_the_largest_cause():
    found = rows(slow=10, up=520, ended_at=520)
    assert found["seconds per epoch"].explanation == "809% above the band"
    assert "epochs slower than the band" in found["USD"].explanation


def test_an_early_end_reports_the_trained_epochs():
    found = rows(epochs=2, up=40, ended_at=40)
    assert found["seconds of all epochs"].explanation == "2 of 4 epochs were trained"
    assert found["USD"].explanation.startswith("2 of 4 epochs were trained")


def test_a_metric_without_forecast_has_no_row():
    found = rows(low_usd=None, high_usd=None, low_seconds=None, high_seconds=None)
    assert list(found) == ["seconds per epoch"]
