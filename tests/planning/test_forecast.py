"""What a plan says of time and money before anything runs."""

from __future__ import annotations

import pytest

from cloudgan.core.plan import Workers
from cloudgan.core.price_row import PriceRow
from cloudgan.cost.elsewhere import Measured, speeds
from cloudgan.planning.forecast import forecast

RUN = Measured("V100", 8, 1000, 100.0, 10.0, 50.0, "the lab's run")
KNOWN = speeds("paper", 1000, (RUN,))
NOTHING = speeds("paper", 1000, ())
PRICE = PriceRow(
    provider="gcp",
    node_type="n1-standard-96+8xV100",
    accelerator="V100",
    accelerator_count=8,
    accelerator_memory_gib=16,
    vcpu=96,
    memory_gib=360,
    region="us-central1",
    market="spot",
    usd_per_hour=36.0,
    unit_sold="parts",
    source="somebody's list",
    date="2026-11-01",
    confidence="A",
    snapshot="current",
)


def workers(nodes=1, accelerator="V100", count=8):
    return Workers(
        nodes=nodes, accelerator=accelerator, accelerators_per_node=count, cpus=8, memory_gib=30
    )


def test_a_measured_number_of_accelerators_has_no_band():
    found = forecast(10, workers(), KNOWN, PRICE)
    seconds = 50 + 10 * 10 + 10 * 100
    assert (found.epoch_seconds, found.low_seconds, found.high_seconds) == (100, seconds, seconds)
    assert found.low_usd == found.high_usd == pytest.approx(seconds * 0.01)
    assert (found.grade, found.basis, found.why_unknown) == ("measured", "the lab's run", "")


def test_a_number_that_was_not_measured_has_a_band_and_no_figure():
    found = forecast(10, workers(nodes=2), KNOWN, PRICE)
    assert found.epoch_seconds is None
    assert found.low_epoch_seconds == 50
    assert found.high_epoch_seconds == 100
    assert found.low_seconds == 50 + 10 * 10 + 10 * 50
    assert found.high_usd == pytest.approx(found.high_seconds * 0.02), "both nodes are paid"


def test_without_a_price_time_is_known_and_money_is_not():
    found = forecast(10, workers(), KNOWN, None)
    assert found.low_seconds is not None
    assert found.low_usd is None
    assert found.high_usd is None
    assert "--as=OFFER" in found.why_unknown


@pytest.mark.parametrize(
    ("asked", "known", "why"),
    [
        (workers(count=0, accelerator=None), KNOWN, "no run on such processors was measured"),
        (workers(accelerator="X9"), KNOWN, "nobody measured X9"),
        (workers(), NOTHING, "no run of the network 'paper' was measured"),
    ],
)
def test_unknown_stays_unknown_and_says_why(asked, known, why):
    found = forecast(10, asked, known, None)
    assert found.low_seconds is found.high_seconds is found.low_usd is None
    assert why in found.why_unknown


def test_a_run_that_ends_before_its_epochs_is_not_foretold_by_them():
    found = forecast(10, workers(), KNOWN, PRICE, whole=False)
    assert found.epoch_seconds == 100
    assert found.low_seconds is found.high_seconds is found.low_usd is found.high_usd is None
    assert "--max_steps, --max_seconds or --until" in found.why_unknown
