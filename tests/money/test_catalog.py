"""The price catalog: search, validation, refreshed prices."""

import csv
import re

import pytest

from cloudgan.core.errors import DataError, UnknownNameError
from cloudgan.core.table import read_table
from cloudgan.money.catalog import (
    FAMILIES,
    Catalog,
    checked,
    load_catalog,
    merge,
    offers_for_demo,
    refreshed_file,
    shipped_catalog,
    write_refreshed,
)
from cloudgan.schema.price_row import PriceRow

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


def written(path, *rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(GOOD))
        writer.writeheader()
        writer.writerows(GOOD | row for row in rows)
    return path


def read(path):
    return checked((f"{path}:{line}", row) for line, row in read_table(path, PriceRow))


def test_an_empty_cell_is_unknown_and_a_note_may_be_empty(tmp_path):
    (row,) = read(written(tmp_path / "p.csv", {})).rows
    assert row.vcpu is None
    assert row.memory_gib is None
    assert row.note == ""
    assert row.usd_per_hour == 10.8


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"usd_per_hour": "0"}, "usd_per_hour is '0'"),
        ({"usd_per_hour": ""}, "usd_per_hour is empty"),
        ({"usd_per_hour": "free"}, "usd_per_hour is 'free'"),
        ({"accelerator_count": "1.5"}, "accelerator_count is '1.5'"),
        ({}, "see line 2"),
        ({"region": "x", "usd_per_hour": "700.0"}, "means unknown"),
        ({"region": "x", "usd_per_hour": "2800"}, "means unknown"),
    ],
)
def test_an_invalid_row_is_reported_with_file_and_line(tmp_path, wrong, message):
    path = written(tmp_path / "p.csv", {}, wrong)
    with pytest.raises(DataError, match=rf"{re.escape(str(path))}:3: .*{message}"):
        read(path)


@pytest.mark.parametrize("spot", ["10.8", "11"])
def test_on_demand_must_cost_more_than_spot(tmp_path, spot):
    path = written(tmp_path / "p.csv", {}, {"market": "spot", "usd_per_hour": spot})
    with pytest.raises(DataError, match=r"p\.csv:2: .*10\.8 USD/h on demand"):
        read(path)


@pytest.mark.parametrize(
    "text", ["", "provider,price\n", HEAD.replace("date", "day") + "\n", HEAD + "\na,b\n"]
)
def test_a_file_that_is_no_catalogue_is_refused(tmp_path, text):
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(DataError, match=r"p\.csv:[12]: "):
        read(tmp_path / "p.csv")
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "none.csv")


SHIPPED = load_catalog()


def test_rows_are_found_cheapest_first():
    found = SHIPPED.find(provider="aws", accelerator="a100", market="spot")
    prices = [row.usd_per_hour for row in found]
    assert prices == sorted(prices)
    assert found[0].row_id == "node/aws/p4d.24xlarge/us-east-1/spot/current"
    assert {row.market for row in found} == {"spot"}
    assert SHIPPED.find(provider="aws", accelerator="TPU-v3") == (), "it exists elsewhere"


@pytest.mark.parametrize(
    ("asked", "names"),
    [("A100", {"A100-40GB", "A100-80GB"}), ("A10", {"A10"}), ("a10", {"A10"})],
)
def test_a_family_name_finds_its_members_and_no_others(asked, names):
    assert {row.accelerator for row in SHIPPED.find(accelerator=asked)} == names


def test_current_prices_hold_none_of_2021():
    assert {row.snapshot for row in SHIPPED.find()} == {"current"}
    asked = {"node_type": "v3-8", "region": "us-central1", "market": "spot"}
    assert SHIPPED.row("node/gcp/v3-8/us-central1/spot/2021").usd_per_hour == 2.4
    assert [row.usd_per_hour for row in SHIPPED.find(**asked)] == [2.04]


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ({"accelerator": "V10"}, "V100"),
        ({"accelerator": "a1000"}, "A100"),
        ({"accelerator": "l44"}, "L4"),
        ({"provider": "gpc"}, "gcp"),
        ({"region": "westus"}, "westus2"),
        ({"node_type": "g5.xlarg"}, "g5.xlarge"),
    ],
)
def test_an_unknown_name_has_its_nearest_match(asked, near):
    with pytest.raises(UnknownNameError, match=f"Did you mean '{near}'"):
        SHIPPED.find(**asked)


def test_an_offer_is_found_by_its_short_or_whole_name():
    short = SHIPPED.row("aws/g5.xlarge/us-east-1/spot")
    assert SHIPPED.row("node/aws/g5.xlarge/us-east-1/spot/current") == short
    assert short.usd_per_hour == 0.4246
    with pytest.raises(UnknownNameError, match="Did you mean 'aws/g5"):
        SHIPPED.row("aws/g5.xlarge/us-east-1/spott")
    with pytest.raises(UnknownNameError) as error:
        SHIPPED.row("g2-standard-4/spot")
    offers = str(error.value).partition("Known: ")[2].rstrip(".").split(", ")
    assert {tuple(one.split("/")[1::2]) for one in offers} == {("g2-standard-4", "spot")}


