"""One run's share of a cluster that several runs use."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudgan.core.labels import RUN, SHARED
from cloudgan.launch.lifecycle.cluster_usage import cluster_usage, uses_cluster_of
from cloudgan.launch.lifecycle.run_registry import DesiredState
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


def test_two_runs_share_each_moment_and_together_pay_for_all_of_it(provisioned):
    ours = history(provisioned(), (0, "starting"), (5, "started"))
    other = provisioned("other")
    theirs = history(other, (10, "starting"), (12, "started"), (40, "finished"), (90, "removed"))
    elsewhere = history(provisioned("far", region="europe-west4"), (0, "starting"))
    histories = [ours, theirs, elsewhere]
    found = cluster_usage(provisioned(), [cluster()], histories, after(90))
    assert found.run_seconds == (10 + 30 / 2 + 50) * 60
    assert cluster_usage(other, [cluster()], histories, after(90)).run_seconds == 15 * 60
    assert (found.control_plane, found.system_node, found.system_nodes) == (
        "GKE standard",
        "e2-medium",
        1,
    )


def test_ten_idle_hours_of_a_kept_cluster_belong_to_the_run_that_kept_it(provisioned):
    first, second = provisioned("a"), provisioned("b")
    first, second = (
        one.model_copy(
            update={"node_pool": one.node_pool.model_copy(update={"keep_cluster": True})}
        )
        for one in (first, second)
    )
    of_first = history(first, (0, "starting"), (60, "finished"))
    at_its_end = cluster_usage(first, [cluster()], [of_first], after(60))
    assert (at_its_end.run_seconds, at_its_end.idle_since) == (3600, after(60))
    of_second = history(second, (660, "starting"), (720, "finished"))
    both = [of_first, of_second]
    paid = {
        one.run: cluster_usage(one, [cluster()], both, after(720)).run_seconds
        for one in (first, second)
    }
    assert paid == {"a": 11 * 3600, "b": 3600}, "not 1 h and 6 h, with 5 h in no report"


@pytest.mark.parametrize(
    ("created", "paid"),
    [(0, 60), (10, 50)],
)
def test_a_run_that_stopped_and_went_on_pays_since_the_cluster_was_there(
    provisioned, created, paid
):
    ours = history(
        provisioned(), (0, "starting"), (20, "started"), (30, "stopped"), (50, "starting")
    )
    there = cluster(created_at=after(created).isoformat())
    assert cluster_usage(provisioned(), [there], [ours], after(60)).run_seconds == paid * 60


@given(st.data())
@settings(suppress_health_check=list(HealthCheck), deadline=None)
def test_the_runs_of_a_cluster_pay_its_whole_time_once(provisioned, data):
    minutes = st.integers(0, 500)
    names = ["a", "b", "c"][: data.draw(st.integers(1, 3))]
    histories = []
    for name in names:
        begins, ends = sorted((data.draw(minutes), data.draw(minutes)))
        states = [(begins, "starting"), (ends, data.draw(st.sampled_from(["finished", "stopped"])))]
        histories.append(history(provisioned(name), *states))
    created, now = sorted((data.draw(minutes), data.draw(st.integers(500, 900))))
    there = cluster(created_at=after(created).isoformat())
    paid = [
        cluster_usage(provisioned(name), [there], histories, after(now)).run_seconds
        for name in names
    ]
    assert sum(paid) == pytest.approx((now - created) * 60)


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
    assert found.run_seconds is None
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
