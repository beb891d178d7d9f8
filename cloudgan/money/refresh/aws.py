"""Prices of AWS: on demand from the bulk offer file of each region (no credentials), spot from EC2.

Source: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-the-aws-price-list-bulk-api.html
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import itertools
import math
import re
import tempfile
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any
from urllib.parse import urljoin

from cloudgan.core import settings
from cloudgan.core.errors import CloudganError, CredentialsError, DataError, install_command
from cloudgan.core.masking import masked
from cloudgan.core.progress import Progress
from cloudgan.money.refresh.feeds import (
    HOUR,
    PriceFeed,
    Quote,
    Readings,
    RefreshRequest,
    parse_price,
)
from cloudgan.money.refresh.web import Web

AWS_URL = "https://pricing.us-east-1.amazonaws.com"
SOURCE = "AWS Price List, bulk offer file of AmazonEC2"
_INDEX = "/offers/v1.0/aws/AmazonEC2/current/region_index.json"
_MOST_HEAD_LINES = 20
_KEPT = {
    "TermType": "OnDemand",
    "Operating System": "Linux",
    "Tenancy": "Shared",
    "Pre Installed S/W": "NA",
    "CapacityStatus": "Used",
}
_KEPT_IF_PRESENT = {"MarketOption": "OnDemand", "Location Type": "AWS Region"}
_READ = ("Instance Type", "Unit", "PricePerUnit", "Currency")
_ENDED = "the file ends before its table"
_HOW = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; the permission"
    " ec2:DescribeSpotPriceHistory is required"
)
_DENIED = {"AuthFailure", "UnauthorizedOperation", "InvalidClientTokenId", "ExpiredToken"}
_LINUX = "Linux/UNIX"
SPOT_SOURCE = "AWS spot price history, cheapest zone"
_RANGE = dt.timedelta(days=30)
"""AWS keeps 90 days; a third of the pages suffices for a range."""


def aws_quotes(
    web: Web, request: RefreshRequest, today: dt.date, progress: Progress, url: str = AWS_URL
) -> Iterator[Quote]:
    """Yields the on-demand prices of the requested nodes, region by region.

    Raises:
        DataError: A file has an unexpected format.
        CloudganError: AWS is unreachable or busy.
    """
    progress.start("querying AWS", len(request.regions), "regions")
    regions = web.json(url + _INDEX).get("regions")
    if not isinstance(regions, dict):
        raise DataError(f"{url}{_INDEX}: the index contains no regions")
    for region in request.regions:
        address = urljoin(url, _address(regions, region))
        with tempfile.TemporaryFile() as file:
            web.download(address, file)
            file.seek(0)
            lines = io.TextIOWrapper(file, encoding="utf-8", newline="")
            try:
                yield from _quotes(lines, request, region, today, masked(address))
            except (UnicodeDecodeError, csv.Error) as error:
                raise DataError(f"{address}: not CSV ({error})") from error
        progress.advance()


def _address(regions: dict[str, Any], region: str) -> str:
    found = regions.get(region)
    address = found.get("currentVersionUrl") if isinstance(found, dict) else None
    if not isinstance(address, str) or not re.match("/[^/]", address):  # of the same host
        raise DataError(f"{_INDEX}: no file for {region}")
    return f"{address.removesuffix('.json')}.csv"


def _quotes(
    lines: io.TextIOWrapper, request: RefreshRequest, region: str, today: dt.date, where: str
) -> Iterator[Quote]:
    date = today.isoformat()
    for line in itertools.islice(lines, _MOST_HEAD_LINES):
        first = next(csv.reader([line]), [""])
        if first[:1] == ["Publication Date"] and len(first) > 1:
            date = first[1][:10]
        if first[:1] == ["SKU"]:
            break
    else:
        raise DataError(f"{where}: {_ENDED}")
    lacking = [name for name in (*_KEPT, *_READ) if name not in first]
    if lacking:
        raise DataError(f"{where}: no columns {', '.join(lacking)}")
    kept = _KEPT | {name: text for name, text in _KEPT_IF_PRESENT.items() if name in first}
    for row in csv.DictReader(lines, first, strict=True):
        if any(row[name] != text for name, text in kept.items()):
            continue
        node = request.nodes.get(row["Instance Type"])
        if node:
            usd, unit = parse_price(row["PricePerUnit"]), row["Unit"]
            unit = HOUR if unit == "Hrs" else unit
            yield Quote(node, region, "on_demand", usd, row["Currency"], SOURCE, date, unit)


def ec2_client(region: str) -> Any:
    """Returns a client with timeouts and a limited number of attempts.

    Raises:
        CredentialsError: AWS_PROFILE names no profile, or boto3 is not installed.
    """
    try:
        import boto3  # noqa: PLC0415 - in the extra `aws` only
        import botocore.config  # noqa: PLC0415
        import botocore.exceptions  # noqa: PLC0415

        from cloudgan.storage.aws_configuration import checked_configuration  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise CredentialsError(f"needs boto3; run {install_command('aws')}") from error
    config = botocore.config.Config(
        connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 4}
    )
    try:
        with checked_configuration():
            return boto3.Session().client("ec2", region_name=region, config=config)
    except botocore.exceptions.ProfileNotFound as error:
        raise CredentialsError(f"{error}; {_HOW}") from error


def aws_spot_quotes(
    request: RefreshRequest,
    now: dt.datetime,
    progress: Progress,
    client_for: Callable[[str], Any] = ec2_client,
) -> Iterator[Quote]:
    """Yields the cheapest current spot price of each node in each region, without local zones.

    Each has the range of the last 30 days in its zone.

    Raises:
        CredentialsError: Credentials are missing or lack the permission.
        CloudganError: AWS is unreachable or rejects the request.
    """
    progress.start("querying AWS spot prices", len(request.regions), "regions")
    for region in request.regions:
        found: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for entry in _history(client_for(region), list(request.nodes), now):
            zone, node_type = str(entry.get("AvailabilityZone")), str(entry.get("InstanceType"))
            if node_type in request.nodes and re.fullmatch(rf"{region}[a-z]", zone):
                found.setdefault((node_type, zone), []).append(entry)
        yield from _cheapest(found, request, region, now)
        progress.advance()


def _history(client: Any, node_types: list[str], now: dt.datetime) -> Iterator[dict[str, Any]]:
    import botocore.exceptions as found  # noqa: PLC0415 - there is a client, so there is botocore
    import botocore.parsers  # noqa: PLC0415

    try:
        pages = client.get_paginator("describe_spot_price_history").paginate(
            InstanceTypes=node_types,
            ProductDescriptions=[_LINUX],
            StartTime=now - _RANGE,
            EndTime=now,
        )
        for page in pages:
            yield from page["SpotPriceHistory"]
    except (found.NoCredentialsError, found.PartialCredentialsError) as error:
        raise CredentialsError(f"{error}; {_HOW}") from error
    except found.ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in _DENIED:
            raise CredentialsError(f"AWS rejected the credentials ({code}); {_HOW}") from error
        raise CloudganError(f"AWS rejected the request ({error})") from error
    except botocore.parsers.ResponseParserError as error:
        raise DataError(f"AWS: unexpected response ({error})") from error
    except found.BotoCoreError as error:
        raise CloudganError(f"AWS: no response ({error})") from error


def _cheapest(
    found: dict[tuple[str, str], list[dict[str, Any]]],
    request: RefreshRequest,
    region: str,
    now: dt.datetime,
) -> Iterator[Quote]:
    for node_type, node in request.nodes.items():
        zones = [entries for (name, _), entries in found.items() if name == node_type]
        if not zones:
            continue
        newest, entries = min(
            ((max(entries, key=itemgetter("Timestamp")), entries) for entries in zones),
            key=lambda zone: parse_price(zone[0].get("SpotPrice")),
        )
        prices = [parse_price(entry.get("SpotPrice")) for entry in entries]
        prices = [usd for usd in prices if math.isfinite(usd) and usd > 0]
        since = max(min(entry["Timestamp"] for entry in entries), now - _RANGE).date().isoformat()
        readings = Readings(min(prices), max(prices), since) if len(prices) > 1 else None
        date = newest["Timestamp"].date().isoformat()
        usd = parse_price(newest.get("SpotPrice"))
        yield Quote(node, region, "spot", usd, "USD", SPOT_SOURCE, date, readings=readings)


def price_feeds(
    web: Web, request: RefreshRequest, now: dt.datetime, progress: Progress
) -> tuple[PriceFeed, ...]:
    """Returns the price feeds of AWS; nothing is read yet."""
    url = settings.address("CLOUDGAN_AWS_PRICES_URL") or AWS_URL
    listed = PriceFeed(
        "list prices", lambda: aws_quotes(web, request, now.date(), progress, url), ("on_demand",)
    )
    spot = PriceFeed("spot prices", lambda: aws_spot_quotes(request, now, progress), ("spot",))
    return listed, spot
