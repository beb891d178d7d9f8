"""Prices of Azure, from a server on loopback."""

import datetime as dt
import json
import re

import pytest

from cloudgan.core.errors import DataError
from cloudgan.core.progress import Silent
from cloudgan.money.catalog import shipped_catalog
from cloudgan.money.refresh.azure import azure_quotes
from cloudgan.money.refresh.feeds import RefreshRequest, validate

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


@pytest.fixture
def read_azure(lists, web, wanted):
    return lambda: validate(azure_quotes(web, wanted, TODAY, Silent(), lists.url))


def test_each_node_and_region_is_queried_with_the_exact_filter(lists, read_azure):
    lists.in_turn(page(lists))
    assert read_azure() == ((), ())
    filters = [asked.query["$filter"] for asked in lists.asked]
    assert [asked.path for asked in lists.asked] == ["/api/retail/prices"] * 2
    assert "armRegionName eq 'eastus'" in filters[0]
    assert "armRegionName eq 'westus2'" in filters[1]
    for text in filters:
        assert text.startswith("serviceName eq 'Virtual Machines' and priceType eq 'Consumption'")
        assert f"armSkuName eq '{NODE}'" in text


def test_list_and_spot_prices_come_over_several_pages(lists, read_azure):
    def answer(asked):
        if "westus2" in asked.query["$filter"]:
            return page(lists)
        if "$skip" in asked.query:
            return page(lists, SPOT)
        link = f"{lists.url}/api/retail/prices?$skip=1&$filter=armRegionName eq 'eastus'"
        return page(lists, {}, following=link.replace(" ", "%20"))

    lists.answer = answer
    rows, refused = read_azure()
    assert refused == ()
    assert {row.market: row.usd_per_hour for row in rows} == {"on_demand": 3.06, "spot": 0.6}
    assert {(row.date, row.region, row.accelerator) for row in rows} == {
        ("2026-11-21", "eastus", "T4")
    }


DEAR = {"retailPrice": 9.0}


@pytest.mark.parametrize(
    ("items", "markets", "why"),
    [
        *(
            ([DEAR | other, {}], ["on_demand"], None)
            for other in (
                {"productName": "Virtual Machines NCasT4_v3 Series Windows"},
                {"productName": "NCasT4_v3 Series Dedicated Host"},
                {"productName": "NCasT4_v3 Series CloudServices"},
                {"skuName": "NC4as T4 v3 Low Priority"},
                {"armSkuName": "Standard_NC4as_T4_v33"},
                {"armRegionName": "westeurope"},
                {"type": "Reservation"},
            )
        ),
        ([{"retailPrice": None}, SPOT], ["spot"], "is not a valid price"),
        ([{"currencyCode": "EUR"}, SPOT], ["spot"], "in EUR"),
        ([{"unitOfMeasure": "1/Month"}, SPOT], ["spot"], "per 1/Month"),
    ],
)
def test_other_products_are_ignored_invalid_prices_rejected_and_the_rest_kept(
    lists, read_azure, items, markets, why
):
    lists.in_turn(page(lists, *items), page(lists))
    rows, refused = read_azure()
    assert [row.market for row in rows] == markets
    assert {row.usd_per_hour for row in rows} <= {3.06, 0.6}
    assert bool(refused) == bool(why)
    assert all(why in one.why for one in refused)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"Items": None}, "contains no Items"),
        ({}, "contains no Items"),
        ({"Items": [1]}, "contains no Items"),
        ({"Items": [], "NextPageLink": "URL/again"}, "endless pagination"),
        (
            {"Items": [], "NextPageLink": "http://evil.example/prices"},
            "on another host, http://evil.example/prices",
        ),
        ({"Items": [], "NextPageLink": "http://[bad"}, "on another host, http://[bad"),
    ],
)
def test_an_unexpected_response_is_reported(lists, read_azure, body, message):
    lists.in_turn(lists.says(json.dumps(body).replace("URL", lists.url).encode()))
    with pytest.raises(DataError, match=re.escape(message)):
        read_azure()
