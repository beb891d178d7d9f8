"""Capacity reservation groups of Azure: queries before a launch, and requests."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError, PlanError
from emulators.azure.cloud import SUBSCRIPTION
from launch.clouds.azure.lab import REGION, plan_for

T4 = "Standard_NC4as_T4_v3"
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/physics"
CLUSTER = f"{GROUP}/providers/Microsoft.ContainerService/managedClusters/shared"


def shared(lab, kind="UserAssigned"):
    """Another user's cluster."""
    properties = {"agentPoolProfiles": []}
    lab.azure.arm.put(GROUP, {"location": REGION})
    lab.azure.arm.put(
        CLUSTER, {"location": REGION, "identity": {"type": kind}, "properties": properties}
    )


def reserved(lab, name="physics/week", **others):
    return lab.plan(cluster="physics/shared", reservation=name, **others)


def test_the_pool_names_the_group_and_is_in_the_zone_of_its_machines(lab):
    shared(lab)
    group = lab.azure.arm.reserve("physics/week", T4, 2)
    plan = reserved(lab, nodes=2)
    (pool,) = (one for one in plan.steps if "/agentPools/" in one.path)
    assert pool.body["properties"]["capacityReservationGroupID"] == group
    assert pool.body["properties"]["availabilityZones"] == ["2"]
    assert "scaleSetPriority" not in pool.body["properties"]
    assert "reservation physics/week" in plan.node_pool.notes[0]


REFUSED = (
    ({"size": "Standard_NC64as_T4_v3"}, {}, "is of Standard_NC64as_T4_v3, and the run needs"),
    ({"count": 1}, {"nodes": 2}, "has 1 free machines, and the run needs 2"),
    ({"count": 4, "used": 3}, {"nodes": 2}, "has 1 free machines, and the run needs 2"),
    ({}, {"zone": "1"}, "is in zone 2, not in --zone=1"),
    ({}, {"name": "physics/other"}, "has no capacity reservation group physics/other"),
)


def test_a_reservation_that_cannot_serve_is_refused_before_anything_is_made(lab):
    shared(lab)
    before = lab.azure.arm.held()
    for there, asked, why in REFUSED:
        how = {"size": T4, "count": 4} | there
        lab.azure.arm.reserve("physics/week", how.pop("size"), how.pop("count"), **how)
        with pytest.raises(PlanError, match=why):
            reserved(lab, **asked)
    assert [one for one in lab.azure.arm.held() if "Reservation" not in one] == before


def test_a_group_without_reservations_is_refused_because_aks_would_ignore_it(lab):
    shared(lab)
    group = lab.azure.arm.reserve("physics/week", T4, 2)
    plan = reserved(lab)
    del lab.azure.arm.resources[f"{group}/capacityReservations/machines".lower()]
    with pytest.raises(PlanError, match="has no capacity reservation in it"):
        reserved(lab)
    (pool,) = (one for one in plan.steps if "/agentPools/" in one.path)
    lab.cloud().create(pool)
    made = lab.azure.arm.resources[pool.path.partition("?")[0].lower()]
    assert "capacityReservationGroupID" not in made.body["properties"], "as on Azure"


@pytest.mark.parametrize("kind", ["SystemAssigned", None])
def test_a_cluster_that_cannot_use_a_reservation_is_refused(lab, kind):
    lab.azure.arm.reserve("physics/week", T4, 2)
    if kind:
        shared(lab, kind)
    with pytest.raises(PlanError, match="user-assigned identity"):
        reserved(lab)


@pytest.mark.parametrize("name", ["week", "a/b/c", "/week", "physics/", "../x", "a/.."])
def test_what_is_no_group_of_reservations_is_bad_input(lab, name):
    with pytest.raises(ConfigError, match="GROUP/NAME"):
        plan_for(lab.plan_of, reservation=name)
