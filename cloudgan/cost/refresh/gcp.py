"""Prices of Google Cloud: its Cloud Billing Catalog, which needs an API key.

Source: https://cloud.google.com/billing/docs/reference/rest/v1/services.skus/list
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, get_args
from urllib.parse import urlencode

from cloudgan.core.errors import CredentialsError, DataError
from cloudgan.core.price_row import Market
from cloudgan.cost.refresh.gcp_sku import SERVICES, UNITS, Part, part_of, parts_of
from cloudgan.cost.refresh.quote import HOUR, Quote, price
from cloudgan.cost.refresh.web import shown

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator

    from cloudgan.core.progress import Progress
    from cloudgan.cost.refresh.wanted import Wanted
    from cloudgan.cost.refresh.web import Web

GCP_URL = "https://cloudbilling.googleapis.com"
GCP_KEY = "CLOUDGAN_GCP_API_KEY"
SOURCE = "Google Cloud Billing Catalog API"
_MOST_PAGES = 200
_NANO = 1e-9


class _Rate(NamedTuple):
    """What one unit of a part costs."""

    usd: float
    currency: str
    unit: str


_Rates = dict[tuple[str, Part], set[_Rate]]


def gcp_quotes(
    web: Web,
    wanted: Wanted,
    today: dt.date,
    progress: Progress,
    *,
    key: str | None,
    url: str = GCP_URL,
) -> Iterator[Quote]:
    """Reads the prices of all parts and puts the wanted nodes together.

    A part that stands in the list with two prices gives two prices of a node, which are refused.

    Raises:
        CredentialsError: There is no key, or Google refuses it.
        DataError: An answer is not what this API gives.
        CloudganError: The API cannot be reached, or is busy.
    """
    if not key:
        raise CredentialsError(
            f"no API key: set {GCP_KEY} to one of a project with the Cloud Billing API enabled"
            " (console.cloud.google.com, APIs & Services, Credentials); it costs nothing"
        )
    progress.start("asking Google Cloud", unit="prices")
    rates: _Rates = {}
    for service in SERVICES:
        for sku in _skus(web, f"{url}/v1/services/{service}/skus", key):
            _note(rates, sku, set(wanted.regions))
            progress.advance()
    for node in wanted.nodes.values():
        for region in wanted.regions:
            for market in get_args(Market):
                for rate in _sums(rates, region, parts_of(node, market)):
                    yield Quote(
                        node,
                        region,
                        market,
                        rate.usd,
                        rate.currency,
                        SOURCE,
                        today.isoformat(),
                        rate.unit,
                    )


def _skus(web: Web, address: str, key: str) -> Iterator[dict[str, Any]]:
    token, seen = "", set[str]()
    while token not in seen and len(seen) < _MOST_PAGES:
        seen.add(token)
        asked = {"currencyCode": "USD", "pageSize": "5000", "key": key}
        page = web.json(f"{address}?{urlencode(asked | ({'pageToken': token} if token else {}))}")
        skus = page.get("skus")
        if not isinstance(skus, list) or not all(isinstance(sku, dict) for sku in skus):
            raise DataError(f"{shown(address)}: an answer without skus")
        yield from skus
        token = str(page.get("nextPageToken") or "")
        if not token:
            return
    raise DataError(f"{shown(address)}: its pages have no end")


def _note(rates: _Rates, sku: dict[str, Any], regions: set[str]) -> None:
    category = sku.get("category")
    usage = category.get("usageType") if isinstance(category, dict) else None
    part = part_of(str(sku.get("description") or ""), str(usage or ""))
    there = sku.get("serviceRegions")
    if part is None or not isinstance(there, list):
        return
    rate = _rate(sku, UNITS[part.kind])
    for region in regions.intersection(map(str, there)):
        rates.setdefault((region, part), set()).add(rate)


def _rate(sku: dict[str, Any], unit: str) -> _Rate:
    """The price after all free tiers; NaN, which is refused, where none can be read."""
    try:
        expression = sku["pricingInfo"][0]["pricingExpression"]
        told = expression["tieredRates"][-1]["unitPrice"]
        usd = price(told.get("units", 0)) + _NANO * price(told.get("nanos", 0))
        found = str(expression["usageUnit"])
        return _Rate(usd, str(told["currencyCode"]), HOUR if found == unit else found)
    except (KeyError, IndexError, TypeError, AttributeError):
        return _Rate(math.nan, "USD", HOUR)


def _sums(rates: _Rates, region: str, parts: dict[Part, float] | None) -> tuple[_Rate, ...]:
    """What a node costs; twice, the least and the most, where a part has several prices."""
    found = [
        (amount, sorted(rates.get((region, part), ()))) for part, amount in (parts or {}).items()
    ]
    if not found or not all(some for _, some in found):
        return ()
    usable = ("USD", HOUR)
    strange = [
        rate for _, some in found for rate in some if rate[1:] != usable or math.isnan(rate.usd)
    ]
    if strange:
        return (strange[0],)
    sums = {sum(amount * some[end].usd for amount, some in found) for end in (0, -1)}
    return tuple(_Rate(usd, "USD", HOUR) for usd in sorted(sums))
