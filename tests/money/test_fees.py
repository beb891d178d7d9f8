"""Fees have a source, or no row."""

import csv
import re

import pytest

from cloudgan.core.clouds import has_system_node
from cloudgan.core.errors import DataError
from cloudgan.core.table import read_keyed
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import Fees, load_fees
from cloudgan.schema.price_row import FeeRow

GOOD = {
    "provider": "gcp",
    "kind": "control_plane",
    "name": "GKE standard",
    "region": "any",
    "usd": "0.1",
    "unit": "hour",
    "source": "a page",
    "date": "2026-11-01",
    "confidence": "A",
    "snapshot": "current",
    "note": "",
}
UNITS = {
    "control_plane": "hour",
    "system_node": "hour",
    "public_ip": "hour",
    "disk": "gib_month",
    "load_balancer": "hour",
    "storage_gib_month": "gib_month",
    "egress_gib": "gib",
    "requests": "10k",
}


@pytest.fixture(scope="module")
def shipped():
    return load_fees()


def fees(path, rows):
    with (path / "f.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(GOOD))
        writer.writeheader()
        writer.writerows(GOOD | row for row in rows)
    return Fees(tuple(read_keyed(path / "f.csv", FeeRow, lambda row: row.row_id).values()))


@pytest.mark.parametrize(
    ("rows", "asked", "usd"),
    [
        ([{}, {"region": "us-east1", "usd": "0.2"}], ("gcp", "us-east1"), 0.2),
        ([{}, {"region": "us-east1", "usd": "0.2"}], ("gcp", "us-west1"), 0.1),
        ([{"name": "dear", "usd": "0.6"}, {}], ("gcp",), 0.1),
        ([{"name": "dear", "usd": "0.6"}, {}], ("gcp", None, "dear"), 0.6),
        ([{"region": "us-east1"}], ("gcp", "us-west1"), None),
        ([{"snapshot": "2021", "provider": "aws"}], ("aws",), None),
        ([{"kind": "disk", "unit": "gib_month"}], ("gcp",), None),
    ],
)
def test_the_fee_is_that_of_the_region_and_name_the_cheapest_or_none(tmp_path, rows, asked, usd):
    found = fees(tmp_path, rows).find("control_plane", *asked)
    assert (found and found.usd) == usd


@pytest.mark.parametrize("wrong", [{}, {"region": "x", "usd": "0"}, {"region": "x", "unit": "day"}])
def test_an_invalid_or_duplicate_fee_is_reported_with_file_and_line(tmp_path, wrong):
    with pytest.raises(DataError, match=rf"{re.escape(str(tmp_path))}/f\.csv:3: "):
        fees(tmp_path, [{}, wrong])


# What is shipped.


def test_every_fee_has_its_unit_a_place_to_look_it_up_and_the_right_size(shipped):
    assert {row.kind for row in shipped.rows} == set(UNITS)
    sizes = {"hour": (0.001, 1), "gib_month": (0.01, 0.3), "gib": (0.005, 0.3), "10k": (0.003, 0.1)}
    for row in shipped.rows:
        assert row.unit == UNITS[row.kind], row.row_id
        assert row.source.startswith(("https://", "github.com/")), row.row_id
        assert row.date != "unknown" or row.note.startswith("as of: "), row.row_id
        low, high = sizes[row.unit]
        assert low < row.usd < high, row.row_id


@pytest.mark.parametrize("provider", ["gcp", "aws", "azure"])
@pytest.mark.parametrize("kind", [*UNITS])
def test_every_cloud_of_the_catalogue_has_every_kind(shipped, provider, kind):
    assert provider in {row.provider for row in load_catalog().rows}
    needs_none = (kind == "load_balancer" and provider != "azure") or (  # created by AKS only
        kind == "system_node" and not has_system_node(provider)
    )
    has_one = any((row.provider, row.kind) == (provider, kind) for row in shipped.rows)
    assert has_one is not needs_none


@pytest.mark.parametrize(
    ("provider", "name", "usd"),
    [
        ("gcp", "GKE standard", 0.10),
        ("aws", "EKS standard support", 0.10),
        ("aws", "EKS extended support", 0.60),
        ("azure", "AKS standard (uptime SLA)", 0.10),
    ],
)
def test_a_cluster_that_is_always_on_has_a_price(shipped, provider, name, usd):
    assert shipped.find("control_plane", provider, "anywhere", name).usd == usd


def test_traffic_to_the_internet_costs_more_than_between_regions(shipped):
    regions = {row.region for row in shipped.rows if row.name == "to another region"}
    assert regions
    for region in regions:
        near, far = (
            shipped.find("egress_gib", "aws", region, f"to {where}").usd
            for where in ("another region", "the internet")
        )
        assert near < far
