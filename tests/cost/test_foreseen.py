"""What was foretold beside what was measured, and what made the difference."""

from __future__ import annotations

import datetime as dt

import pytest

from cloudgan.core.launch import Attempt, Launch, Node
from cloudgan.core.plan import Forecast
from cloudgan.core.record import RunRecord
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.fees import Fees
from cloudgan.cost.foreseen import compared
from cloudgan.cost.run_cost import cost_report
from tests.cost.conftest import epoch, started, stopped

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
ROW = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/on_demand")
A_SECOND = ROW.usd_per_hour / 3600


def rows(*, up=100, ended_at=70, slow=1.0, epochs=4, **forecast):
    """A run of 4 epochs of 10 s; its machine is up from 0 to `up`."""
    lines = [started(), epoch(0, 20 * slow, first=True)]
    lines += [epoch(number, 10 * slow) for number in range(1, epochs)]
    record = RunRecord(lines=(*lines, stopped(10 * epochs, ended_at)))
    node = Node(name="a", up=NOON, down=NOON + dt.timedelta(seconds=up))
    attempt = Attempt(
        provider="gcp",
        region=ROW.region,
        node_type=ROW.node_type,
        market=ROW.market,
        nodes=(node,),
        price_rows=(ROW,),
        program_up=NOON,
        program_down=NOON + dt.timedelta(seconds=ended_at),
        ended="finished",
    )
    launch = Launch(run="gan", config_hash="h", attempts=(attempt,))
    report = cost_report("gan", record, NOON.date(), launch=launch, fees=Fees(()))
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
    found = compared(report, Forecast(**known | forecast), len(record.epochs()))
    return {row.what: row for row in found}


def test_figures_stand_side_by_side():
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
    assert [row.why.partition(";")[0] for row in found.values()] == ["inside the band"] * 3
    assert "not counted: cluster, storage, egress" in usd.why


def test_a_machine_that_idled_is_named_as_what_made_it_dear():
    why = rows(up=1070)["USD"].why
    assert "above the band, most of it by: idle tail" in why
    assert f"{1000 * A_SECOND:.4g} USD" in why


def test_slow_epochs_are_named_when_they_are_most_of_it():
    found = rows(slow=10, up=520, ended_at=520)
    assert found["seconds per epoch"].why == "809% above the band"
    assert "epochs that were slower than the band" in found["USD"].why


def test_a_run_that_ended_early_says_how_far_it_came():
    found = rows(epochs=2, up=40, ended_at=40)
    assert found["seconds of all epochs"].why == "2 of 4 epochs were trained"
    assert found["USD"].why.startswith("2 of 4 epochs were trained")


def test_what_was_not_foretold_has_no_row():
    found = rows(low_usd=None, high_usd=None, low_seconds=None, high_seconds=None)
    assert list(found) == ["seconds per epoch"]
