"""One run's share of a cluster that several runs use."""

from __future__ import annotations

import datetime as dt

import pytest

from cloudgan.core.labels import RUN, SHARED
from cloudgan.launch.provisioning.cluster_usage import cluster_usage, used_seconds, uses_cluster_of
from cloudgan.launch.provisioning.run_registry import DesiredState
from cloudgan.schema.plan import NodePool
from cloudgan.schema.resource import Resource

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
RENTAL = NodePool(node_type="n1-standard-8+1xV100", market="spot", name="gan-pool")
PLACE = {"provider": "gcp", "region": "us-central1", "cluster": "cloudgan", "context": None}


def after(minutes):
    return NOON + dt.timedelta(minutes=minutes)


@pytest.fixture
def provisioned(plan_of):
    def build(name="gan", engine="cluster", **place):
        node_pool = RENTAL.model_copy(update={"engine": engine})
        return plan_of(name=name, target=PLACE | place).model_copy(update={"node_pool": node_pool})

    return build


def history(plan, *states):
    return tuple(
        DesiredState(
            number=number, state=state, plan=plan, lease_owner="me", created_at=after(minutes)
        )
        for number, (minutes, state) in enumerate(states, start=1)
    )


def cluster(**more):
    known = {"created_at": NOON.isoformat(), "fee": "GKE standard", "region": "us-central1"}
    known |= {"labels": {SHARED: "cluster"}, "node_type": "e2-medium", "nodes": 1}
    return Resource(kind="GKE cluster", name="p/cloudgan", state="ready", **(known | more))


def test_two_runs_share_it_by_how_long_each_was_meant_to_be_there(provisioned):
    ours = history(provisioned(), (0, "starting"), (5, "started"))
    other = provisioned("other")
    theirs = history(other, (10, "starting"), (12, "started"), (40, "finished"), (90, "removed"))
    elsewhere = history(provisioned("far", region="europe-west4"), (0, "starting"))
    found = cluster_usage(provisioned(), [cluster()], [ours, theirs, elsewhere], after(90))
    assert (found.own_run_seconds, found.all_runs_seconds) == (90 * 60, 120 * 60)
    assert found.share_seconds() == 90 * 60 * 90 / 120
    assert (found.control_plane, found.system_node, found.system_nodes) == (
        "GKE standard",
        "e2-medium",
        1,
    )


def test_time_before_the_cluster_was_there_is_no_use_of_it(provisioned):
    ours = history(
        provisioned(), (0, "starting"), (20, "started"), (30, "stopped"), (50, "starting")
    )
    assert used_seconds(ours, provisioned(), after(10), after(60)) == (20 + 10) * 60


def test_a_pool_of_its_own_says_what_its_system_nodes_are(provisioned):
    pool = Resource(
        kind="AKS pool",
        name="p/cloudgan/system",
        state="ready",
        parent="p/cloudgan",
        labels={SHARED: "cluster"},
        node_type="Standard_D2s_v5",
        nodes=2,
    )
    runs = Resource(
        kind="AKS pool", name="x", state="ready", parent="p/cloudgan", labels={RUN: "gan"}, nodes=4
    )
    found = cluster_usage(provisioned(), [cluster(nodes=0), pool, runs], [], after(1))
    assert (found.system_node, found.system_nodes) == ("Standard_D2s_v5", 2)


def test_a_cluster_that_cloudgan_did_not_make_is_named_and_unknown(provisioned):
    found = cluster_usage(provisioned(), [cluster(labels={})], [], after(1))
    assert found.name == "cloudgan"
    assert found.share_seconds() is None
    assert found.control_plane is None


def test_machines_without_a_cluster_have_none(provisioned):
    assert cluster_usage(provisioned(engine="tpu_vm"), [cluster()], [], after(1)) is None


def test_a_run_that_is_over_uses_no_cluster(provisioned):
    other = provisioned("other")
    assert uses_cluster_of(provisioned(), history(other, (0, "started"))[-1])
    assert not uses_cluster_of(provisioned(), history(other, (0, "finished"))[-1])
    assert not uses_cluster_of(provisioned(), None)
    assert not uses_cluster_of(
        provisioned(), history(provisioned("t", engine="tpu_vm"), (0, "started"))[-1]
    )
