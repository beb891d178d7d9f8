"""Which run needs a resource: one that may be in use is never orphaned."""

import dataclasses
import datetime as dt
import re

import pytest

from cloudgan.core.labels import EXPIRES, expiry
from cloudgan.launch.lifecycle.run_registry import DesiredState
from cloudgan.launch.operations.inventory import (
    OrphanDetector,
    RunView,
    cluster_target,
)
from cloudgan.schema.plan import NodePool
from launch.lifecycle.cloud_double import CloudDouble, RulesDouble

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
LONG_AGO, JUST_NOW = NOW - dt.timedelta(hours=5), NOW - dt.timedelta(minutes=5)


@pytest.fixture
def intent_of(plan_of):
    def build(state, at=LONG_AGO, run="gan", zone=None, details=None, **node_pool):
        kind = {"node_type": "n1-standard-8+1xT4", "market": "spot", "name": run} | node_pool
        place = {"provider": "gcp", "region": "us-central1", "cluster": "cloudgan"}
        place |= {"zone": zone, "details": details or {}}
        plan = plan_of(name=run, target=place, node_pool=NodePool(**kind), requests=lambda plan: ())
        return DesiredState(
            number=1, state=state, plan=plan, lease_owner="marie on laptop", created_at=at
        )

    return build


def pool(run="gan", **more):
    known = {"parent": "cloudgan", "nodes": 2, "created_at": LONG_AGO.isoformat()}
    return CloudDouble().add("pool", f"cloudgan/{run}", run, **known | more)


def cluster(**more):
    return CloudDouble().add("cluster", "cloudgan", **{"created_at": LONG_AGO.isoformat()} | more)


def judged(*resources, **views):
    runs = {run: RunView(run, *view) for run, view in views.items()}
    return [standing for _, standing in OrphanDetector(runs, NOW).classify(resources)]


@pytest.mark.parametrize("state", ["starting", "started", "finished", "removed", None])
@pytest.mark.parametrize("expires", [NOW - dt.timedelta(days=9), NOW + dt.timedelta(days=9)])
def test_a_resource_of_a_running_job_is_expected_in_any_case(intent_of, state, expires):
    desired_state = intent_of(state) if state else None
    mine = pool(labels={EXPIRES: expiry(expires)})
    assert judged(mine, gan=(desired_state, True, "running"))[0].state == "expected"


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("removed", "was deleted on 2026-11-21"),
        ("removing", "was interrupted"),
        ("finished", "is finished since"),
        ("failed", "is failed since"),
        ("stopped", "is stopped since"),
        ("started", r"has no Job \(absent\)"),
        ("starting", "the start of run gan was interrupted"),
    ],
)
def test_what_a_run_that_is_over_has_is_left_behind(intent_of, state, why):
    (found,) = judged(pool(), gan=(intent_of(state), False, "absent"))
    assert found.state == "orphaned"
    assert re.search(why, found.reason)


def test_a_run_that_is_being_started_is_expected_before_its_job_is_there(intent_of):
    (found,) = judged(pool(), gan=(intent_of("starting", JUST_NOW), False, "absent"))
    assert found.state == "expected"
    assert "being started by marie on laptop" in found.reason


def test_a_resource_whose_cluster_does_not_answer_is_unknown(intent_of):
    (found,) = judged(pool(), gan=(intent_of("started"), None, "the cluster is away"))
    assert (found.state, found.is_orphaned) == ("unknown", False)
    assert "the cluster is away" in found.reason


def test_an_expired_resource_is_orphaned_even_if_the_cluster_does_not_answer(intent_of):
    mine = pool(labels={EXPIRES: expiry(NOW - dt.timedelta(days=1))})
    (found,) = judged(mine, gan=(intent_of("started"), None, "the cluster is away"))
    assert (found.state, found.reason) == ("orphaned", "it expired on 2026-11-20")


@pytest.mark.parametrize(
    ("made", "state"),
    [(LONG_AGO.isoformat(), "orphaned"), (JUST_NOW.isoformat(), "unknown"), (None, "unknown")],
)
def test_without_a_desired_state_only_old_resources_are_orphaned(made, state):
    (found,) = judged(pool(created_at=made), gan=(None, False))
    assert found.state == state
    assert "its run is in no known store" in found.reason


def test_a_cluster_is_needed_while_a_run_may_use_it(intent_of):
    for view in ((intent_of("started"), True), (intent_of("started"), None), (None, None)):
        assert judged(cluster(), pool(), gan=view)[0].state == "expected"
    assert judged(cluster(), gan=(intent_of("starting", JUST_NOW), False))[0].state == "expected"
    assert judged(cluster(), pool(), gan=(intent_of("finished"), False))[0].state == "orphaned"
    assert judged(cluster())[0].state == "orphaned"
    assert judged(cluster(created_at=JUST_NOW.isoformat()))[0].state == "unknown"


def test_a_kept_cluster_is_expected(intent_of):
    (found,) = judged(cluster(), gan=(intent_of("finished", keep_cluster=True), False))
    assert (found.state, found.reason) == ("expected", "kept by --keep-cluster of run gan")
    elsewhere = cluster(region="europe-west4")
    (found,) = judged(elsewhere, gan=(intent_of("finished", keep_cluster=True), False))
    assert found.state == "orphaned", "that was another cluster of this name"


def test_what_is_being_deleted_is_a_finding_and_what_all_runs_share_is_none(intent_of):
    half = pool(state="deleting")
    bucket = CloudDouble().add("bucket", "cloudgan-lab-1")
    leaving, shared = judged(half, bucket, gan=(intent_of("removing"), False))
    assert (leaving.state, leaving.is_orphaned) == ("deleting", True)
    assert (shared.state, shared.is_orphaned) == ("expected", False)


def test_a_part_of_a_cluster_goes_with_it_and_what_is_left_of_one_goes(intent_of):
    part = CloudDouble().add("cluster", "cloudgan/system", parent="cloudgan")
    part = dataclasses.replace(part, labels={"cloudgan-shared": "system pool"})
    rest = dataclasses.replace(part, name="card", parent="", labels={"cloudgan-shared": "leftover"})
    assert [one.state for one in judged(cluster(), part, rest)] == [
        "orphaned",
        "orphaned",
        "orphaned",
    ]
    needed = judged(cluster(), part, pool(), gan=(intent_of("started"), True))
    assert [one.state for one in needed] == ["expected"] * 3


@pytest.mark.parametrize(("location", "state"), [("f", "expected"), ("a", "orphaned")])
def test_a_cluster_may_be_in_another_zone_than_the_nodes(intent_of, location, state):
    details = {"cluster location": f"us-central1-{location}"}
    view = (intent_of("starting", JUST_NOW, zone="us-central1-a", details=details), False)
    assert judged(cluster(region="us-central1-f"), gan=view)[0].state == state


def test_it_is_known_where_the_cluster_of_a_resource_is(tmp_path):
    account = RulesDouble(CloudDouble("gcp", tmp_path), engine="cluster").target(
        "lab-1", "us-central1", None, None
    )
    account = account.model_copy(update={"details": {"cluster location": "<zone>"}})
    where = "europe-west4-b"
    parent = "projects/lab-1/locations/europe-west4-a/clusters/shared"
    resource = CloudDouble().add("pool", "x", "gan", region=where, parent=parent)
    place = cluster_target(resource, account, "europe-west4-a")
    assert (place.account, place.region, place.cluster) == ("lab-1", "europe-west4", "shared")
    assert place.details == {"cluster location": "europe-west4-a"}, "not where its nodes are"
