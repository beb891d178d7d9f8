"""The clouds in memory behave as real ones towards Provisioner, Destroyer and RunMonitor."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import CapacityError, ConfigError, LaunchError
from cloudgan.launch.clouds.engine import Engine, names_of_gone
from cloudgan.schema.plan import NodePool
from launch.lifecycle.cloud_double import BUCKET, CLUSTER, POOL, CloudDouble, RulesDouble

POLL = 0.0001


@pytest.fixture
def cloud(tmp_path):
    return CloudDouble("gcp", tmp_path)


@pytest.fixture
def plan(cloud, plan_of):
    place = {"provider": "gcp", "region": "us-central1", "cluster": "cloudgan"}
    node_pool = NodePool(node_type="g2-standard-4", market="spot", name="gan-0a1b")
    rules = RulesDouble(cloud, engine="cluster")
    empty = dict.fromkeys(("context", "server", "namespace"))
    return plan_of(
        target=place | empty, node_pool=node_pool, requests=rules.steps, gang_timeout_seconds=0.02
    )


def steps(plan):
    return [step for step in plan.steps if step.at == "cloud"]


def make(cloud, plan, say=lambda _: None):
    maker = Engine(cloud, say, POLL)
    return [maker.ensure(step, plan) for step in steps(plan)]


def test_what_is_made_once_is_found_again(cloud, plan):
    assert make(cloud, plan) == [True] * 3
    assert make(cloud, plan) == [False] * 3
    assert cloud.kinds() == [BUCKET, CLUSTER, POOL]
    assert cloud.nodes == 1


def test_a_new_resource_may_be_listed_late_and_become_ready_later(cloud, plan):
    cloud.looks_to_list, cloud.looks_to_make = 2, 3
    assert make(cloud, plan) == [True] * 3


@pytest.mark.parametrize("how", ["refused", "failed", "never ready"])
def test_missing_capacity_is_an_error_at_once_later_or_at_the_time_limit(cloud, plan, how):
    cloud.refuse(POOL, "no L4 in us-central1-a", how)
    with pytest.raises(CapacityError, match="no L4 in us-central1-a"):
        make(cloud, plan)


def test_a_lost_answer_leaves_what_was_made_and_the_next_try_finds_it(cloud, plan):
    cloud.refuse(CLUSTER, "connection reset", "lost answer", times=1)
    with pytest.raises(LaunchError, match="connection reset"):
        make(cloud, plan)
    assert make(cloud, plan) == [False, False, True]


def test_trouble_is_where_it_was_said_to_be(cloud, plan):
    cloud.refuse(POOL, "no room", region="europe-west4")
    cloud.refuse(POOL, "no room", market="on_demand")
    make(cloud, plan)
    assert cloud.nodes == 1


def test_resources_are_deleted_late_and_after_refusals(cloud, plan):
    make(cloud, plan)
    cloud.looks_to_go = 2
    cloud.refused_deletions.update({resource.name: 2 for resource in cloud.there.values()})
    gone = list(
        names_of_gone(Engine(cloud, lambda _: None, POLL).destroy(cloud.list_resources("gan")))
    )
    assert gone == [f"{POOL} us-central1/gan-0a1b"]
    assert cloud.nodes == 0
    assert cloud.kinds() == [BUCKET, CLUSTER]


def test_the_pool_of_another_run_is_unchanged(cloud, plan):
    cloud.add(POOL, "us-central1/gan-0a1b", "another")
    with pytest.raises(ConfigError, match="it is unchanged"):
        make(cloud, plan)
