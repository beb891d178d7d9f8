"""`deploy` with an old price: it queries the cloud first, then asks the user."""

from __future__ import annotations

import datetime as dt
import json
import re

import pytest

from cli.provisioned import RUN
from cloudgan.core import settings
from cloudgan.core.clock import utc_today
from cloudgan.money.catalog import load_catalog, write_refreshed
from money.refresh.conftest import lists as prices_server

AZURE = ("--provider=azure", "--accelerator=a100", "--market=on_demand", "--region=eastus")
NODE = "Standard_NC24ads_A100_v4"
OFFER = f"azure/{NODE}/eastus/on_demand"


@pytest.fixture
def own_prices(tmp_path, monkeypatch):
    """A data folder of the test; returns a function that writes one price into it."""
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path / "data"))

    def write(days_old, usd_per_hour=3.0):
        row = load_catalog().row(OFFER)
        date = "unknown"
        if days_old is not None:
            date = (utc_today() - dt.timedelta(days=days_old)).isoformat()
        fresh = row.model_copy(update={"date": date, "usd_per_hour": usd_per_hour})
        write_refreshed(settings.data_folder() / "prices", "azure", [fresh])

    return write


lists = prices_server
"""A fixture."""


@pytest.fixture
def azure_list(lists, monkeypatch):
    """A server with the protocol of Azure's list of prices; returns it, with one price on demand."""
    item = {
        "armSkuName": NODE,
        "armRegionName": "eastus",
        "type": "Consumption",
        "productName": "Virtual Machines NCadsA100v4 Series",
        "skuName": NODE,
        "meterName": NODE,
        "unitOfMeasure": "1 Hour",
        "retailPrice": 2.5,
        "currencyCode": "USD",
    }
    lists.answer = lambda _: lists.says(json.dumps({"Items": [item]}).encode())
    monkeypatch.setenv("CLOUDGAN_AZURE_PRICES_URL", lists.url)
    return lists


def typed(desk, *more, exits=0):
    data = f"--data={desk.folder / 'showers'}"
    out, aside = desk.type("deploy", data, f"--name={RUN}", *AZURE, *more, exits=exits)
    return " ".join((out + aside).split())


@pytest.mark.parametrize(("days", "expected"), [(None, "age unknown"), (120, "120 days old")])
def test_a_stale_or_undated_price_needs_its_own_flag(desk, own_prices, days, expected):
    own_prices(days)
    said = typed(desk, "--yes", exits=3)
    assert f"warning: the price of {OFFER} is of" in said
    assert expected in said
    assert "With such a price --yes needs --allow-stale-price" in said
    assert desk.doubles["azure"].made == []
    typed(desk, "--yes", "--allow-stale-price")
    assert desk.attempts()[0].end_reason == "finished"


def test_a_recent_price_needs_no_flag(desk, own_prices):
    own_prices(20)
    typed(desk, "--yes")
    assert desk.attempts()[0].end_reason == "finished"


def test_the_price_is_refreshed_and_the_plan_uses_it(desk, own_prices, azure_list):
    own_prices(None)
    said = typed(desk, "--yes")
    (attempt,) = desk.attempts()
    assert attempt.price_rows[0].usd_per_hour == 2.5
    assert attempt.price_rows[0].date == utc_today().isoformat()
    assert re.search(r"1 x NC24ads_A100_v4 on demand .* 2\.50 ", said)
    assert {one.query["$filter"].count(NODE) for one in azure_list.asked} == {1}, "one node only"


def test_an_unavailable_price_list_is_requested_once_and_reported(desk, own_prices):
    own_prices(20)
    said = typed(desk, "--yes")
    assert said.count("the price was not refreshed") == 1


def test_a_plan_refreshes_no_price(desk, own_prices, azure_list):
    own_prices(None)
    desk.type("plan", *AZURE)
    desk.type("deploy", *AZURE, "--dry-run")
    assert azure_list.asked == []


def test_the_total_and_the_question_with_account_and_place_are_last(desk, own_prices):
    own_prices(20)
    said = typed(desk, exits=3)
    assert re.search(
        r"total [\d.]+ to [\d.]+ USD, plus .*staging of wheels and data.*unknown", said
    )
    assert "Create 1 node in subscription lab-1, eastus" in said
    assert "add --yes. Nothing was started" in said
    assert "the price of" not in said


def test_without_a_known_duration_the_plan_names_the_maximum_cost(desk, own_prices):
    own_prices(20)
    said = typed(desk, "--max-steps=10", "--max-hours=2", "--budget-usd=50", exits=3)
    assert re.search(r"total unknown; [\d.]+ USD/h, at most [\d.]+ USD until its deadline", said)
    assert "limits 50 USD, 2 h at most" in said
    assert "0.00 USD" not in said, "unknown is never zero"


def test_an_unknown_price_is_stated_before_the_question(desk):
    data = f"--data={desk.folder / 'showers'}"
    flags = ("--provider=gcp", "--accelerator=n1-standard-8+1xV100", "--region=asia-east1")
    said = desk.type("deploy", data, *flags, "--allow-unknown-price", exits=3)[0]
    assert "total    unknown: these nodes have no known price in this region" in said
