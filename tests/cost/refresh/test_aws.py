"""The bulk offer files of AWS, served on loopback."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from typing import TYPE_CHECKING

import pytest

from cloudgan.core.errors import CloudganError, DataError
from cloudgan.core.progress import Silent
from cloudgan.cost.catalog import shipped_catalog
from cloudgan.cost.refresh.aws import aws_quotes
from cloudgan.cost.refresh.quote import Sifted, sift
from cloudgan.cost.refresh.wanted import Wanted

if TYPE_CHECKING:
    from cloudgan.cost.refresh.web import Web
    from tests.cost.refresh.conftest import Answer, Asked, Lists

NODE = "p3.2xlarge"
INDEX = "/offers/v1.0/aws/AmazonEC2/current/region_index.json"
FILE = "/offers/v1.0/aws/AmazonEC2/20261101/us-east-1/index"
ROW = {
    "SKU": "ABC",
    "TermType": "OnDemand",
    "Unit": "Hrs",
    "PricePerUnit": "3.0600000000",
    "Currency": "USD",
    "Location Type": "AWS Region",
    "Instance Type": NODE,
    "Tenancy": "Shared",
    "Operating System": "Linux",
    "Pre Installed S/W": "NA",
    "CapacityStatus": "Used",
    "MarketOption": "OnDemand",
}


@pytest.fixture
def wanted() -> Wanted:
    return Wanted({NODE: shipped_catalog().row(f"aws/{NODE}/us-east-1/on_demand")}, ("us-east-1",))


def offers(*rows: dict[str, str], columns: tuple[str, ...] = tuple(ROW)) -> bytes:
    text = io.StringIO(newline="")
    quoting = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    quoting.writerow(["FormatVersion", "v1.0"])
    quoting.writerow(["Disclaimer", 'for "information", only'])
    quoting.writerow(["Publication Date", "2026-11-03T10:00:00Z"])
    quoting.writerow(["Version", "20261103"])
    quoting.writerow(["OfferCode", "AmazonEC2"])
    quoting.writerow(columns)
    quoting.writerows([(ROW | row)[name] for name in columns] for row in rows)
    return text.getvalue().encode()


def serve(lists: Lists, file: bytes, cut: int = 0) -> None:
    index = {"regions": {"us-east-1": {"currentVersionUrl": f"{FILE}.json"}}}

    def answer(asked: Asked) -> Answer:
        if asked.path == INDEX:
            return lists.says(json.dumps(index).encode())
        if asked.path == f"{FILE}.csv":
            return lists.says(file, cut=cut)
        return lists.says(status=404)

    lists.answer = answer


def read(lists: Lists, web: Web, wanted: Wanted) -> Sifted:
    return sift(aws_quotes(web, wanted, dt.date(2026, 11, 21), Silent(), lists.url))


def test_the_list_price_is_read_with_the_day_of_its_publication(
    lists: Lists, web: Web, wanted: Wanted
) -> None:
    serve(lists, offers({}))
    (row,), refused = read(lists, web, wanted)
    assert refused == ()
    assert row.row_id == f"node/aws/{NODE}/us-east-1/on_demand/current"
    assert (row.usd_per_hour, row.date, row.confidence) == (3.06, "2026-11-03", "A")


@pytest.mark.parametrize(
    "other",
    [
        {"TermType": "Reserved", "PricePerUnit": "1"},
        {"Operating System": "Windows"},
        {"Tenancy": "Dedicated"},
        {"Pre Installed S/W": "SQL Std"},
        {"CapacityStatus": "UnusedCapacityReservation"},
        {"MarketOption": "CapacityBlock"},
        {"Location Type": "AWS Local Zone"},
        {"Instance Type": "p3.16xlarge"},
    ],
)
def test_what_is_something_else_is_passed_over(
    lists: Lists, web: Web, wanted: Wanted, other: dict[str, str]
) -> None:
    serve(lists, offers({"PricePerUnit": "9"} | other, {}))
    rows, refused = read(lists, web, wanted)
    assert ([row.usd_per_hour for row in rows], refused) == ([3.06], ())


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"PricePerUnit": "-3"}, "is no price"),
        ({"PricePerUnit": "NaN"}, "is no price"),
        ({"PricePerUnit": ""}, "is no price"),
        ({"Currency": "CNY"}, "in CNY"),
        ({"Unit": "Quantity"}, "per Quantity"),
    ],
)
def test_nonsense_is_refused(
    lists: Lists, web: Web, wanted: Wanted, wrong: dict[str, str], why: str
) -> None:
    serve(lists, offers(wrong))
    rows, (refusal,) = read(lists, web, wanted)
    assert rows == ()
    assert why in refusal.why


def test_columns_that_came_later_may_be_missing(lists: Lists, web: Web, wanted: Wanted) -> None:
    old = tuple(name for name in ROW if name not in {"MarketOption", "Location Type"})
    serve(lists, offers({}, columns=old))
    assert len(read(lists, web, wanted).rows) == 1


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (offers({}, columns=tuple(ROW)[:3]), "no columns"),
        (b"", "ends before its table"),
        (b"<html>\n" * 30, "ends before its table"),
        (offers({}) + b'"ABC","OnDem', "no CSV"),
        (offers({}) + b"\xff\xfe", "no CSV"),
    ],
)
def test_another_file_is_told(
    lists: Lists, web: Web, wanted: Wanted, file: bytes, told: str
) -> None:
    serve(lists, file)
    with pytest.raises(DataError, match=told):
        read(lists, web, wanted)


def test_a_file_that_ends_too_early_is_no_price_list(
    lists: Lists, web: Web, wanted: Wanted
) -> None:
    serve(lists, offers({}, {"SKU": "more"}), cut=150)
    with pytest.raises(DataError, match="ends too early"):
        read(lists, web, wanted)


@pytest.mark.parametrize("index", [b"{}", b'{"regions": []}', b'{"regions": {}}'])
def test_an_index_without_the_region_is_told(
    lists: Lists, web: Web, wanted: Wanted, index: bytes
) -> None:
    lists.in_turn(lists.says(index))
    with pytest.raises(DataError, match=r"region_index\.json"):
        read(lists, web, wanted)


def test_a_file_that_is_gone_is_told(lists: Lists, web: Web, wanted: Wanted) -> None:
    lists.in_turn(
        lists.says(b'{"regions": {"us-east-1": {"currentVersionUrl": "/gone.json"}}}'),
        lists.says(status=404),
    )
    with pytest.raises(CloudganError, match=r"/gone\.csv: HTTP 404"):
        read(lists, web, wanted)
