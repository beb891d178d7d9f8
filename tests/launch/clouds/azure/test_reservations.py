"""Capacity reservation groups of Azure: queries before a launch, and requests."""

import pytest

from cloudgan.core.errors import PlanError
from launch.clouds.lab import USUAL


def reserved(lab, name="physics/week", **others):
    return lab.plan(cluster="physics/shared", reservation=name, **others)


def test_the_pool_names_the_group_and_is_in_the_zone_of_its_machines(lab):
    lab.share_cluster()
    group = lab.azure.arm.reserve("physics/week", USUAL["azure"][0], 2)
    plan = reserved(lab, nodes=2)
    (pool,) = (one for one in plan.steps if "/agentPools/" in one.path)
    assert pool.body["properties"]["capacityReservationGroupID"] == group
    assert pool.body["properties"]["availabilityZones"] == ["2"]
    assert "scaleSetPriority" not in pool.body["properties"]
    assert "reservation physics/week" in plan.node_pool.notes[0]


def test_a_group_without_reservations_is_refused_because_aks_would_ignore_it(lab):
    lab.share_cluster()
    group = lab.azure.arm.reserve("physics/week", USUAL["azure"][0], 2)
    plan = reserved(lab)
    del lab.azure.arm.resources[f"{group}/capacityReservations/machines".lower()]
    with pytest.raises(PlanError, match="has no capacity reservation in it"):
        reserved(lab)
    (pool,) = (one for one in plan.steps if "/agentPools/" in one.path)
    lab.cloud().create(pool)
    made = lab.azure.arm.resources[pool.path.partition("?")[0].lower()]
    assert "capacityReservationGroupID" not in made.body["properties"], "as on Azure"
