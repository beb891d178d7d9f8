from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

import pytest

from cloudgan.core.errors import DataError, UnknownNameError
from cloudgan.core.price_row import PriceRow
from cloudgan.cost.catalog import Catalog, load_catalog, suspects

if TYPE_CHECKING:
    from pathlib import Path

HEAD = ",".join(PriceRow.model_fields)
GOOD = {
    "provider": "gcp",
    "node_type": "v6e-4",
    "accelerator": "TPU-v6e",
    "accelerator_count": "4",
    "accelerator_memory_gib": "32",
    "vcpu": "",
    "memory_gib": "",
    "region": "us-east1",
    "market": "on_demand",
    "usd_per_hour": "10.8",
    "unit_sold": "tpu_chip",
    "source": "a list",
    "date": "2026-11-01",
    "confidence": "A",
    "snapshot": "current",
    "kind": "node",
    "note": "",
}


@pytest.fixture(scope="module")
def shipped() -> Catalog:
    return load_catalog()


def written(path: Path, *rows: dict[str, str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(GOOD))
        writer.writeheader()
        writer.writerows(GOOD | row for row in rows)
    return path


def test_an_empty_cell_is_unknown_and_a_note_may_be_empty(tmp_path: Path) -> None:
    (row,) = load_catalog(written(tmp_path / "p.csv", {})).rows
    assert row.vcpu is None
    assert row.memory_gib is None
    assert row.note == ""
    assert row.usd_per_hour == 10.8


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"usd_per_hour": "-1"}, "usd_per_hour is '-1'"),
        ({"usd_per_hour": "0"}, "usd_per_hour is '0'"),
        ({"usd_per_hour": ""}, "usd_per_hour is ''"),
        ({"usd_per_hour": "free"}, "usd_per_hour is 'free'"),
        ({"source": ""}, "source is ''"),
        ({"date": "about 2024"}, "date is 'about 2024'"),
        ({"market": "low"}, "market is 'low'"),
        ({"accelerator_count": "1.5"}, "accelerator_count is '1.5'"),
        ({}, "stands already in line 2"),
        ({"region": "x", "usd_per_hour": "700.0"}, "means unknown"),
        ({"region": "x", "usd_per_hour": "2800"}, "means unknown"),
    ],
)
def test_a_wrong_row_is_told_with_file_and_line(
    tmp_path: Path, wrong: dict[str, str], told: str
) -> None:
    path = written(tmp_path / "p.csv", {}, wrong)
    with pytest.raises(DataError, match=rf"{re.escape(str(path))}:3: .*{told}"):
        load_catalog(path)


@pytest.mark.parametrize("spot", ["10.8", "11"])
def test_on_demand_no_dearer_than_spot_is_refused(tmp_path: Path, spot: str) -> None:
    path = written(tmp_path / "p.csv", {}, {"market": "spot", "usd_per_hour": spot})
    with pytest.raises(DataError, match=r"p\.csv:2: .*10\.8 USD/h on demand"):
        load_catalog(path)


def test_on_demand_close_to_spot_is_suspect(tmp_path: Path) -> None:
    close = {"market": "spot", "usd_per_hour": "8"}
    ((listed, spot),) = suspects(load_catalog(written(tmp_path / "p.csv", {}, close)))
    assert (listed.usd_per_hour, spot.usd_per_hour) == (10.8, 8)
    far = {"market": "spot", "usd_per_hour": "7"}
    assert suspects(load_catalog(written(tmp_path / "p.csv", {}, far))) == ()


@pytest.mark.parametrize(
    "text", ["", "provider,price\n", HEAD.replace("date", "day") + "\n", HEAD + "\na,b\n"]
)
def test_a_file_that_is_no_catalogue_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(DataError, match=r"p\.csv:[12]: "):
        load_catalog(tmp_path / "p.csv")


def test_a_missing_catalogue_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        load_catalog(tmp_path / "none.csv")


def test_rows_are_found_cheapest_first(shipped: Catalog) -> None:
    found = shipped.find(provider="aws", accelerator="v100", market="spot")
    prices = [row.usd_per_hour for row in found]
    assert prices == sorted(prices)
    assert found[0].row_id == "node/aws/p3.2xlarge/us-east-1/spot/current"
    assert {row.market for row in found} == {"spot"}
    assert {row.accelerator for row in found} == {"V100", "V100-32GB"}


def test_a_family_name_finds_its_members_and_no_others(shipped: Catalog) -> None:
    names = {row.accelerator for row in shipped.find(accelerator="A100")}
    assert names == {"A100-40GB", "A100-80GB"}
    assert {row.accelerator for row in shipped.find(accelerator="A10")} == {"A10"}


