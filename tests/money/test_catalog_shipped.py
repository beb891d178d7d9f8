"""The shipped prices are complete, consistent and plausible."""

import re

import pytest

from cloudgan.money.catalog import is_of, load_catalog

NAMED_BY_CORES = re.compile(r"(?:v2|v3|v4|v5p)-(\d+)")
NAMED_BY_CHIPS = re.compile(r"(?:v5litepod|v6e)-(\d+)")
# Per accelerator and hour, list prices that are "DWS" in SkyPilot's catalogue, and no list price.
DWS = {"A100-40GB": 1.61365, "A100-80GB": 1.8462, "H100": 4.20076, "H200": 4.57532}
REGIONS = {"aws": r"[a-z]{2}-[a-z]+-\d", "gcp": r"[a-z]+-[a-z]+\d", "azure": r"[a-z]+\d?"}
UNITS = {
    "tpu_8_cores": {"TPU-v2", "TPU-v3"},
    "tpu_4_chips": {"TPU-v4"},
    "tpu_chip": {"TPU-v5e", "TPU-v5p", "TPU-v6e"},
}
SHIPPED = load_catalog()
ROWS = SHIPPED.rows
CURRENT = [row for row in ROWS if row.snapshot == "current"]


def on_demand(row):
    """The list prices of the node of a row in its region."""
    listed = row.model_copy(update={"market": "on_demand"}).row_id
    return [one for one in ROWS if one.row_id == listed]


def test_every_row_has_a_source_on_the_web_a_date_or_a_note_on_its_age():
    assert len(ROWS) == 427
    assert {row.provider for row in ROWS} == set(REGIONS)
    for row in ROWS:
        assert row.source.startswith("https://"), row.row_id
        assert row.source.strip() == row.source, row.row_id
        assert row.confidence != "C" or row.note, row.row_id
        assert row.date != "unknown" or "as of: " in row.note, row.row_id
        assert re.fullmatch(r"\d{4}-\d\d-\d\d|unknown", row.date), row.row_id
        assert re.fullmatch(REGIONS[row.provider], row.region), "a region and no zone"


def test_current_prices_and_nine_of_ten_of_all_have_a_date():
    assert all(row.date != "unknown" for row in CURRENT)
    assert sum(row.date != "unknown" for row in ROWS) >= 0.9 * len(ROWS)
    bounded = [row for row in CURRENT if row.has_earliest_date]
    assert len(CURRENT) - len(bounded) >= 49, "more than the known readings are only bounded"
    assert all("is in use since" in row.note or "new in" in row.note for row in bounded)


def test_spot_prices_that_were_read_twice_have_a_range():
    ranged = {row.offer: row for row in ROWS if row.range_text}
    assert len(ranged) == 6
    assert {row.market for row in ranged.values()} == {"spot"}
    azure = ranged["azure/Standard_NC40ads_H100_v5/eastus/spot"]
    assert azure.range_text == "1.29 to 2.192 USD/h since 2026-05-17"


@pytest.mark.parametrize(
    ("offer", "usd_per_hour"),
    [
        ("gcp/a2-highgpu-1g/europe-west4/on_demand", 3.748),
        ("gcp/a3-highgpu-8g/us-central1/spot", 8 * 6.571),
        ("gcp/a3-ultragpu-8g/us-central1/spot", 50.09),
        ("azure/Standard_NC48ads_A100_v4/eastus/on_demand", 9.554),
        # gpuhunt (read 2026-11) multiplies spot prices of v2 and v3 by chips; they are per 8 cores
        ("gcp/v3-8/europe-west4/spot", 2.244),
        # a pod costs more per 8 cores than a device's 4.50
        ("gcp/v2-32/us-central1/on_demand", 4 * 6.00),
    ],
)
def test_prices_that_other_lists_have_wrong_are_right(offer, usd_per_hour):
    assert SHIPPED.row(offer).usd_per_hour == pytest.approx(usd_per_hour, rel=3e-4)


