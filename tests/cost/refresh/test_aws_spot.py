"""The spot price history of AWS, through the real client against a server that speaks EC2."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

boto3 = pytest.importorskip("boto3")
botocore_config = pytest.importorskip("botocore.config")

from cloudgan.core.errors import CloudganError, CredentialsError
from cloudgan.core.progress import Silent
from cloudgan.cost.catalog import shipped_catalog
from cloudgan.cost.refresh.aws_spot import aws_spot_quotes, ec2_client
from cloudgan.cost.refresh.quote import Sifted, sift
from cloudgan.cost.refresh.wanted import Wanted

if TYPE_CHECKING:
    from tests.cost.refresh.conftest import Lists

NODES = ("p3.2xlarge", "p3.8xlarge")
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


def item(usd: str, zone: str = "us-east-1a", node: str = NODES[0], hour: int = 8) -> str:
    return (
        f"<item><instanceType>{node}</instanceType><spotPrice>{usd}</spotPrice>"
        "<productDescription>Linux/UNIX</productDescription>"
        f"<timestamp>2026-11-20T{hour:02d}:00:00.000Z</timestamp>"
        f"<availabilityZone>{zone}</availabilityZone></item>"
    )


def page(*items: str, following: str = "") -> bytes:
    return (
        '<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        f"<requestId>x</requestId><spotPriceHistorySet>{''.join(items)}</spotPriceHistorySet>"
        f"<nextToken>{following}</nextToken></DescribeSpotPriceHistoryResponse>"
    ).encode()


def refusal(code: str) -> bytes:
    return (
        f"<Response><Errors><Error><Code>{code}</Code><Message>no</Message></Error></Errors>"
        "<RequestID>x</RequestID></Response>"
    ).encode()


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIANOTAKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")


@pytest.fixture
def ec2(lists: Lists, monkeypatch: pytest.MonkeyPatch, login: None) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", lists.url)


def read(regions: tuple[str, ...] = ("us-east-1",), client_for: Any = ec2_client) -> Sifted:
    rows = {node: shipped_catalog().row(f"aws/{node}/us-east-1/spot") for node in NODES}
    return sift(aws_spot_quotes(Wanted(rows, regions), NOW, Silent(), client_for))


def test_the_cheapest_zone_of_the_newest_prices_is_taken_over_all_pages(
    ec2: None, lists: Lists
) -> None:
    lists.in_turn(
        lists.says(page(item("0.9"), item("0.1", hour=3), following="more")),
        lists.says(page(item("0.4", "us-east-1b"), item("3.2", node=NODES[1]))),
    )
    rows, refused = read()
    assert refused == ()
    assert {row.node_type: row.usd_per_hour for row in rows} == {NODES[0]: 0.4, NODES[1]: 3.2}
    assert {(row.market, row.date) for row in rows} == {("spot", "2026-11-20")}
    first, second = (asked.query for asked in lists.asked)
    assert first["Action"] == "DescribeSpotPriceHistory"
    assert {first["InstanceType.1"], first["InstanceType.2"]} == set(NODES)
    assert first["ProductDescription.1"] == "Linux/UNIX"
    assert first["StartTime"].startswith("2026-11-21T12:00:00")
    assert second["NextToken"] == "more"


def test_a_local_zone_and_other_nodes_are_not_of_the_region(ec2: None, lists: Lists) -> None:
    others = [item("0.1", "us-east-1-atl-2a"), item("0.1", node="t3.micro"), item("0.5")]
    lists.in_turn(lists.says(page(*others)))
    (row,), _ = read()
    assert row.usd_per_hour == 0.5


@pytest.mark.parametrize("usd", ["-1", "nan", "free", "0.00001"])
def test_nonsense_is_refused(ec2: None, lists: Lists, usd: str) -> None:
    lists.in_turn(lists.says(page(item(usd))))
    rows, refused = read()
    assert (rows, len(refused)) == ((), 1)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("UnauthorizedOperation", CredentialsError),
        ("AuthFailure", CredentialsError),
        ("InvalidParameterValue", CloudganError),
    ],
)
def test_a_refusal_is_told(ec2: None, lists: Lists, code: str, error: type[Exception]) -> None:
    lists.in_turn(lists.says(refusal(code), status=400))
    with pytest.raises(error, match=code):
        read()


def test_an_answer_that_is_none_is_told(ec2: None, lists: Lists) -> None:
    lists.in_turn(lists.says(b"<html>busy"))
    with pytest.raises(CloudganError, match="AWS"):
        read(client_for=impatient)


def test_without_a_login_nobody_is_asked(lists: Lists, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", lists.url)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)  # servers of other tests set them for their session
    with pytest.raises(CredentialsError, match="set AWS_ACCESS_KEY_ID"):
        read()
    assert lists.asked == []


def test_a_profile_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(CredentialsError, match="nobody"):
        read()


def impatient(region: str) -> Any:
    config = botocore_config.Config(retries={"total_max_attempts": 1}, read_timeout=5)
    return boto3.Session().client("ec2", region_name=region, config=config)
