"""Prices of Google Cloud, from a server on loopback."""

import datetime as dt
import json

import pytest

from cloudgan.core.errors import CredentialsError, DataError
from cloudgan.core.progress import Progress
from cloudgan.money.catalog import shipped_catalog
from cloudgan.money.refresh.feeds import RefreshRequest, validate
from cloudgan.money.refresh.gcp import CLOUD_TPU, COMPUTE_ENGINE, GCP_KEY, gcp_quotes

REGION = "us-central1"
KEY = "AIzaNotAKey"


def sku(description, usd, usage="OnDemand", **changes):
    unit = "GiBy.h" if "Ram" in description else "h"
    whole = int(usd)
    rate = {"currencyCode": "USD", "units": str(whole), "nanos": round((usd - whole) * 1e9)}
    return {
        "description": f"{description} running in Iowa",
        "category": {"resourceFamily": "Compute", "usageType": usage},
        "serviceRegions": [REGION],
        "pricingInfo": [
            {"pricingExpression": {"usageUnit": unit, "tieredRates": [{"unitPrice": rate}]}}
        ],
    } | changes


HOST = [sku("N1 Predefined Instance Core", 0.031611), sku("N1 Predefined Instance Ram", 0.004237)]
V100 = sku("Nvidia Tesla V100 GPU", 2.48)


def wanted(*nodes):
    rows = (shipped_catalog().find(provider="gcp", node_type=node)[0] for node in nodes)
    return RefreshRequest({row.node_type: row for row in rows}, (REGION, "europe-west4"))


def serve(lists, *skus, tpus=()):
    """One price a page."""
    of = {COMPUTE_ENGINE: list(skus), CLOUD_TPU: list(tpus)}

    def answer(asked):
        there = of[asked.path.split("/")[3]]
        number = int(asked.query.get("pageToken", "0"))
        following = str(number + 1) if number + 1 < len(there) else ""
        page = {"skus": there[number : number + 1], "nextPageToken": following}
        return lists.says(json.dumps(page).encode())

    lists.answer = answer


class Tasks(Progress):
    """Keeps the names of the tasks that were started."""

    def __init__(self):
        self.names = []

    def start(self, task, *numbers, **more):
        self.names.append(task)


def read(lists, web, asked, key=KEY):
    tasks = Tasks()
    quotes = gcp_quotes(web, asked, dt.date(2026, 11, 21), tasks, key=key, url=lists.url)
    found = validate(quotes)
    assert tasks.names == ["querying Google Cloud"]
    return found


def prices(lists, web, *nodes):
    rows, refused = read(lists, web, wanted(*nodes))
    assert refused == ()
    assert {row.region for row in rows} <= {REGION}
    return {f"{row.node_type} {row.market}": row.usd_per_hour for row in rows}


def test_a_node_is_the_sum_of_its_cores_memory_and_gpus(lists, web):
    serve(lists, *HOST, V100)
    found = prices(lists, web, "n1-standard-8+1xV100", "n1-standard-64+8xV100")
    host = 8 * 0.031611 + 30 * 0.004237
    assert found == {
        "n1-standard-8+1xV100 on_demand": pytest.approx(host + 2.48),
        "n1-standard-64+8xV100 on_demand": pytest.approx(8 * (host + 2.48)),
    }
    assert found["n1-standard-8+1xV100 on_demand"] == pytest.approx(2.86, rel=0.001)
    assert [asked.query.get("pageToken") for asked in lists.asked] == [None, "1", "2", None]
    assert {asked.query["key"] for asked in lists.asked} == {KEY}
    assert [asked.path.split("/")[3] for asked in lists.asked][-2:] == [COMPUTE_ENGINE, CLOUD_TPU]


def test_spot_is_detected_by_usage_type_or_description(lists, web):
    serve(
        lists,
        sku("Spot Preemptible N1 Predefined Instance Core", 0.007, "Preemptible"),
        sku("Spot Preemptible N1 Predefined Instance Ram", 0.001, "Preemptible"),
        sku("Nvidia Tesla V100 GPU attached to Spot Preemptible VMs", 0.74, "Preemptible"),
        sku("Nvidia B200 (1 gpu slice) attached to Spot Preemptible VMs", 4.0),
        tpus=(sku("Tpu-v3 accelerator Preemptible", 2.04), sku("Tpu-v3 accelerator", 8.0)),
    )
    found = prices(lists, web, "n1-standard-8+1xV100", "v3-8")
    assert found == {
        "n1-standard-8+1xV100 spot": pytest.approx(0.826),
        "v3-8 spot": 2.04,
        "v3-8 on_demand": 8.0,
    }


def test_tpus_are_multiplied_by_the_unit_in_which_they_are_sold(lists, web):
    serve(
        lists,
        sku("TpuV5e chip", 1.2),
        sku("TpuV6e chip", 2.7),
        sku("TpuV5p chip", 4.2),
        tpus=(
            sku("Tpu-v2 accelerator", 4.5),
            sku("Tpu-v2 Pod accelerator", 6.0),
            sku("Tpu-v3 Pod accelerator", 8.0),
            sku("Tpu-v4 Pod accelerator", 12.88),
        ),
    )
    nodes = ("v2-8", "v2-32", "v3-32", "v4-8", "v4-32", "v5litepod-4", "v5p-8", "v6e-8")
    assert prices(lists, web, *nodes) == {
        "v2-8 on_demand": 4.5,  # 8 cores
        "v2-32 on_demand": 24.0,  # 4 x 8 cores, at the price of a pod
        "v3-32 on_demand": 32.0,
        "v4-8 on_demand": 12.88,  # 4 chips
        "v4-32 on_demand": 51.52,
        "v5litepod-4 on_demand": 4.8,  # chips
        "v5p-8 on_demand": 16.8,
        "v6e-8 on_demand": 21.6,
    }


