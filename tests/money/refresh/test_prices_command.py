"""`cloudgan prices refresh` against one server for all clouds."""

import json
import re

import pytest

from cloudgan.core.table import read_table
from cloudgan.money.catalog import load_catalog, shipped_catalog
from cloudgan.schema.price_row import PriceRow

KEY = "AIzaNotAKey"
AZURE_NODE = "Standard_NC4as_T4_v3"


def clouds(lists, asked):
    if asked.path == "/api/retail/prices":
        return lists.says(json.dumps({"Items": azure_items(asked.query["$filter"])}).encode())
    if asked.path.endswith("/skus"):
        expression = {"usageUnit": "h", "tieredRates": [{"unitPrice": {"currencyCode": "USD"}}]}
        expression["tieredRates"][0]["unitPrice"] |= {"units": "1", "nanos": 300_000_000}
        sku = {
            "description": "TpuV5e chip running in Iowa",
            "category": {"usageType": "OnDemand"},
            "serviceRegions": ["us-central1"],
            "pricingInfo": [{"pricingExpression": expression}],
        }
        return lists.says(json.dumps({"skus": [sku] if "6F81" in asked.path else []}).encode())
    return lists.says(status=404)


def azure_items(text):
    region, node = re.findall(r"arm\w+Name eq '(\S+?)'", text)
    if (region, node) != ("eastus", AZURE_NODE):
        return []
    item = {
        "armRegionName": region,
        "armSkuName": node,
        "currencyCode": "USD",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "productName": "NCasT4_v3",
    }
    return [
        item | {"retailPrice": 3.5, "skuName": "NC4as T4 v3"},
        item | {"retailPrice": -1, "skuName": "NC4as T4 v3 Spot"},
    ]


@pytest.fixture
def command(lists, tmp_path, run_cloudgan, monkeypatch):
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path))
    lists.answer = lambda asked: clouds(lists, asked)

    def run(*words, **environment):
        urls = {f"CLOUDGAN_{name}_PRICES_URL": lists.url for name in ("AWS", "AZURE", "GCP")}
        done = run_cloudgan("prices", *words, check=False, **urls, **environment)
        assert KEY not in done.stdout + done.stderr
        return done

    return run


def test_sources_are_refreshed_independently(command):
    done = command("refresh", "--json", CLOUDGAN_GCP_API_KEY=KEY)
    assert done.returncode == 1
    aws, azure, gcp = json.loads(done.stdout)["sources"]
    assert (aws["source"], aws["state"]) == ("aws", "failed")
    assert "HTTP 404" in aws["notes"][0]
    assert (azure["source"], azure["state"], azure["rows"]) == ("azure", "refreshed", 1)
    (refused,) = azure["rejected"]
    assert refused["offer"] == f"azure/{AZURE_NODE}/eastus/spot"
    assert (gcp["source"], gcp["state"], gcp["rows"]) == ("gcp", "refreshed", 4)
    new = load_catalog()
    assert new.row(f"azure/{AZURE_NODE}/eastus/on_demand").usd_per_hour == 3.5
    assert new.row("gcp/v5litepod-8/us-central1/on_demand").usd_per_hour == 10.4
    old = shipped_catalog().row(f"azure/{AZURE_NODE}/eastus/spot")
    assert new.row(f"azure/{AZURE_NODE}/eastus/spot") == old


def test_output_is_the_shipped_file_with_only_the_refreshed_prices_changed(command, tmp_path):
    file = tmp_path / "nodes.csv"
    command("refresh", "--provider=gcp", f"--output={file}", CLOUDGAN_GCP_API_KEY=KEY)
    old, new = shipped_catalog().rows, tuple(row for _, row in read_table(file, PriceRow))
    assert [row.row_id for row in new[: len(old)]] == [row.row_id for row in old]
    changed = {row.offer for row in set(new) - set(old)}
    assert changed == {f"gcp/v5litepod-{chips}/us-central1/on_demand" for chips in (1, 4, 8, 16)}
    refused = command("show", f"--output={file}")
    assert refused.returncode == 2
    assert "only valid with `cloudgan prices refresh`" in refused.stderr


def test_a_missing_key_skips_only_its_source(command, tmp_path):
    alone = command("refresh", "--provider=gcp")
    assert alone.returncode == 2
    assert "set CLOUDGAN_GCP_API_KEY" in alone.stderr
    assert list(tmp_path.iterdir()) == []
    done = command("refresh", "--provider=azure")
    assert done.returncode == 0, done.stderr
    assert "azure: refreshed, 1 price\n" in done.stdout
    assert "1 implausible price rejected:" in done.stdout
    assert [one.name for one in (tmp_path / "prices").iterdir()] == ["azure.csv"]
