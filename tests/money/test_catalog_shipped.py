"""The shipped prices are complete, consistent and plausible."""

from __future__ import annotations

import re

import pytest

from cloudgan.money.catalog import is_of, load_catalog

NAMED_BY_CORES = re.compile(r"(?:v2|v3|v4|v5p)-(\d+)")
NAMED_BY_CHIPS = re.compile(r"(?:v5litepod|v6e)-(\d+)")
# Per accelerator and hour, list prices that are "DWS" in SkyPilot's catalogue, and no list price.
DWS = {"A100-40GB": 1.61365, "A100-80GB": 1.8462, "H100": 4.20076, "H200": 4.57532}


@pytest.fixture(scope="module")
def shipped():
    return load_catalog()


def test_every_row_has_a_source(shipped):
    for row in shipped.rows:
        assert row.source.strip() == row.source
        assert len(row.source) > 8, row.row_id
        assert row.confidence != "C" or row.note, row.row_id


def test_at_least_nine_of_ten_current_prices_have_a_date_and_a_source_on_the_web(
    shipped,
):
    current = [row for row in shipped.rows if row.snapshot == "current"]
    assert all(row.source.startswith("https://") for row in shipped.rows)
    dated = [row for row in current if row.date != "unknown"]
    assert len(dated) == len(current)
    assert sum(row.date != "unknown" for row in shipped.rows) >= 0.9 * len(shipped.rows)
    exact = [row for row in dated if not row.has_earliest_date]
    assert len(exact) >= 49, "more than the known readings are only bounded"
    assert all(
        "is in use since" in row.note or "new in" in row.note for row in set(dated) - set(exact)
    )


def test_spot_prices_that_were_read_twice_have_a_range(shipped):
    ranged = {row.offer: row for row in shipped.rows if row.range_text}
    assert len(ranged) == 6
    assert {row.market for row in ranged.values()} == {"spot"}
    assert (
        ranged["azure/Standard_NC40ads_H100_v5/eastus/spot"].range_text
        == "1.29 to 2.192 USD/h since 2026-05-17"
    )


def test_prices_that_other_lists_have_wrong_are_right(shipped):
    prices = {row.offer: row.usd_per_hour for row in shipped.find()}
    assert prices["gcp/a2-highgpu-1g/europe-west4/on_demand"] == pytest.approx(3.748, abs=1e-3)
    assert prices["gcp/a3-highgpu-8g/us-central1/spot"] == pytest.approx(8 * 6.571)
    assert prices["gcp/a3-ultragpu-8g/us-central1/spot"] == pytest.approx(50.09, abs=0.01)
    assert prices["azure/Standard_NC48ads_A100_v4/eastus/on_demand"] == 9.554
    retired = {"Standard_NC6s_v2", "Standard_NC24rs_v2"}
    assert not retired & {row.node_type for row in shipped.find()}, "retired on 2023-08-31"


def test_every_price_has_accelerators_that_fit_its_name(shipped):
    for row in shipped.rows:
        assert row.accelerator_count > 0, row.row_id
        assert row.accelerator_memory_gib, row.row_id
        attached = re.search(r"\+(\d+)x(\w+)$", row.node_type)
        if attached:
            assert int(attached[1]) == row.accelerator_count, row.row_id
            assert is_of(row, attached[2]), row.row_id
        sized = re.search(r"gpu-(\d+)g$", row.node_type)
        assert not sized or int(sized[1]) == row.accelerator_count, row.row_id


@pytest.mark.parametrize(
    ("unit", "fits"),
    [
        ("tpu_8_cores", "TPU-v2 TPU-v3"),
        ("tpu_4_chips", "TPU-v4"),
        ("tpu_chip", "TPU-v5e TPU-v5p TPU-v6e"),
    ],
)
def test_each_tpu_is_sold_in_its_own_unit(shipped, unit, fits):
    sold = {row.accelerator for row in shipped.rows if row.unit_sold == unit}
    assert sold == set(fits.split())


def test_the_number_in_a_tpus_name_is_cores_or_chips_by_its_family(shipped):
    for row in shipped.rows:
        cores = NAMED_BY_CORES.fullmatch(row.node_type)
        chips = NAMED_BY_CHIPS.fullmatch(row.node_type)
        assert bool(cores or chips) is row.accelerator.startswith("TPU"), row.row_id
        if cores:
            assert row.accelerator_count == int(cores[1]) / 2, row.row_id
        if chips:
            assert row.accelerator_count == int(chips[1]), row.row_id


