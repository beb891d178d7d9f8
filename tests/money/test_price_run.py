import datetime as dt

import pytest

from cloudgan.money.catalog import load_catalog
from cloudgan.money.report import price_run
from cloudgan.schema.record import RunRecord

TODAY = dt.date(2026, 11, 21)


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


@pytest.fixture
def row(catalog):
    return catalog.row("aws/g4dn.xlarge/us-east-1/on_demand")


def test_a_run_costs_its_time_at_the_nodes_rate(record, row):
    (priced,) = price_run(record, (row,), TODAY)
    assert row.usd_per_hour == 0.526
    assert priced.usd_per_epoch == pytest.approx(10 / 3600 * 0.526)
    assert priced.usd_per_run == pytest.approx(65 / 3600 * 0.526)
    assert priced.usd_per_million_showers == pytest.approx(1e6 / 100 / 3600 * 0.526)
    assert priced.unknown == ()
    assert priced.age_days == (TODAY - dt.date(2026, 9, 6)).days


def test_the_basis_says_that_the_node_was_not_measured(record, row):
    (priced,) = price_run(record, (row,), TODAY)
    assert priced.basis.startswith("not measured on this node")
    assert "not a forecast" in priced.basis


def test_a_process_that_never_said_its_end_makes_the_cost_of_the_run_unknown(lines, row):
    earlier = lines[0].model_copy(update={"time": "2026-11-21T11:00:00Z"})
    for known in ((earlier, *lines), lines[:-1], ()):
        (priced,) = price_run(RunRecord(lines=tuple(known)), (row,), TODAY)
        assert priced.usd_per_run is None


def test_an_unknown_time_is_an_unknown_cost_and_not_zero(lines, row):
    begun = RunRecord(lines=lines[:2])
    (priced,) = price_run(begun, (row,), TODAY)
    assert priced.usd_per_epoch is None
    assert priced.usd_per_run is None
    assert priced.usd_per_million_showers is not None
    assert [reason.split(":")[0] for reason in priced.unknown] == ["usd_per_epoch", "usd_per_run"]


def test_offers_keep_their_order_and_an_undated_one_has_no_age(record, catalog):
    offers = catalog.find(accelerator="V100")
    priced = price_run(record, offers, TODAY)
    assert tuple(each.row for each in priced) == offers
    undated = offers[0].model_copy(update={"date": "unknown"})
    assert [each.age_days for each in price_run(record, [undated], TODAY)] == [None]
