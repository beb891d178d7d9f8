"""Prices of Azure: Retail Prices API, without credentials.

Source: https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote as quoted

from cloudgan.core import settings
from cloudgan.core.errors import DataError
from cloudgan.core.progress import Progress
from cloudgan.money.refresh.feeds import HOUR, PriceFeed, Quote, RefreshRequest, parse_price
from cloudgan.money.refresh.web import Web, host_of
from cloudgan.schema.price_row import Market, PriceRow

AZURE_URL = "https://prices.azure.com"
SOURCE = "Azure Retail Prices API"
_MOST_PAGES = 100
_EXCLUDED = ("Windows", "Dedicated", "CloudServices", "Cloud Services")
_LOW_PRIORITY, _SPOT = " Low Priority", " Spot"


def azure_quotes(
    web: Web, request: RefreshRequest, today: dt.date, progress: Progress, url: str = AZURE_URL
) -> Iterator[Quote]:
    """Yields the prices of the requested nodes, one node in one region per request.

    Raises:
        DataError: A response has an unexpected format.
        CloudganError: The API is unreachable or busy.
    """
    progress.start("querying Azure", len(request.regions) * len(request.nodes), "nodes")
    for region in request.regions:
        for node in request.nodes.values():
            for item in _items(web, _address(url, region, node.node_type)):
                found = _quote(item, region, node, today)
                if found:
                    yield found
            progress.advance()


def _address(url: str, region: str, node_type: str) -> str:
    query = (
        "serviceName eq 'Virtual Machines' and priceType eq 'Consumption'"
        f" and armRegionName eq '{region}' and armSkuName eq '{node_type}'"
    )
    page = "/api/retail/prices?api-version=2023-01-01-preview&currencyCode=USD&$filter="
    return f"{url}{page}{quoted(query)}"


def _items(web: Web, address: str) -> Iterator[dict[str, Any]]:
    first, seen = host_of(address), set[str]()
    following: str | None = address
    while following:
        if following in seen or len(seen) == _MOST_PAGES:
            raise DataError(f"{address}: endless pagination")
        if host_of(following) != first:
            raise DataError(f"{address}: its next page is on another host, {following}")
        seen.add(following)
        page = web.json(following)
        items = page.get("Items")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise DataError(f"{address}: the response contains no Items")
        yield from items
        following = page.get("NextPageLink")
        if not isinstance(following, str | None):
            raise DataError(f"{address}: NextPageLink is {following!r}")


def _quote(item: dict[str, Any], region: str, node: PriceRow, today: dt.date) -> Quote | None:
    texts = {name: str(item.get(name) or "") for name in ("productName", "skuName", "meterName")}
    if (item.get("armSkuName"), item.get("armRegionName")) != (node.node_type, region):
        return None
    if item.get("type", "Consumption") != "Consumption":
        return None
    if any(word in texts["productName"] for word in _EXCLUDED):
        return None
    names = texts["skuName"], texts["meterName"]
    if any(name.endswith(_LOW_PRIORITY) for name in names):
        return None
    market: Market = "spot" if any(name.endswith(_SPOT) for name in names) else "on_demand"
    unit = str(item.get("unitOfMeasure") or "")
    return Quote(
        node,
        region,
        market,
        parse_price(item.get("retailPrice")),
        str(item.get("currencyCode") or ""),
        SOURCE,
        today.isoformat(),
        HOUR if unit == "1 Hour" else unit,
    )


def price_feeds(
    web: Web, request: RefreshRequest, now: dt.datetime, progress: Progress
) -> tuple[PriceFeed, ...]:
    """Returns the price feeds of Azure; nothing is read yet."""
    url = settings.address("CLOUDGAN_AZURE_PRICES_URL") or AZURE_URL
    return (
        PriceFeed(
            "list and spot prices", lambda: azure_quotes(web, request, now.date(), progress, url)
        ),
    )