def test_current_prices_hold_none_of_2021(shipped: Catalog) -> None:
    assert {row.snapshot for row in shipped.find()} == {"current"}
    old = shipped.find(node_type="v3-8", region="us-central1", market="spot", snapshot="2021")
    assert [row.usd_per_hour for row in old] == [2.4]
    now = shipped.find(node_type="v3-8", region="us-central1", market="spot")
    assert [row.usd_per_hour for row in now] == [2.04]


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ({"accelerator": "V10"}, "V100"),
        ({"provider": "gpc"}, "gcp"),
        ({"region": "westus"}, "westus2"),
        ({"node_type": "p3.2xlarg"}, "p3.2xlarge"),
    ],
)
def test_an_unknown_name_has_its_nearest_match(
    shipped: Catalog, asked: dict[str, str], near: str
) -> None:
    with pytest.raises(UnknownNameError, match=f"Did you mean '{near}'"):
        shipped.find(**asked)  # type: ignore[arg-type]


def test_what_exists_but_is_not_sold_there_is_simply_not_found(shipped: Catalog) -> None:
    assert shipped.find(provider="aws", accelerator="TPU-v3") == ()


def test_an_offer_is_found_by_its_short_or_whole_name(shipped: Catalog) -> None:
    short = shipped.row("aws/p3.2xlarge/us-east-1/spot")
    assert shipped.row("node/aws/p3.2xlarge/us-east-1/spot/current") == short
    assert short.usd_per_hour == 0.3707
    with pytest.raises(UnknownNameError, match="Did you mean 'aws/p3"):
        shipped.row("aws/p3.2xlarge/us-east-1/spott")


# What is shipped.


def test_the_shipped_rows_are_all_there(shipped: Catalog) -> None:
    assert len(shipped.rows) == 437
    assert {row.provider for row in shipped.rows} == {"gcp", "aws", "azure"}


def test_no_shipped_list_price_is_suspect(shipped: Catalog) -> None:
    assert suspects(shipped) == ()


def test_no_shipped_price_is_dearer_than_any_node_is(shipped: Catalog) -> None:
    per_accelerator = [row.usd_per_hour / row.accelerator_count for row in shipped.rows]
    assert max(per_accelerator) < 20
    assert min(per_accelerator) > 0.05


def test_every_undated_row_says_what_is_known_of_its_age(shipped: Catalog) -> None:
    for row in shipped.rows:
        assert row.date != "unknown" or "as of: " in row.note
        assert re.fullmatch(r"\d{4}-\d\d-\d\d|unknown", row.date)


def test_no_spot_price_of_aws_is_a_floor_that_means_no_capacity(shipped: Catalog) -> None:
    for row in shipped.find(provider="aws", market="spot"):
        lists = shipped.find(node_type=row.node_type, region=row.region, market="on_demand")
        assert [round(row.usd_per_hour / each.usd_per_hour, 4) for each in lists] != [0.1]


@pytest.mark.parametrize(
    ("family", "one", "others"),
    [
        ("TPU-v5e", "v5litepod-1", ("v5litepod-4", "v5litepod-8")),
        ("TPU-v6e", "v6e-1", ("v6e-4", "v6e-8")),
    ],
)
def test_tpus_sold_by_the_chip_cost_chips_times_one(
    shipped: Catalog, family: str, one: str, others: tuple[str, ...]
) -> None:
    for chip in shipped.find(node_type=one):
        assert chip.accelerator == family
        assert chip.unit_sold == "tpu_chip"
        for name in others:
            (slice_,) = shipped.find(node_type=name, region=chip.region, market=chip.market)
            assert slice_.usd_per_hour == pytest.approx(
                chip.usd_per_hour * slice_.accelerator_count, rel=1e-4
            )


def test_tpus_named_by_cores_count_chips(shipped: Catalog) -> None:
    chips = {name: shipped.find(node_type=name)[0].accelerator_count for name in ("v3-8", "v2-32")}
    assert chips == {"v3-8": 4, "v2-32": 16}
    (pod,) = shipped.find(node_type="v2-32", region="us-central1", market="on_demand")
    assert pod.usd_per_hour == 4 * 6.00  # a pod costs more per 8 cores than a device's 4.50
    assert pod.unit_sold == "tpu_8_cores"


def test_bigger_nodes_of_one_family_cost_in_proportion(shipped: Catalog) -> None:
    for market in ("on_demand", "spot"):
        prices = {
            row.accelerator_count: row.usd_per_hour
            for row in shipped.find(provider="gcp", region="us-central1", market=market)
            if row.node_type.startswith("n1-standard") and row.accelerator == "V100"
        }
        assert prices[8] == pytest.approx(8 * prices[1], rel=1e-4)
