"""`--price-file`: nodes of your own and of neoclouds, in USD per node hour."""

from __future__ import annotations

import json

import pytest

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.money.price_file import read_price_file

CLUSTER = ("plan", "--provider=kubernetes", "--store=gs://lab/cloudgan", "--json")
FILE = """
date: 2026-11-20
source: https://lambda.ai/pricing
nodes:
  - offer: lambda/gpu_8x_v100/us-south-1
    accelerator: v100:8
    usd_per_hour: 4.4
    vcpu: 92
  - {offer: lab/dgx/room-1, accelerator: A100-40GB:8, usd_per_hour: 6, date: "2026-01-02"}
  - {offer: lab/dgx/room-2, accelerator: A100-40GB:8, usd_per_hour: 7}
  - {offer: lab/cpu/room-1, usd_per_hour: 0.2}
"""


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text(FILE)
    return path


def test_the_file_prices_a_plan_on_a_cluster_of_your_own(cloudgan_here, user_folder, prices):
    flags = ("--accelerator=v100:8", f"--price-file={prices}", "--budget-usd=300")
    plan = json.loads(cloudgan_here(*CLUSTER, *flags).stdout)
    assert plan["price"]["usd_per_hour"] == 4.4
    assert plan["price"]["source"] == "https://lambda.ai/pricing"
    assert plan["price"]["date"] == "2026-11-20"
    hours = plan["forecast"]["high_seconds"] / 3600
    assert plan["forecast"]["high_usd"] == pytest.approx(4.4 * hours)


def test_a_node_that_the_accelerators_do_not_settle_is_named_by_its_offer(
    cloudgan_here, user_folder, prices
):
    flags = ("--accelerator=a100-40gb:8", f"--price-file={prices}")
    message = cloudgan_here(*CLUSTER, *flags, exits=2).stderr
    assert "lab/dgx/room-1/on_demand, lab/dgx/room-2/on_demand" in message
    plan = json.loads(cloudgan_here(*CLUSTER, *flags, "--price-as=lab/dgx/room-2/on_demand").stdout)
    assert plan["price"]["usd_per_hour"] == 7
    assert (
        "no node with 4 x h100"
        in cloudgan_here(*CLUSTER, "--accelerator=h100:4", flags[1], exits=2).stderr
    )


def test_without_accelerators_the_node_without_any_gives_the_price(
    cloudgan_here, user_folder, prices
):
    plan = json.loads(cloudgan_here(*CLUSTER, f"--price-file={prices}").stdout)
    assert plan["price"]["node_type"] == "cpu"
    assert plan["workers"]["accelerator"] is None


def test_offers_lists_your_own_nodes_beside_the_clouds(cloudgan_here, prices):
    found = json.loads(
        cloudgan_here("offers", "--accelerator=v100", f"--price-file={prices}", "--json").stdout
    )
    own = [one for one in found["offers"] if one["provider"] == "lambda"]
    assert [one["usd_per_hour"] for one in own] == [4.4]
    assert own[0]["epoch"]["seconds"] is not None, "the paper measured 8 V100"


def test_nodes_of_a_cloud_keep_their_own_prices(cloudgan_here, prices):
    flags = ("plan", "--provider=gcp", "--accelerator=v100:8", f"--price-file={prices}")
    assert "--price-file: only valid with an existing" in cloudgan_here(*flags, exits=2).stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("usd_per_hour: 4.4", "usd_per_hour: 0", "nodes.0.usd_per_hour is 0"),
        ("usd_per_hour: 4.4", "usd_per_gpu: 4.4", "nodes.0.usd_per_gpu"),
        ("offer: lambda/gpu_8x_v100/us-south-1", "offer: lambda", "provider/node type/region"),
        ("offer: lambda/", "offer: aws/", "from their price lists"),
        ("accelerator: v100:8", "accelerator: 'v100:'", "NAME:COUNT"),
        ("date: 2026-11-20", "date: today", "today"),
        ("date: 2026-11-20", "", "date"),
        ("room-2", "room-1", "duplicate row of node/lab/dgx/room-1/on_demand/current, see node 2"),
    ],
)
def test_a_file_that_is_not_valid_is_refused_by_its_key(prices, old, new, message):
    assert old in FILE
    prices.write_text(FILE.replace(old, new, 1))
    with pytest.raises((ConfigError, DataError), match=message.replace("(", r"\(")):
        read_price_file(prices)


def test_cost_needs_the_name_of_a_node_in_the_file(cloudgan_here, prices):
    assert (
        "--price-as=OFFER"
        in cloudgan_here("cost", "runs/x", f"--price-file={prices}", exits=2).stderr
    )
