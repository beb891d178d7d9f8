"""What an epoch costs on each offer."""

from __future__ import annotations

import pytest

from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.elsewhere import speeds
from cloudgan.cost.elsewhere_price import node_counts, price_elsewhere, price_epoch
from cloudgan.cost.elsewhere_runs import PAPER_NETWORK, PAPER_SHOWERS, paper_measurements


@pytest.fixture(scope="module")
def known():
    return speeds(PAPER_NETWORK, PAPER_SHOWERS, paper_measurements())


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


def one_row(catalog, **wanted):
    return catalog.find(**wanted)[0]


def test_a_measured_epoch_costs_its_seconds_times_the_price_of_all_nodes(known, catalog):
    row = catalog.row("gcp/n1-standard-64+8xV100/us-central1/on_demand")
    found = price_epoch(row, 8, known)
    assert found.usd == found.usd_low == found.usd_high
    assert found.usd == pytest.approx(59.35 / 3600 * 8 * row.usd_per_hour)
    assert found.usd == pytest.approx(3.02, rel=0.01)


def test_bounds_of_time_are_bounds_of_cost_and_no_figure_is_made_up(known, catalog):
    found = price_epoch(one_row(catalog, accelerator="h100", provider="aws"), 1, known)
    assert found.usd is None
    assert 0 < found.usd_low < found.usd_high


def test_each_offer_gets_the_least_nodes_that_keep_to_the_time(known, catalog):
    row = catalog.row("gcp/n1-standard-64+8xV100/us-central1/on_demand")
    (found,) = price_elsewhere([row], known, within_seconds=120)
    assert found.nodes == 4
    assert found.epoch.high_seconds <= 120 < price_epoch(row, 3, known).epoch.high_seconds


def test_a_time_that_no_number_of_nodes_keeps_is_unknown_with_the_reason(known, catalog):
    rows = [
        catalog.row("gcp/n1-standard-8+1xV100/us-central1/on_demand"),
        catalog.row("gcp/v3-8/us-central1/on_demand"),
    ]
    v100, tpu = price_elsewhere(rows, known, within_seconds=50)
    assert v100.nodes is tpu.nodes is v100.usd_high is None
    assert "32 of these nodes may need up to" in v100.why_unknown
    assert "this slice may need up to 416.3 s, more than 50 s" in tpu.why_unknown


def test_a_tpu_slice_trains_alone(catalog):
    assert node_counts(one_row(catalog, accelerator="TPU-v3")) == (1,)
    assert len(node_counts(one_row(catalog, accelerator="V100"))) == 10


def test_a_node_without_accelerator_is_unknown_not_free(known, catalog):
    row = one_row(catalog, accelerator="V100").model_copy(update={"accelerator_count": 0})
    found = price_epoch(row, 1, known)
    assert found.usd is found.usd_high is found.epoch is None
    assert "no accelerator" in found.why_unknown