def test_a_spot_tpu_is_priced_per_slice_and_not_per_slice_times_chips(shipped):
    # gpuhunt (read 2026-11) multiplies spot prices of v2 and v3 by chips although they are per 8 cores
    (here,) = shipped.find(node_type="v3-8", region="europe-west4", market="spot")
    assert here.usd_per_hour == pytest.approx(2.244, rel=0.001)
    for row in shipped.find(provider="gcp", market="spot"):
        if row.accelerator.startswith("TPU"):
            for full in shipped.find(
                node_type=row.node_type, region=row.region, market="on_demand"
            ):
                assert row.usd_per_hour < 0.5 * full.usd_per_hour, row.row_id


def test_bigger_tpus_sold_by_cores_cost_in_proportion(shipped):
    (device,) = shipped.find(node_type="v4-8", market="on_demand")
    (pod,) = shipped.find(node_type="v4-32", market="on_demand")
    assert pod.usd_per_hour == pytest.approx(4 * device.usd_per_hour)
    assert {row.region for row in shipped.find(accelerator="TPU-v4")} == {"us-central2"}


def test_no_list_price_is_a_dws_price(shipped):
    for name, dws in DWS.items():
        for row in shipped.find(provider="gcp", accelerator=name, market="on_demand"):
            assert row.usd_per_hour / row.accelerator_count > 1.5 * dws, row.row_id


@pytest.mark.parametrize("node", ["a3-highgpu-1g", "a3-highgpu-4g", "a3-ultragpu-8g"])
def test_what_google_sells_on_spot_only_has_no_list_price(shipped, node):
    assert shipped.find(node_type=node, market="spot")
    assert shipped.find(node_type=node, market="on_demand") == ()


def test_regions_are_regions_and_no_zones(shipped):
    shapes = {
        "aws": r"[a-z]{2}-[a-z]+-\d",
        "gcp": r"[a-z]+-[a-z]+\d",
        "azure": r"[a-z]+\d?",
    }
    for row in shipped.rows:
        assert re.fullmatch(shapes[row.provider], row.region), row.row_id


def test_no_spot_price_is_a_copy_of_the_list_price(shipped):
    for row in shipped.find(market="spot"):
        for full in shipped.find(
            provider=row.provider, node_type=row.node_type, region=row.region, market="on_demand"
        ):
            assert row.usd_per_hour < 0.9 * full.usd_per_hour, row.row_id


@pytest.mark.parametrize(
    ("node", "count", "memory_gib"),
    [
        ("Standard_ND96isr_H100_v5", 8, 80),  # 12 in SkyPilot's catalogue
        ("Standard_NC40ads_H100_v5", 1, 94),  # 80 there
    ],
)
def test_nodes_that_other_lists_have_wrong_are_right(shipped, node, count, memory_gib):
    for row in shipped.find(node_type=node):
        assert (row.accelerator_count, row.accelerator_memory_gib) == (count, memory_gib)


def test_a_part_of_a_gpu_is_not_sold_as_a_gpu(shipped):
    parts = shipped.find(node_type="Standard_NV6ads_A10_v5")
    assert {row.accelerator for row in parts} == {"A10(1/6)"}
    assert all(row not in shipped.find(accelerator="A10") for row in parts)


def test_the_snapshot_of_2021_holds_the_nodes_of_the_paper(shipped):
    for node in ("n1-standard-8+1xV100", "n1-standard-64+8xV100", "v2-8", "v2-32", "v3-8", "v3-32"):
        markets = {row.market for row in shipped.find(node_type=node, snapshot="2021")}
        assert markets == {"on_demand", "spot"}, node


def test_list_prices_of_the_papers_nodes_have_not_changed(shipped):
    for node in ("n1-standard-8+1xV100", "v3-8", "v2-8"):
        then, now = (
            shipped.find(
                node_type=node,
                region="us-central1",
                market="on_demand",
                snapshot=snapshot,
            )[0].usd_per_hour
            for snapshot in ("2021", "current")
        )
        assert then == pytest.approx(now, rel=0.001), node
