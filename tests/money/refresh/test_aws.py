"""Prices of AWS, from a server on loopback and an EC2 emulator."""

import csv
import datetime as dt
import io
import json

import pytest

from cloudgan.core.errors import CloudganError, CredentialsError, DataError
from cloudgan.core.progress import Silent
from cloudgan.money.catalog import shipped_catalog
from cloudgan.money.refresh.aws import aws_quotes, aws_spot_quotes, ec2_client
from cloudgan.money.refresh.feeds import RefreshRequest, validate

NODE = "g5.xlarge"
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
def wanted():
    return RefreshRequest(
        {NODE: shipped_catalog().row(f"aws/{NODE}/us-east-1/on_demand")}, ("us-east-1",)
    )


def offers(*rows, columns=tuple(ROW)):
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


def serve(lists, file, cut=0):
    index = {"regions": {"us-east-1": {"currentVersionUrl": f"{FILE}.json"}}}

    def answer(asked):
        if asked.path == INDEX:
            return lists.says(json.dumps(index).encode())
        if asked.path == f"{FILE}.csv":
            return lists.says(file, cut=cut)
        return lists.says(status=404)

    lists.answer = answer


def read(lists, web, wanted):
    return validate(aws_quotes(web, wanted, dt.date(2026, 11, 21), Silent(), lists.url))


@pytest.fixture
def read_file(lists, web, wanted):
    def read_file(file, cut=0):
        serve(lists, file, cut)
        return read(lists, web, wanted)

    return read_file


def test_the_list_price_is_read_with_the_day_of_its_publication(read_file):
    (row,), refused = read_file(offers({}))
    assert refused == ()
    assert row.row_id == f"node/aws/{NODE}/us-east-1/on_demand/current"
    assert (row.usd_per_hour, row.date, row.confidence) == (3.06, "2026-11-03", "A")


GOOD, OTHER = {}, {"PricePerUnit": "9"}


@pytest.mark.parametrize(
    ("rows", "usd", "why"),
    [
        *(
            ([OTHER | other, GOOD], 3.06, None)
            for other in (
                {"TermType": "Reserved"},
                {"Operating System": "Windows"},
                {"Tenancy": "Dedicated"},
                {"Pre Installed S/W": "SQL Std"},
                {"CapacityStatus": "UnusedCapacityReservation"},
                {"MarketOption": "CapacityBlock"},
                {"Location Type": "AWS Local Zone"},
                {"Instance Type": "g5.48xlarge"},
            )
        ),
        ([{"PricePerUnit": "-3"}], None, "is not a valid price"),
        ([{"PricePerUnit": ""}], None, "is not a valid price"),
        ([{"Currency": "CNY"}], None, "in CNY"),
        ([{"Unit": "Quantity"}], None, "per Quantity"),
    ],
)
def test_other_products_are_ignored_and_invalid_prices_rejected(read_file, rows, usd, why):
    found, refused = read_file(offers(*rows))
    assert [row.usd_per_hour for row in found] == ([usd] if usd else [])
    assert bool(refused) == bool(why)
    assert all(why in one.why for one in refused)


def test_columns_that_came_later_may_be_missing(read_file):
    old = tuple(name for name in ROW if name not in {"MarketOption", "Location Type"})
    rows, _ = read_file(offers({}, columns=old))
    assert len(rows) == 1


@pytest.mark.parametrize(
    ("file", "cut", "message"),
    [
        (offers({}, columns=tuple(ROW)[:3]), 0, "no columns"),
        (b"", 0, "ends before its table"),
        (b"<html>\n" * 30, 0, "ends before its table"),
        (offers({}) + b'"ABC","OnDem', 0, "not CSV"),
        (offers({}) + b"\xff\xfe", 0, "not CSV"),
        (offers({}, {"SKU": "more"}), 150, "is incomplete"),
    ],
)
def test_an_unexpected_file_is_reported(read_file, file, cut, message):
    with pytest.raises(DataError, match=message):
        read_file(file, cut)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (b"{}", r"region_index\.json"),
        (b'{"regions": []}', r"region_index\.json"),
        (b'{"regions": {}}', r"region_index\.json"),
        (
            b'{"regions": {"us-east-1": {"currentVersionUrl": "//evil.example/x.json"}}}',
            "no file for us-east-1",
        ),
        (
            b'{"regions": {"us-east-1": {"currentVersionUrl": "/gone.json"}}}',
            r"/gone\.csv: HTTP 404",
        ),
    ],
)
def test_an_index_without_the_region_or_its_file_is_reported(lists, web, wanted, index, message):
    lists.in_turn(lists.says(index), lists.says(status=404))
    with pytest.raises(CloudganError, match=message):
        read(lists, web, wanted)


boto3 = pytest.importorskip("boto3")
botocore_config = pytest.importorskip("botocore.config")


NODES = ("g5.xlarge", "g5.12xlarge")
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


