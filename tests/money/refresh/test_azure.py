"""Prices of Azure, from a server on loopback."""

from __future__ import annotations

import datetime as dt
import json
import re

import pytest

from cloudgan.core.errors import DataError
from cloudgan.core.progress import Silent
from cloudgan.money.catalog import shipped_catalog
from cloudgan.money.refresh.azure import azure_quotes
from cloudgan.money.refresh.quote import RefreshRequest, validate

NODE = "Standard_NC4as_T4_v3"
TODAY = dt.date(2026, 11, 21)
ITEM = {
    "currencyCode": "USD",
    "tierMinimumUnits": 0.0,
    "retailPrice": 3.06,
    "unitPrice": 3.06,
    "armRegionName": "eastus",
    "armSkuName": NODE,
    "meterName": "NC4as T4 v3",
    "skuName": "NC4as T4 v3",
    "productName": "Virtual Machines NCasT4_v3 Series",
    "serviceName": "Virtual Machines",
    "unitOfMeasure": "1 Hour",
    "type": "Consumption",
}
SPOT = {"retailPrice": 0.6, "skuName": "NC4as T4 v3 Spot", "meterName": "NC4as T4 v3 Spot"}


@pytest.fixture
def wanted():
    row = shipped_catalog().row(f"azure/{NODE}/eastus/on_demand")
    return RefreshRequest({NODE: row}, ("eastus", "westus2"))


def page(lists, *items, following=None):
    said = {"Items": [ITEM | item for item in items], "NextPageLink": following}
    return lists.says(json.dumps(said).encode())


def read(lists, web, wanted):
    return validate(azure_quotes(web, wanted, TODAY, Silent(), lists.url))


def test_each_node_and_region_is_queried_with_the_exact_filter(lists, web, wanted):
    lists.in_turn(page(lists))
    assert read(lists, web, wanted) == ((), ())
    filters = [asked.query["$filter"] for asked in lists.asked]
    assert [asked.path for asked in lists.asked] == ["/api/retail/prices"] * 2
    assert "armRegionName eq 'eastus'" in filters[0]
    assert "armRegionName eq 'westus2'" in filters[1]
    for text in filters:
        assert text.startswith("serviceName eq 'Virtual Machines' and priceType eq 'Consumption'")
        assert f"armSkuName eq '{NODE}'" in text


def test_list_and_spot_prices_come_over_several_pages(lists, web, wanted):
    def answer(asked):
        if "westus2" in asked.query["$filter"]:
            return page(lists)
        if "$skip" in asked.query:
            return page(lists, SPOT)
        link = f"{lists.url}/api/retail/prices?$skip=1&$filter=armRegionName eq 'eastus'"
        return page(lists, {}, following=link.replace(" ", "%20"))

    lists.answer = answer
    rows, refused = read(lists, web, wanted)
    assert refused == ()
    assert {row.market: row.usd_per_hour for row in rows} == {"on_demand": 3.06, "spot": 0.6}
    assert {(row.date, row.region, row.accelerator) for row in rows} == {
        ("2026-11-21", "eastus", "T4")
    }


@pytest.mark.parametrize(
    "other",
    [
        {"productName": "Virtual Machines NCasT4_v3 Series Windows", "retailPrice": 3.336},
        {"productName": "NCasT4_v3 Series Dedicated Host", "retailPrice": 9.0},
        {"productName": "NCasT4_v3 Series CloudServices", "retailPrice": 9.0},
        {"skuName": "NC4as T4 v3 Low Priority", "retailPrice": 0.612},
        {"armSkuName": "Standard_NC4as_T4_v33", "retailPrice": 9.0},
        {"armRegionName": "westeurope", "retailPrice": 9.0},
        {"type": "Reservation", "retailPrice": 9.0},
    ],
)
def test_other_products_are_ignored(lists, web, wanted, other):
    lists.in_turn(page(lists, other, {}), page(lists))
    rows, refused = read(lists, web, wanted)
    assert ([row.usd_per_hour for row in rows], refused) == ([3.06], ())


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"retailPrice": -1}, "is not a valid price"),
        ({"retailPrice": "free"}, "is not a valid price"),
        ({"retailPrice": None}, "is not a valid price"),
        ({"currencyCode": "EUR"}, "in EUR"),
        ({"unitOfMeasure": "1/Month"}, "per 1/Month"),
    ],
)
def test_invalid_prices_are_rejected_and_the_rest_kept(lists, web, wanted, wrong, why):
    lists.in_turn(page(lists, wrong, SPOT), page(lists))
    rows, (refusal,) = read(lists, web, wanted)
    assert [row.market for row in rows] == ["spot"]
    assert why in refusal.why


def test_a_busy_api_is_retried(lists, web, wanted, waits):
    busy = lists.says(status=429, headers=(("Retry-After", "3"),))
    lists.in_turn(busy, page(lists, {}), page(lists))
    assert len(read(lists, web, wanted).rows) == 1
    assert waits == [3]


@pytest.mark.parametrize("body", [b'{"Items": null}', b"{}", b'{"Items": [1]}'])
def test_an_unexpected_response_is_reported(lists, web, wanted, body):
    lists.in_turn(lists.says(body))
    with pytest.raises(DataError, match="contains no Items"):
        read(lists, web, wanted)


def test_endless_pagination_is_reported(lists, web, wanted):
    lists.in_turn(page(lists, following=f"{lists.url}/again"))
    with pytest.raises(DataError, match="endless pagination"):
        read(lists, web, wanted)


def test_a_next_page_at_another_host_is_not_fetched(lists, web, wanted):
    lists.in_turn(page(lists, following="http://evil.example/prices"))
    with pytest.raises(DataError, match=re.escape("on another host, http://evil.example/prices")):
        read(lists, web, wanted)
