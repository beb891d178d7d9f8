"""The table of machines against the price table, and its consistency."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import PlanError
from cloudgan.cost.prices.catalog import shipped_catalog
from cloudgan.launch.clouds.gcp.machines import MACHINES, machine, node_type_of
from cloudgan.launch.clouds.gcp.planner import pool_body
from launch.clouds.gcp.lab import gcp_plan

ROWS = [row for row in shipped_catalog().rows if row.provider == "gcp"]
TPU_VMS = ("v2-", "v3-", "v4-", "v5p-", "v5litepod-", "v6e-")
SOLD = sorted({row.node_type for row in ROWS if not row.node_type.startswith(TPU_VMS)})


@pytest.mark.parametrize("node_type", SOLD)
def test_every_priced_machine_is_listed_with_its_accelerators(node_type):
    found = machine(node_type)
    row = next(row for row in ROWS if row.node_type == node_type)
    assert found.accelerators == row.accelerator_count


@pytest.mark.parametrize("node_type", [*MACHINES, "n1-standard-8+1xV100", "n1-highmem-64+8xV100"])
def test_the_node_type_follows_from_a_pools_configuration(node_type):
    market = "on_demand" if machine(node_type).is_on_demand else "spot"
    plan = gcp_plan(node_type, market=market)
    config = pool_body(plan, plan.node_pool)["config"]
    assert node_type_of(config) == node_type
    assert node_type_of({"machineType": "e2-medium"}) == "e2-medium"


@pytest.mark.parametrize(
    ("node_type", "why"),
    [
        ("tpu7x-standard-4t", "no TensorFlow for TPU7x"),
        ("g2-standard-44", "Did you mean 'g2-standard-4'"),
    ],
)
def test_unsupported_machines_are_refused_in_one_sentence(node_type, why):
    with pytest.raises(PlanError, match=why) as refused:
        machine(node_type)
    assert "\n" not in str(refused.value)