def item(usd, zone="us-east-1a", node=NODES[0], hour=8):
    return (
        f"<item><instanceType>{node}</instanceType><spotPrice>{usd}</spotPrice>"
        "<productDescription>Linux/UNIX</productDescription>"
        f"<timestamp>2026-11-20T{hour:02d}:00:00.000Z</timestamp>"
        f"<availabilityZone>{zone}</availabilityZone></item>"
    )


def page(*items, following=""):
    return (
        '<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        f"<requestId>x</requestId><spotPriceHistorySet>{''.join(items)}</spotPriceHistorySet>"
        f"<nextToken>{following}</nextToken></DescribeSpotPriceHistoryResponse>"
    ).encode()


def refusal(code):
    return (
        f"<Response><Errors><Error><Code>{code}</Code><Message>no</Message></Error></Errors>"
        "<RequestID>x</RequestID></Response>"
    ).encode()


@pytest.fixture
def ec2(lists, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIANOTAKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_ENDPOINT_URL", lists.url)


def read_aws_spot(regions=("us-east-1",), client_for=ec2_client):
    rows = {node: shipped_catalog().row(f"aws/{node}/us-east-1/spot") for node in NODES}
    return validate(aws_spot_quotes(RefreshRequest(rows, regions), NOW, Silent(), client_for))


def test_the_cheapest_zone_of_the_newest_prices_is_taken_over_all_pages(ec2, lists):
    lists.in_turn(
        lists.says(page(item("0.9"), item("0.1", hour=3), following="more")),
        lists.says(page(item("0.4", "us-east-1b"), item("3.2", node=NODES[1]))),
    )
    rows, refused = read_aws_spot()
    assert refused == ()
    assert {row.node_type: row.usd_per_hour for row in rows} == {NODES[0]: 0.4, NODES[1]: 3.2}
    assert {(row.market, row.date) for row in rows} == {("spot", "2026-11-20")}
    first, second = (asked.query for asked in lists.asked)
    assert first["Action"] == "DescribeSpotPriceHistory"
    assert {first["InstanceType.1"], first["InstanceType.2"]} == set(NODES)
    assert first["ProductDescription.1"] == "Linux/UNIX"
    assert first["StartTime"].startswith("2026-10-22T12:00:00")
    assert first["EndTime"].startswith("2026-11-21T12:00:00")
    assert second["NextToken"] == "more"


def test_a_spot_price_has_the_range_of_its_zone(ec2, lists):
    dear = [item("0.9"), item("0.2", hour=3)]  # another zone, cheaper once
    cheap = [
        item(usd, "us-east-1b", hour=hour) for usd, hour in (("nan", 2), ("0.7", 1), ("0.4", 5))
    ]
    lists.in_turn(lists.says(page(*dear, *cheap, item("3.2", node=NODES[1]))))
    rows, _ = read_aws_spot()
    found = {row.node_type: row for row in rows}
    first = found[NODES[0]]
    assert (first.usd_per_hour, first.low_usd_per_hour, first.high_usd_per_hour) == (0.4, 0.4, 0.7)
    assert first.range_text == "0.4 to 0.7 USD/h since 2026-11-20"
    assert found[NODES[1]].range_text == ""


@pytest.mark.parametrize(
    ("items", "usd", "refusals"),
    [
        ([item("0.1", "us-east-1-atl-2a"), item("0.1", node="t3.micro"), item("0.5")], [0.5], 0),
        ([item("free")], [], 1),
    ],
)
def test_other_zones_and_nodes_are_ignored_and_nonsense_is_refused(
    ec2, lists, items, usd, refusals
):
    lists.in_turn(lists.says(page(*items)))
    rows, refused = read_aws_spot()
    assert ([row.usd_per_hour for row in rows], len(refused)) == (usd, refusals)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("UnauthorizedOperation", CredentialsError),
        ("AuthFailure", CredentialsError),
        ("InvalidParameterValue", CloudganError),
        ("", CloudganError),
    ],
)
def test_rejected_credentials_and_an_unexpected_response_are_reported(ec2, lists, code, error):
    lists.in_turn(lists.says(refusal(code) if code else b"<html>busy", status=400 if code else 200))
    with pytest.raises(error, match=code or "AWS"):
        read_aws_spot(client_for=ec2_client if code else impatient)


def test_without_credentials_no_request_is_sent(lists, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", lists.url)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)  # servers of other tests set them for their session
    with pytest.raises(CredentialsError, match="set AWS_ACCESS_KEY_ID"):
        read_aws_spot()
    assert lists.asked == []


def test_a_missing_profile_is_reported(monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "missing")
    with pytest.raises(CredentialsError, match="missing"):
        read_aws_spot()


def impatient(region):
    config = botocore_config.Config(retries={"total_max_attempts": 1}, read_timeout=5)
    return boto3.Session().client("ec2", region_name=region, config=config)
