"""The table of instance types against the price table, and their quotas."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import PlanError
from cloudgan.cost.prices.catalog import load_catalog
from cloudgan.launch.clouds.aws.machines import MACHINES, machine

ROWS = {row.node_type: row for row in load_catalog().find(provider="aws") if row.accelerator_count}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_priced_instance_type_is_listed_with_the_same_data(name):
    row, known = ROWS[name], machine(name)
    assert (known.gpu, known.gpus) == (row.accelerator, row.accelerator_count)
    assert (known.vcpus, known.memory_gib) == (row.vcpu, row.memory_gib)


def test_each_family_counts_against_its_own_quotas():
    assert machine("g4dn.xlarge").quota("on_demand").code == "L-DB2E81BA"
    assert machine("g6.xlarge").quota("spot").code == "L-3819A6DF"
    assert machine("p4d.24xlarge").quota("on_demand").code == "L-417A185B"
    assert machine("p4d.24xlarge").quota("spot").code == "L-7212CCBC"
    assert machine("p5.48xlarge").quota("spot").code == "L-C4BD4855"
    assert machine("p6-b200.48xlarge").quota("spot").code is None, "no document has its code"


def test_an_instance_type_without_gpus_is_refused_with_the_nearest():
    with pytest.raises(PlanError, match=r"g4dn\.xlarge"):
        machine("g4ad.xlarge")
    assert all(one.name == name for name, one in MACHINES.items())
