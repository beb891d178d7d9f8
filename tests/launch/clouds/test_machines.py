"""machines.csv: a row is all that a machine needs; every price has its machine."""

import datetime as dt
import json

import pytest

from cloudgan.core import machines
from cloudgan.core.errors import CloudganError, DataError, PlanError
from cloudgan.launch.clouds.aws.planner import machine as aws_machine
from cloudgan.launch.clouds.gcp.machines import machine as gcp_machine
from cloudgan.launch.clouds.gcp.machines import node_type_of
from cloudgan.launch.clouds.planner import NodePoolRequest, cloud_planner
from cloudgan.money.catalog import shipped_catalog
from launch.clouds.gcp.lab import gcp_plan
from launch.clouds.lab import planned

TEXT = machines.TABLE.read_text()
NEW = {
    "gcp": ("g2-standard-8", "g9-standard-8"),
    "aws": ("g6.2xlarge", "g9.2xlarge"),
    "azure": ("Standard_NC4as_T4_v3", "Standard_NC4as_T4_v9"),
}


@pytest.fixture
def rewrite(monkeypatch, tmp_path):
    """Writes another table of machines for the test."""

    def clear():
        machines.table.cache_clear()
        machines.sold.cache_clear()

    def write(text):
        (tmp_path / "machines.csv").write_text(text)
        monkeypatch.setattr(machines, "TABLE", tmp_path / "machines.csv")
        clear()

    yield write
    monkeypatch.undo()
    clear()


def row_of(node_type):
    return next(line for line in TEXT.splitlines() if f",{node_type}," in line)


@pytest.mark.parametrize(("provider", "names"), NEW.items(), ids=NEW)
def test_a_machine_is_added_by_one_row(provider, names, rewrite, cloudgan_here):
    like, name = names
    given = ("plan", f"--provider={provider}", f"--accelerator={name}", "--allow-unknown-price")
    region = {"gcp": "us-central1", "aws": "us-east-1", "azure": "eastus"}[provider]
    given = (*given, f"--region={region}", "--market=on_demand", "--epochs=1", "--json")
    with pytest.raises(CloudganError, match=r"nearest|machine|unknown Azure size"):
        cloud_planner(provider).node_pool(NodePoolRequest("gan", "1" * 16, name, "on_demand", 1))
    rewrite(TEXT + row_of(like).replace(like, name) + "\n")
    plan = json.loads(cloudgan_here(*given).stdout)
    assert plan["node_pool"]["node_type"] == name
    assert plan["workers"]["accelerators_per_node"] == machines.sold(provider)[like].accelerators
    assert name in json.dumps([step["body"] for step in plan["steps"]])
    (title, *_), one = cloudgan_here(*given[:-1]).stdout.splitlines(), machines.sold(provider)[like]
    assert f" on {one.accelerators} x {one.accelerator}," in title, "as fast as others with them"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TEXT + row_of("g6.xlarge") + "\n", "duplicate row of aws g6.xlarge"),
        (TEXT.replace(",8,30,x86_64", ",eight,30,x86_64", 1), "vcpu"),
        (TEXT.replace(",x86_64,1,", ",1,", 1), "number of cells"),
        (TEXT.replace(",accelerated,", ",", 1), "number of cells"),
    ],
)
def test_an_odd_row_is_named_with_its_line(text, problem, rewrite):
    rewrite(text)
    with pytest.raises(DataError, match=rf"machines.csv:\d+.*{problem}"):
        machines.table()


def test_every_price_is_of_a_machine_on_sale_or_of_one_that_cloudgan_refuses():
    for row in shipped_catalog().rows:
        one = machines.table()[row.provider, row.node_type]
        assert one.refused or one.node_type in machines.sold(row.provider)
        assert machines.facts(row.provider, row.node_type).items() <= row.model_dump().items()


def test_an_accelerator_is_the_same_in_every_machine():
    facts = {}
    for one in machines.table().values():
        what = (one.accelerator_memory_gib, one.compute_capability)
        assert facts.setdefault(one.accelerator, what) == what, one.node_type
        assert one.provider != "azure" or one.quota or one.retired or one.refused
        assert not one.retired or dt.date.fromisoformat(one.retired) < dt.date(2026, 11, 25)


@pytest.mark.parametrize(
    "node_type",
    [
        *(
            name
            for name, one in machines.sold("gcp").items()
            if not one.accelerator.startswith("TPU")
        ),
        "n1-highmem-8+8xT4",
    ],
)
def test_the_node_type_follows_from_a_pools_configuration_at_google(node_type):
    found = gcp_machine(node_type)
    plan = gcp_plan(node_type, market="on_demand" if found.sold == "any" else "spot")
    config = next(step.body for step in plan.steps if "/nodePools" in step.path)["nodePool"][
        "config"
    ]
    assert node_type_of(config) == node_type
    assert config["accelerators"][0]["acceleratorCount"] == str(found.accelerators)


@pytest.mark.parametrize(
    ("find", "node_type", "why"),
    [
        (gcp_machine, "tpu7x-standard-4t", "no TensorFlow for TPU7x"),
        (gcp_machine, "g2-standard-44", "Did you mean 'g2-standard-4'"),
        (gcp_machine, "n1-standard-8+1xL4", "no machine"),
        (aws_machine, "g4ad.xlarge", r"g4dn\.xlarge"),
    ],
)
def test_unsupported_machines_are_refused_in_one_sentence(find, node_type, why):
    with pytest.raises(PlanError, match=why) as refused:
        find(node_type)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "market", "code"),
    [
        ("g4dn.xlarge", "on_demand", "L-DB2E81BA"),
        ("g6.xlarge", "spot", "L-3819A6DF"),
        ("p4d.24xlarge", "on_demand", "L-417A185B"),
        ("p4d.24xlarge", "spot", "L-7212CCBC"),
        ("p5.48xlarge", "spot", "L-C4BD4855"),
        ("p6-b200.48xlarge", "spot", ""),
    ],
)
def test_each_family_counts_against_its_own_quotas_at_aws(name, market, code):
    found = aws_machine(name)
    assert (found.spot_quota if market == "spot" else found.quota) == code


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("p6-b200.48xlarge", "AL2023_x86_64_NVIDIA"),
        ("p6e-gb200.36xlarge", "AL2023_ARM_64_NVIDIA"),
    ],
)
def test_machines_without_wheels_take_the_users_image_and_their_own_system_image(name, image):
    assert planned("aws", name).node_pool.node_type == name
    assert aws_machine(name).image == image