def test_the_demo_offers_are_the_cheapest_single_gpus_and_slices_of_three_clouds_and_both_markets():
    chosen = offers_for_demo(SHIPPED)
    assert 15 <= len(chosen) <= 30
    assert {(row.provider, row.market) for row in chosen} == {
        (cloud, market) for cloud in ("aws", "azure", "gcp") for market in ("on_demand", "spot")
    }
    gpus = [row for row in chosen if "TPU" not in row.accelerator]
    kinds = {(row.provider, row.accelerator.split("-")[0], row.market) for row in gpus}
    assert len(gpus) == len(kinds)
    assert {row.accelerator_count for row in gpus} == {1}
    assert {row.node_type for row in set(chosen) - set(gpus)} == {"v3-8", "v5litepod-1"}
    for row in chosen:
        same = SHIPPED.find(provider=row.provider, node_type=row.node_type, market=row.market)
        prices = [other.usd_per_hour for other in same if other.confidence != "C"]
        assert (row.usd_per_hour, row.snapshot) == (min(prices), "current")


def test_a_price_of_confidence_c_is_not_selected():
    guessed = tuple(
        row.model_copy(update={"confidence": "C"}) if row.accelerator == "T4" else row
        for row in SHIPPED.rows
    )
    assert "T4" not in {row.accelerator for row in offers_for_demo(Catalog(guessed))}
    assert "T4" in FAMILIES


OFFER = "aws/g5.xlarge/us-east-1"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path))
    return tmp_path / "prices"


def fresh(market, usd_per_hour, offer=OFFER):
    old = shipped_catalog().row(f"{offer}/{market}")
    return old.model_copy(
        update={"usd_per_hour": usd_per_hour, "date": "2026-11-21", "source": "AWS, now"}
    )


def test_a_refreshed_price_replaces_the_shipped_one(folder):
    before = load_catalog()
    write_refreshed(folder, "aws", [fresh("spot", 0.41)])
    after = load_catalog()
    row = after.row(f"{OFFER}/spot")
    assert (row.usd_per_hour, row.date, row.source) == (0.41, "2026-11-21", "AWS, now")
    assert len(after.rows) == len(before.rows)
    assert after.row(f"{OFFER}/on_demand") == before.row(f"{OFFER}/on_demand")
    assert shipped_catalog() == before


def test_an_old_spot_price_that_a_new_list_price_refutes_is_dropped():
    old = shipped_catalog()
    new = merge(old, Catalog((fresh("on_demand", 0.4),)))
    assert [row.market for row in new.find(node_type="g5.xlarge", region="us-east-1")] == [
        "on_demand"
    ]
    assert len(merge(old, Catalog((fresh("on_demand", 0.5),))).rows) == len(old.rows)


def test_the_prices_of_2021_are_never_replaced_and_unknown_cells_come_back(folder):
    slice_of_32 = shipped_catalog().row("gcp/v2-32/us-central1/spot")
    assert slice_of_32.vcpu is None
    write_refreshed(folder, "gcp", [fresh("spot", 1.0, "gcp/v3-8/us-central1"), slice_of_32])
    found, old = load_catalog(), "node/gcp/v3-8/us-central1"
    usd = [found.row(f"{old}/{market}/2021").usd_per_hour for market in ("spot", "on_demand")]
    assert usd == [2.4, 8.0]
    assert found.row("gcp/v2-32/us-central1/spot") == slice_of_32


def test_a_file_that_is_replaced_is_whole_or_as_it_was(folder):
    path = write_refreshed(folder, "aws", [fresh("spot", 0.41)])
    before = path.read_bytes()

    def rows():
        yield fresh("spot", 0.5)
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError):
        write_refreshed(folder, "aws", rows())
    assert path.read_bytes() == before
    assert [one.name for one in folder.iterdir()] == ["aws.csv"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda text: text[: len(text) * 3 // 4], "aws.csv:2"),
        (lambda _: "<html>", "aws.csv:1"),
        (lambda text: text.replace("0.41", "nan"), "aws.csv:2: usd_per_hour is 'nan'"),
        (
            lambda text: text.replace("aws,g5.xlarge,", "gcp,g2-standard-4,", 1),
            "aws.csv:2: node/gcp",
        ),
        (lambda text: text.replace("current", "2021"), "aws.csv:2: node/aws"),
    ],
)
def test_an_invalid_file_is_reported_with_the_command(folder, wrong, message):
    write_refreshed(folder, "aws", [fresh("spot", 0.41)])
    path = refreshed_file(folder, "aws")
    path.write_text(wrong(path.read_text()))
    with pytest.raises(DataError, match=rf"{re.escape(message)}.*prices refresh --provider=aws"):
        load_catalog()


@pytest.mark.parametrize(
    ("asked", "is_read"), [("l4:1", False), ("g6.xlarge", False), ("a10g", True), (None, True)]
)
def test_only_the_lines_of_the_machines_asked_for_are_validated(folder, asked, is_read):
    whole = load_catalog()
    write_refreshed(folder, "aws", [fresh("spot", 0.41)])
    file = refreshed_file(folder, "aws")
    file.write_text(file.read_text().replace("0.41", "free"))
    if is_read:
        with pytest.raises(DataError, match=r"aws\.csv:2: usd_per_hour is 'free'"):
            load_catalog(asked)
    else:
        found = load_catalog(asked)
        assert found.find(accelerator=asked) == whole.find(accelerator=asked)
        assert {row.accelerator for row in found.rows} == {"L4"}


@pytest.mark.parametrize(("asked", "near"), [("V10", "V100"), ("GB200", "B200")])
def test_a_name_without_a_price_is_compared_with_all_prices(folder, asked, near):
    with pytest.raises(UnknownNameError, match=f"Did you mean '{near}'"):
        load_catalog(asked).find(accelerator=asked)
