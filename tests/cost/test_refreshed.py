"""Prices of the user's own go before those in the package, and never break them silently."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from cloudgan.core.errors import DataError
from cloudgan.cost.catalog import Catalog, load_catalog, merged, shipped_catalog
from cloudgan.cost.refreshed import refreshed_file, write_refreshed
from cloudgan.stores.store import StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.core.price_row import PriceRow

OFFER = "aws/p3.2xlarge/us-east-1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path))
    return tmp_path / "prices"


def fresh(market: str, usd_per_hour: float, offer: str = OFFER) -> PriceRow:
    old = shipped_catalog().row(f"{offer}/{market}")
    return old.model_copy(
        update={"usd_per_hour": usd_per_hour, "date": "2026-11-21", "source": "AWS, now"}
    )


def test_a_refreshed_price_goes_before_the_shipped_one_and_others_stay(folder: Path) -> None:
    before = load_catalog()
    write_refreshed(folder, "aws", [fresh("spot", 0.41)])
    after = load_catalog()
    row = after.row(f"{OFFER}/spot")
    assert (row.usd_per_hour, row.date, row.source) == (0.41, "2026-11-21", "AWS, now")
    assert len(after.rows) == len(before.rows)
    assert after.row(f"{OFFER}/on_demand") == before.row(f"{OFFER}/on_demand")
    assert shipped_catalog() == before


def test_unknown_cells_and_notes_come_back_as_they_were(folder: Path) -> None:
    row = shipped_catalog().row("gcp/v2-32/us-central1/spot")
    assert row.vcpu is None
    write_refreshed(folder, "gcp", [row])
    assert load_catalog().row("gcp/v2-32/us-central1/spot") == row


def test_an_old_spot_price_that_a_new_list_price_refutes_is_dropped() -> None:
    old = shipped_catalog()
    new = merged(old, Catalog((fresh("on_demand", 0.3),)))
    assert [row.market for row in new.find(node_type="p3.2xlarge", region="us-east-1")] == [
        "on_demand"
    ]
    assert len(merged(old, Catalog((fresh("on_demand", 0.4),))).rows) == len(old.rows)


def test_the_prices_of_2021_are_never_replaced(folder: Path) -> None:
    offer = "gcp/v3-8/us-central1"
    write_refreshed(folder, "gcp", [fresh("spot", 1.0, offer)])
    old = load_catalog().find(node_type="v3-8", region="us-central1", snapshot="2021")
    assert {row.usd_per_hour for row in old} == {2.4, 8.0}


def test_a_file_that_is_replaced_is_whole_or_as_it_was(folder: Path) -> None:
    path = write_refreshed(folder, "aws", [fresh("spot", 0.41)])
    before = path.read_bytes()

    def rows():
        yield fresh("spot", 0.5)
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError):
        write_refreshed(folder, "aws", rows())
    assert path.read_bytes() == before
    assert [one.name for one in folder.iterdir()] == ["aws.csv"]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be written"):
        write_refreshed(tmp_path / "file", "aws", [])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda text: text[: len(text) // 2], "aws.csv:2"),
        (lambda _: "<html>", "aws.csv:1"),
        (lambda text: text.replace("0.41", "nan"), "aws.csv:2: usd_per_hour is 'nan'"),
        (lambda text: text.replace("aws,", "gcp,", 1), "aws.csv:2: holds node/gcp"),
        (lambda text: text.replace("current", "2021"), "aws.csv:2: holds node/aws"),
    ],
)
def test_a_broken_file_is_told_with_what_to_do(folder: Path, wrong, told: str) -> None:
    write_refreshed(folder, "aws", [fresh("spot", 0.41)])
    path = refreshed_file(folder, "aws")
    path.write_text(wrong(path.read_text()))
    with pytest.raises(DataError, match=rf"{re.escape(told)}.*prices refresh --source=aws"):
        load_catalog()
