"""Spot prices of AWS: what each zone charges now, for which AWS wants a login."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cloudgan.core.errors import CloudganError, CredentialsError, DataError
from cloudgan.cost.refresh.quote import Quote, price

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterator

    from cloudgan.core.progress import Progress
    from cloudgan.cost.refresh.wanted import Wanted

SOURCE = "AWS spot price history, cheapest zone"
_HOW = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; it needs"
    " ec2:DescribeSpotPriceHistory"
)
_DENIED = {"AuthFailure", "UnauthorizedOperation", "InvalidClientTokenId", "ExpiredToken"}
_LINUX = "Linux/UNIX"


def ec2_client(region: str) -> Any:
    """Makes a client with bounded patience.

    Raises:
        CredentialsError: AWS_PROFILE names no profile, or boto3 is not installed.
    """
    try:
        import boto3  # noqa: PLC0415 - a part of the extra `aws` only
        import botocore.config  # noqa: PLC0415
        import botocore.exceptions  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise CredentialsError(
            "needs boto3; install it with `pip install 'cloudgan[aws]'`"
        ) from error
    config = botocore.config.Config(
        connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 4}
    )
    try:
        return boto3.Session().client("ec2", region_name=region, config=config)
    except botocore.exceptions.ProfileNotFound as error:
        raise CredentialsError(f"{error}; {_HOW}") from error


def aws_spot_quotes(
    wanted: Wanted,
    now: dt.datetime,
    progress: Progress,
    client_for: Callable[[str], Any] = ec2_client,
) -> Iterator[Quote]:
    """Reads the newest spot price of each wanted node in each zone; gives a region's cheapest.

    Local zones, which are named after a region too, are no zones of it.

    Args:
        wanted: Nodes and regions.
        now: Prices that hold at this time.
        progress: Hears of each region.
        client_for: Makes boto3's client of EC2 for a region.

    Raises:
        CredentialsError: There is no login, or it may not do this.
        CloudganError: AWS cannot be reached, or refuses.
    """
    progress.start("asking AWS for spot prices", len(wanted.regions), "regions")
    for region in wanted.regions:
        newest: dict[tuple[str, str], dict[str, Any]] = {}
        for told in _history(client_for(region), list(wanted.nodes), now):
            zone, node_type = str(told.get("AvailabilityZone")), str(told.get("InstanceType"))
            if node_type in wanted.nodes and re.fullmatch(rf"{region}[a-z]", zone):
                before = newest.get((node_type, zone))
                if before is None or told["Timestamp"] > before["Timestamp"]:
                    newest[node_type, zone] = told
        yield from _cheapest(newest, wanted, region)
        progress.advance()


def _history(client: Any, node_types: list[str], now: dt.datetime) -> Iterator[dict[str, Any]]:
    import botocore.exceptions as found  # noqa: PLC0415 - there is a client, so there is botocore
    import botocore.parsers  # noqa: PLC0415

    try:
        pages = client.get_paginator("describe_spot_price_history").paginate(
            InstanceTypes=node_types, ProductDescriptions=[_LINUX], StartTime=now, EndTime=now
        )
        for page in pages:
            yield from page["SpotPriceHistory"]
    except (found.NoCredentialsError, found.PartialCredentialsError) as error:
        raise CredentialsError(f"{error}; {_HOW}") from error
    except found.ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in _DENIED:
            raise CredentialsError(f"AWS refuses this login ({code}); {_HOW}") from error
        raise CloudganError(f"AWS refuses ({error})") from error
    except botocore.parsers.ResponseParserError as error:
        raise DataError(f"AWS: no such answer as was expected ({error})") from error
    except found.BotoCoreError as error:
        raise CloudganError(f"AWS: no answer ({error})") from error


def _cheapest(
    newest: dict[tuple[str, str], dict[str, Any]], wanted: Wanted, region: str
) -> Iterator[Quote]:
    for node_type, node in wanted.nodes.items():
        zones = [told for (name, _), told in newest.items() if name == node_type]
        if zones:
            best = min(zones, key=lambda told: price(told.get("SpotPrice")))
            date = best["Timestamp"].date().isoformat()
            usd = price(best.get("SpotPrice"))
            yield Quote(node, region, "spot", usd, "USD", SOURCE, date)