def test_every_price_has_accelerators_that_fit_its_name():
    for row in ROWS:
        assert row.accelerator_count > 0, row.row_id
        assert row.accelerator_memory_gib, row.row_id
        assert 0.05 < row.usd_per_hour / row.accelerator_count < 20, row.row_id
        attached = re.search(r"\+(\d+)x(\w+)$", row.node_type)
        if attached:
            assert int(attached[1]) == row.accelerator_count, row.row_id
            assert is_of(row.accelerator, attached[2]), row.row_id
        sized = re.search(r"gpu-(\d+)g$", row.node_type)
        assert not sized or int(sized[1]) == row.accelerator_count, row.row_id
        cores = NAMED_BY_CORES.fullmatch(row.node_type)
        chips = NAMED_BY_CHIPS.fullmatch(row.node_type)
        assert bool(cores or chips) is row.accelerator.startswith("TPU"), row.row_id
        assert not cores or row.accelerator_count == int(cores[1]) / 2, row.row_id
        assert not chips or row.accelerator_count == int(chips[1]), row.row_id


def test_each_tpu_is_sold_in_its_own_unit_and_a_v4_in_one_region():
    for unit, names in UNITS.items():
        assert {row.accelerator for row in ROWS if row.unit_sold == unit} == names
    assert {row.region for row in SHIPPED.find(accelerator="TPU-v4")} == {"us-central2"}


@pytest.mark.parametrize("market", ["on_demand", "spot"])
@pytest.mark.parametrize(
    ("small", "large"),
    [
        ("v5litepod-1", "v5litepod-4"),
        ("v5litepod-1", "v5litepod-8"),
        ("v6e-1", "v6e-4"),
        ("v6e-1", "v6e-8"),
        ("v4-8", "v4-32"),
        ("n1-standard-8+1xV100", "n1-standard-64+8xV100"),
    ],
)
def test_bigger_nodes_of_one_family_cost_in_proportion(small, large, market):
    for one in SHIPPED.find(node_type=small, market=market):
        for many in SHIPPED.find(node_type=large, region=one.region, market=market):
            times = many.accelerator_count / one.accelerator_count
            assert many.usd_per_hour == pytest.approx(times * one.usd_per_hour, rel=1e-4)


def test_no_spot_price_is_a_copy_of_the_list_price_or_a_floor_that_means_no_capacity():
    for row in (row for row in ROWS if row.market == "spot"):
        for full in on_demand(row):
            assert full.usd_per_hour >= 1.5 * row.usd_per_hour, row.row_id
            assert "TPU" not in row.accelerator or full.usd_per_hour > 2 * row.usd_per_hour
            if row.provider == "aws":
                assert round(row.usd_per_hour / full.usd_per_hour, 4) != 0.1, row.row_id


def test_no_list_price_is_a_dws_price():
    for name, dws in DWS.items():
        for row in SHIPPED.find(provider="gcp", accelerator=name, market="on_demand"):
            assert row.usd_per_hour / row.accelerator_count > 1.5 * dws, row.row_id


@pytest.mark.parametrize("node", ["a3-highgpu-1g", "a3-highgpu-4g", "a3-ultragpu-8g"])
def test_what_google_sells_on_spot_only_has_no_list_price(node):
    assert SHIPPED.find(node_type=node, market="spot")
    assert SHIPPED.find(node_type=node, market="on_demand") == ()


@pytest.mark.parametrize(
    ("node", "accelerator", "count", "memory_gib"),
    [
        ("Standard_ND96isr_H100_v5", "H100", 8, 80),  # 12 in SkyPilot's catalogue
        ("Standard_NC40ads_H100_v5", "H100-NVL", 1, 94),  # 80 there
        ("Standard_NV6ads_A10_v5", "A10(1/6)", 1, 4),
    ],
)
def test_nodes_that_other_lists_have_wrong_are_right(node, accelerator, count, memory_gib):
    rows = SHIPPED.find(node_type=node)
    assert rows
    for row in rows:
        assert (row.accelerator, row.accelerator_count) == (accelerator, count)
        assert row.accelerator_memory_gib == memory_gib
    assert not set(rows) & set(SHIPPED.find(accelerator="A10")), "a part of a GPU is not a GPU"