def test_members_of_a_family_are_not_mixed_up(lists, web):
    a2 = [sku("A2 Instance Core", 0.03), sku("A2 Instance Ram", 0.004)]
    a3 = [sku("A3 Instance Core", 0.03), sku("A3 Instance Ram", 0.004)]
    gpus = [
        sku("Nvidia Tesla A100 GPU", 2.9),
        sku("Nvidia Tesla A100 80GB GPU", 3.9),
        sku("Nvidia H100 80GB GPU", 9.8),
        sku("Nvidia H100 80GB Plus GPU", 8.0),
    ]
    serve(lists, *a2, *a3, *gpus)
    found = prices(lists, web, "a2-highgpu-1g", "a2-ultragpu-1g", "a3-highgpu-8g")
    assert found == {
        "a2-highgpu-1g on_demand": pytest.approx(12 * 0.03 + 85 * 0.004 + 2.9),
        "a2-ultragpu-1g on_demand": pytest.approx(12 * 0.03 + 170 * 0.004 + 3.9),
        "a3-highgpu-8g on_demand": pytest.approx(208 * 0.03 + 1872 * 0.004 + 8 * 9.8),
    }
    assert prices(lists, web, "a3-highgpu-1g") == {}, "Google sells it as spot only"


def priced(usd=2.48, **changes):
    """A V100 of this price, with changes of its expression or of its unit price."""
    found = sku("Nvidia Tesla V100 GPU", usd)
    expression = found["pricingInfo"][0]["pricingExpression"]
    for name, text in changes.items():
        target = expression if name == "usageUnit" else expression["tieredRates"][0]["unitPrice"]
        target[name] = text
    return found


def after_a_free_tier():
    found = priced()
    free = {"unitPrice": {"currencyCode": "USD", "units": "0", "nanos": 0}}
    found["pricingInfo"][0]["pricingExpression"]["tieredRates"].insert(0, free)
    return found


@pytest.mark.parametrize(
    ("skus", "usd", "why"),
    [
        *(
            ([other, *HOST, V100], 2.86, None)
            for other in (
                sku("Nvidia Tesla V100 GPU", 1.0, "Commit1Yr"),
                sku("Commitment v1: Nvidia Tesla V100 GPU", 1.0),
                sku("Nvidia Tesla V100 GPU DWS Defined Duration", 1.0),
                sku("DWS Calendar Mode Nvidia Tesla V100 GPU", 1.0),
                sku("Reserved Nvidia Tesla V100 GPU", 1.0),
                sku("Nvidia Tesla V100 GPU", 1.0, serviceRegions=["asia-east1"]),
                sku("N1 Custom Instance Core", 0.01),
                sku("N1 Sole Tenancy Instance Ram", 0.01),
                sku("Nvidia Tesla A100 GPU", 1.0),
                {"description": "odd"},
                {},
            )
        ),
        ([HOST[0], V100], None, None),  # without its memory
        ([*HOST, after_a_free_tier()], 2.86, None),
        ([*HOST, priced(-9.0)], None, "is not a valid price"),
        ([*HOST, V100 | {"pricingInfo": []}], None, "is not a valid price"),
        ([*HOST, V100 | {"pricingInfo": "nonsense"}], None, "is not a valid price"),
        ([*HOST, priced(700.0)], None, "implausibly high"),
        ([*HOST, priced(usageUnit="mo")], None, "per mo"),
        ([*HOST, priced(currencyCode="EUR")], None, "in EUR"),
        ([*HOST, V100, priced(1.2)], None, "two prices"),
    ],
)
def test_other_products_are_ignored_and_what_is_not_certain_has_no_price(
    lists, web, skus, usd, why
):
    serve(lists, *skus)
    rows, refused = read(lists, web, wanted("n1-standard-8+1xV100"))
    assert [row.usd_per_hour for row in rows] == ([pytest.approx(usd, rel=1e-3)] if usd else [])
    assert bool(refused) == bool(why)
    assert all(why in one.why for one in refused)


@pytest.mark.parametrize("key", [None, ""])
def test_without_a_key_no_request_is_sent(lists, web, key):
    with pytest.raises(CredentialsError, match=GCP_KEY):
        read(lists, web, wanted("v3-8"), key)
    assert lists.asked == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{}", "contains no skus"),
        (b'{"skus": {}}', "contains no skus"),
        (b'{"skus": ["x"]}', "contains no skus"),
        (b'{"skus": [], "nextPageToken": "again"}', "endless pagination"),
    ],
)
def test_an_unexpected_response_is_reported(lists, web, body, message):
    lists.in_turn(lists.says(body))
    with pytest.raises(DataError, match=message):
        read(lists, web, wanted("v3-8"))
