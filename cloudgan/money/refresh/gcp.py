"""Prices of Google Cloud: Cloud Billing Catalog API, with an API key.

A SKU prices one component (cores, memory, a GPU, a TPU) in one market; the price of a node is the sum
of its components. The matching rules follow the SKU descriptions of the catalog.
Source: https://cloud.google.com/billing/docs/reference/rest/v1/services.skus/list
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args
from urllib.parse import urlencode

from cloudgan.core import settings
from cloudgan.core.errors import CredentialsError, DataError
from cloudgan.core.progress import Progress
from cloudgan.money.refresh.feeds import HOUR, PriceFeed, Quote, RefreshRequest, parse_price
from cloudgan.money.refresh.web import Web
from cloudgan.schema.price_row import Market, PriceRow

GCP_URL = "https://cloudbilling.googleapis.com"
GCP_KEY = "CLOUDGAN_GCP_API_KEY"
SOURCE = "Google Cloud Billing Catalog API"
_MOST_PAGES = 200
_NANO = 1e-9


class _Rate(NamedTuple):
    """Price of one unit of a component."""

    usd: float
    currency: str
    unit: str


_Rates = dict[tuple[str, "SkuComponent"], set[_Rate]]


def gcp_quotes(
    web: Web,
    request: RefreshRequest,
    today: dt.date,
    progress: Progress,
    *,
    key: str | None,
    url: str = GCP_URL,
) -> Iterator[Quote]:
    """Reads the prices of all components and yields the sums of the requested nodes.

    A component with two prices gives two prices of a node, which validation rejects.

    Raises:
        DataError: A response has an unexpected format.
        CloudganError: The API is unreachable or busy.
    """
    if not key:
        raise CredentialsError(
            f"no API key: set {GCP_KEY} to a key of a project with the Cloud Billing API enabled"
            " (console.cloud.google.com, APIs & Services, Credentials); it is free of charge"
        )
    progress.start("querying Google Cloud", unit="prices")
    rates: _Rates = {}
    for service in SERVICES:
        for sku in _skus(web, f"{url}/v1/services/{service}/skus", key):
            _note(rates, sku, set(request.regions))
            progress.advance()
    for node in request.nodes.values():
        for region in request.regions:
            for market in get_args(Market):
                for rate in _sums(rates, region, components_of(node, market)):
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
        query = {"currencyCode": "USD", "pageSize": "5000", "key": key}
        page = web.json(f"{address}?{urlencode(query | ({'pageToken': token} if token else {}))}")
        skus = page.get("skus")
        if not isinstance(skus, list) or not all(isinstance(sku, dict) for sku in skus):
            raise DataError(f"{address}: the response contains no skus")
        yield from skus
        token = str(page.get("nextPageToken") or "")
        if not token:
            return
    raise DataError(f"{address}: endless pagination")


def _note(rates: _Rates, sku: dict[str, Any], regions: set[str]) -> None:
    category = sku.get("category")
    usage = category.get("usageType") if isinstance(category, dict) else None
    part = component_of(str(sku.get("description") or ""), str(usage or ""))
    there = sku.get("serviceRegions")
    if part is None or not isinstance(there, list):
        return
    rate = _rate(sku, UNITS[part.kind])
    for region in regions.intersection(map(str, there)):
        rates.setdefault((region, part), set()).add(rate)


def _rate(sku: dict[str, Any], unit: str) -> _Rate:
    """Returns the price after all free tiers; NaN, which validation rejects, if there is none."""
    try:
        expression = sku["pricingInfo"][0]["pricingExpression"]
        rate = expression["tieredRates"][-1]["unitPrice"]
        usd = parse_price(rate.get("units", 0)) + _NANO * parse_price(rate.get("nanos", 0))
        found = str(expression["usageUnit"])
        return _Rate(usd, str(rate["currencyCode"]), HOUR if found == unit else found)
    except (KeyError, IndexError, TypeError, AttributeError):
        return _Rate(math.nan, "USD", HOUR)


def _sums(rates: _Rates, region: str, parts: dict[SkuComponent, float] | None) -> tuple[_Rate, ...]:
    """Returns the price of a node; lowest and highest if a component has several prices."""
    found = [
        (amount, sorted(rates.get((region, part), ()))) for part, amount in (parts or {}).items()
    ]
    if not found or not all(some for _, some in found):
        return ()
    usable = ("USD", HOUR)
    unusable = [
        rate for _, some in found for rate in some if rate[1:] != usable or math.isnan(rate.usd)
    ]
    if unusable:
        return (unusable[0],)
    sums = {sum(amount * some[end].usd for amount, some in found) for end in (0, -1)}
    return tuple(_Rate(usd, "USD", HOUR) for usd in sorted(sums))


COMPUTE_ENGINE = "6F81-5844-456A"
CLOUD_TPU = "E000-3F24-B8AA"
SERVICES = (COMPUTE_ENGINE, CLOUD_TPU)

# Reservations, commitments and the "DWS" prices of queued capacity are not list prices.
_EXCLUDED = re.compile(
    r"custom|sole tenancy|reserved|reservation|premium|commitment|dws|defined duration"
    r"|calendar mode|windows|sud |upgrade",
    re.IGNORECASE,
)
_SPOT = re.compile(r"\b(spot|preemptible)\b", re.IGNORECASE)
_HOST = re.compile(
    r"(?:Spot Preemptible |Preemptible )?(\w+) (?:Predefined )?Instance (Core|Ram)\b"
)
_TPU = re.compile(r"Tpu-?(v[2-6][ep]?)\b", re.IGNORECASE)
_GPUS = {
    "T4": r"Nvidia Tesla T4 GPU",
    "P100": r"Nvidia Tesla P100 GPU",
    "V100": r"Nvidia Tesla V100 GPU",
    "L4": r"Nvidia L4 GPU",
    "A100-40GB": r"Nvidia Tesla A100 GPU",
    "A100-80GB": r"Nvidia (?:Tesla )?A100 80GB GPU",
    "H100": r"Nvidia H100 80GB GPU",
    "H200": r"(?:Nvidia )?H200 141GB GPU",
    "B200": r"Nvidia B200 .*\(1 gpu slice\)",
}
_CHIPS_OF_A_DEVICE = 4  # v2-8 and v3-8 have their own price, other slices that of a pod
_CHIPS_OF_A_UNIT = {"tpu_8_cores": 4, "tpu_4_chips": 4, "tpu_chip": 1}
# Sold only as spot, queued or reserved, although their components have list prices.
_NOT_ON_DEMAND = re.compile(r"a3-highgpu-[124]g|a3-ultragpu-|a4x?-")


class SkuComponent(NamedTuple):
    """What a SKU prices: ``core N1``, ``ram N1``, ``gpu V100``, ``tpu TPU-v3``, ``pod TPU-v2``."""

    kind: str
    name: str
    market: Market


UNITS = {"core": "h", "ram": "GiBy.h", "gpu": "h", "tpu": "h", "pod": "h"}


def component_of(description: str, usage_type: str) -> SkuComponent | None:
    """Returns the component of a SKU; None if no node of the catalog contains it."""
    if _EXCLUDED.search(description) or usage_type not in {"OnDemand", "Preemptible"}:
        return None
    # Some preemptible prices of TPUs and B200 have the usage type OnDemand.
    spot = usage_type == "Preemptible" or _SPOT.search(description)
    market: Market = "spot" if spot else "on_demand"
    tpu = _TPU.search(description)
    if tpu:
        kind = "pod" if re.search(r"\bpod\b", description, re.IGNORECASE) else "tpu"
        return SkuComponent(kind, f"TPU-{tpu[1].lower()}", market)
    for name, text in _GPUS.items():
        if re.match(rf"(?:Spot Preemptible )?{text}", description):
            return SkuComponent("gpu", name, market)
    host = _HOST.match(description)
    if host:
        return SkuComponent(host[2].lower(), host[1].upper(), market)
    return None


def components_of(node: PriceRow, market: Market) -> dict[SkuComponent, float] | None:
    """Returns the amount of each component of a node; None if not sold or of unknown host."""
    if market == "on_demand" and _NOT_ON_DEMAND.match(node.node_type):
        return None
    count = node.accelerator_count
    if node.unit_sold.startswith("tpu"):
        one = node.unit_sold == "tpu_8_cores" and count == _CHIPS_OF_A_DEVICE
        kind = "tpu" if one or node.unit_sold == "tpu_chip" else "pod"
        part = SkuComponent(kind, node.accelerator, market)
        return {part: count / _CHIPS_OF_A_UNIT[node.unit_sold]}
    gpus = {SkuComponent("gpu", node.accelerator, market): float(count)}
    if node.node_type.startswith("a4-"):  # the "GPU slice" includes the host
        return gpus
    if node.vcpu is None or node.memory_gib is None:
        return None
    family = node.node_type.partition("-")[0].upper()
    if node.node_type.startswith("a3-ultragpu"):
        family += "ULTRA"
    return gpus | {
        SkuComponent("core", family, market): node.vcpu,
        SkuComponent("ram", family, market): node.memory_gib,
    }


def price_feeds(
    web: Web, request: RefreshRequest, now: dt.datetime, progress: Progress
) -> tuple[PriceFeed, ...]:
    """Returns the price feeds of Google Cloud; nothing is read yet."""
    url = settings.address("CLOUDGAN_GCP_PRICES_URL") or GCP_URL
    key = settings.variable(GCP_KEY)
    return (
        PriceFeed(
            "list and spot prices",
            lambda: gcp_quotes(web, request, now.date(), progress, key=key, url=url),
        ),
    )
