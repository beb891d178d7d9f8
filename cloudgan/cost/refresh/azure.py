"""Prices of Azure: its Retail Prices API, which needs no key.

Source: https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote as quoted
from urllib.parse import urlsplit

from cloudgan.core.errors import DataError
from cloudgan.cost.refresh.quote import HOUR, Quote, price
from cloudgan.cost.refresh.web import shown

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator

    from cloudgan.core.price_row import Market, PriceRow
    from cloudgan.core.progress import Progress
    from cloudgan.cost.refresh.wanted import Wanted
    from cloudgan.cost.refresh.web import Web

AZURE_URL = "https://prices.azure.com"
SOURCE = "Azure Retail Prices API"
_MOST_PAGES = 100
_NOT_FOR_US = ("Windows", "Dedicated", "CloudServices", "Cloud Services")
_LOW_PRIORITY, _SPOT = " Low Priority", " Spot"


def azure_quotes(
    web: Web, wanted: Wanted, today: dt.date, progress: Progress, url: str = AZURE_URL
) -> Iterator[Quote]:
    """Reads the prices of all wanted nodes, one node in one region after the other.

    Raises:
        DataError: An answer is not what this API gives.
        CloudganError: The API cannot be reached, or is busy.
    """
    progress.start("asking Azure", len(wanted.regions) * len(wanted.nodes), "nodes")
    for region in wanted.regions:
        for node in wanted.nodes.values():
            for item in _items(web, _address(url, region, node.node_type)):
                found = _quote(item, region, node, today)
                if found:
                    yield found
            progress.advance()


def _address(url: str, region: str, node_type: str) -> str:
    asked = (
        "serviceName eq 'Virtual Machines' and priceType eq 'Consumption'"
        f" and armRegionName eq '{region}' and armSkuName eq '{node_type}'"
    )
    page = "/api/retail/prices?api-version=2023-01-01-preview&currencyCode=USD&$filter="
    return f"{url}{page}{quoted(asked)}"


def _items(web: Web, address: str) -> Iterator[dict[str, Any]]:
    first, seen = urlsplit(address).hostname, set[str]()
    following: str | None = address
    while following:
        if following in seen or len(seen) == _MOST_PAGES:
            raise DataError(f"{shown(address)}: its pages have no end")
        if urlsplit(following).hostname != first:
            raise DataError(f"{shown(address)}: its next page is elsewhere, {shown(following)}")
        seen.add(following)
        page = web.json(following)
        items = page.get("Items")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise DataError(f"{shown(address)}: an answer without Items")
        yield from items
        following = page.get("NextPageLink")
        if not isinstance(following, str | None):
            raise DataError(f"{shown(address)}: NextPageLink is {following!r}")


def _quote(item: dict[str, Any], region: str, node: PriceRow, today: dt.date) -> Quote | None:
    texts = {name: str(item.get(name) or "") for name in ("productName", "skuName", "meterName")}
    if (item.get("armSkuName"), item.get("armRegionName")) != (node.node_type, region):
        return None
    if item.get("type", "Consumption") != "Consumption":
        return None
    if any(word in texts["productName"] for word in _NOT_FOR_US):
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
        price(item.get("retailPrice")),
        str(item.get("currencyCode") or ""),
        SOURCE,
        today.isoformat(),
        HOUR if unit == "1 Hour" else unit,
    )
