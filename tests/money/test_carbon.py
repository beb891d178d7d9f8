"""Carbon follows from power, grid and time; missing data make it unknown."""

import datetime as dt
import math

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.money.carbon import carbon_g_per_epoch, load_carbon_factors
from cloudgan.money.catalog import shipped_catalog

V100 = "gcp/n1-standard-64+8xV100/us-central1/spot"


@pytest.fixture(scope="module")
def shipped():
    return shipped_catalog()


def test_carbon_is_power_times_time_times_the_grid(shipped):
    facts, row = load_carbon_factors(), shipped.row(V100)
    kilowatts = 8 * facts.power["V100"].watts / 1000
    found = carbon_g_per_epoch(row, 3600, 1)
    assert found.kwh == pytest.approx(kilowatts)
    assert found.grams == pytest.approx(kilowatts * facts.grid["gcp", "us-central1"].g_per_kwh)
    assert found.why_unknown == ""
    assert carbon_g_per_epoch(row, 3 * 3600, 4).grams == pytest.approx(12 * found.grams)
    assert carbon_g_per_epoch(row, 0, 1).grams == 0
    # The paper's largest run: 128 V100 at 300 W for 34.90 s are 0.372 kWh; at 431.95 g/kWh 161 g.
    assert carbon_g_per_epoch(row, 34.90, 16).grams == pytest.approx(160.8, rel=0.001)


def test_unknown_carbon_has_reasons_and_is_not_zero(shipped):
    row = shipped.row("aws/g5.xlarge/us-east-1/on_demand")
    found = carbon_g_per_epoch(row.model_copy(update={"region": "moon"}), None, 1)
    assert found.grams is None
    assert found.why_unknown == (
        "the time of an epoch is unknown; no source for the power of one A10G;"
        " no source for the carbon intensity of aws moon"
    )
    known = carbon_g_per_epoch(shipped.row(V100), None, 1)
    assert known.why_unknown == "the time of an epoch is unknown"


@pytest.mark.parametrize(("seconds", "nodes"), [(-1, 1), (math.nan, 1), (math.inf, 1), (1, 0)])
def test_invalid_epochs_are_rejected(shipped, seconds, nodes):
    with pytest.raises(ConfigError, match="invalid epoch"):
        carbon_g_per_epoch(shipped.row(V100), seconds, nodes)


# What is shipped.


def test_every_fact_has_a_source_an_age_and_the_right_size(shipped):
    facts = load_carbon_factors()
    for row in (*facts.power.values(), *facts.grid.values()):
        assert len(row.source) > 15
        assert row.age_text(dt.date(2026, 11, 21)) != "age unknown", row
    assert all(50 <= row.watts <= 1200 for row in facts.power.values())
    assert all(5 < row.g_per_kwh < 1000 for row in facts.grid.values())


def test_every_region_of_the_catalogue_has_a_grid(shipped):
    there = {(row.provider, row.region) for row in shipped.rows}
    assert there - set(load_carbon_factors().grid) == set()


def test_only_known_accelerators_have_a_power_and_the_rest_are_these(shipped):
    known, sold = set(load_carbon_factors().power), set(shipped.accelerators())
    assert known <= sold
    assert sold - known == {"A10", "A10(1/6)", "A10G", "B300", "TPU-v5e", "TPU-v5p", "TPU-v6e"}
