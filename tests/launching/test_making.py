"""Making one thing in a cloud: what is there is kept, what fails is told, nothing foreign is taken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditing.cloud_double import CloudDouble
from cloudgan.core.errors import CapacityError, ConfigError, LaunchError
from cloudgan.core.labels import SPEC
from cloudgan.core.plan import Step
from cloudgan.launching.making import Maker

POOL = "cloudgan/gan"


class SlowCloud(CloudDouble):
    """What is made goes through `states`, one for each look; None: not listed yet."""

    def __init__(self, *states):
        super().__init__()
        self.states = list(states)

    def find(self, step):
        found = super().find(step)
        if found is None or not self.states:
            return found
        change = self.states.pop(0)
        if change is None:
            return None
        self.there[found.name] = replace(found, **change)
        return self.there[found.name]


@pytest.fixture
def plan(plan_of):
    return plan_of(gang_timeout_seconds=0.2)


@pytest.fixture
def step(plan):
    body = {"kind": "pool", "nodes": 2, "node_type": "g2", "labels": plan.labels().as_dict()}
    return Step(ensure="pool gan", method="POST", path="/pools", at="cloud", find=POOL, body=body)


def maker(cloud, said=None):
    say = (said if said is not None else []).append
    return Maker(cloud, say, poll_seconds=0.01, most_seconds=0.2)


def creations(cloud):
    return [what for verb, *what in cloud.asked if verb == "create"]


def test_what_is_not_there_is_made_and_waited_for(plan, step):
    making = {"state": "making", "why": "waiting for capacity"}
    cloud, said = SlowCloud(making, making, {"state": "ready", "why": ""}), []
    assert maker(cloud, said).ensure(step, plan)
    assert creations(cloud) == [["pool gan"]]
    assert said == ["pool gan: waiting for capacity"], "told once"
    assert cloud.states == [], "it did not wait"


def test_what_is_there_and_ours_is_kept(plan, step):
    cloud = CloudDouble()
    maker(cloud).ensure(step, plan)
    assert not maker(cloud).ensure(step, plan)
    assert creations(cloud) == [["pool gan"]]


def test_what_an_earlier_launcher_left_half_made_is_waited_for_and_not_made_twice(plan, step):
    cloud = SlowCloud({"state": "making"}, {"state": "making"}, {"state": "ready"})
    cloud.create(step)
    assert not maker(cloud).ensure(step, plan)
    assert creations(cloud) == [["pool gan"]]


def test_a_cloud_may_not_list_for_a_while_what_it_took(plan, step):
    cloud = SlowCloud(None, None, {"state": "ready"})
    assert maker(cloud).ensure(step, plan)
    assert creations(cloud) == [["pool gan"]]


def test_what_is_being_deleted_is_awaited_and_then_made_anew(plan, step):
    cloud, said = CloudDouble(), []
    cloud.create(step)
    cloud.lingers = 2
    cloud.delete(cloud.find(step))
    assert maker(cloud, said).ensure(step, plan)
    assert len(creations(cloud)) == 2
    assert said == [f"pool {POOL} is still being deleted"]


@pytest.mark.parametrize(
    ("cause", "kind"), [("capacity", CapacityError), ("quota", CapacityError), ("", LaunchError)]
)
def test_a_pool_that_failed_ends_the_wait_with_the_clouds_sentence(plan, step, cause, kind):
    failed = {"state": "failed", "why": "ZONE_RESOURCE_POOL_EXHAUSTED", "cause": cause}
    with pytest.raises(kind, match="ZONE_RESOURCE_POOL_EXHAUSTED; remove the rest: cloudgan down"):
        maker(SlowCloud(failed)).ensure(step, plan)


def test_a_pool_without_room_is_no_capacity_after_the_gang_timeout(plan, step):
    cloud = SlowCloud(*[{"state": "making", "why": "stock-out"}] * 500)
    with pytest.raises(CapacityError, match=r"pool gan was not there within 0 s: stock-out"):
        maker(cloud).ensure(step, plan)


def test_a_cluster_that_takes_for_ever_is_an_error_and_no_lack_of_capacity(plan, step):
    body = {"kind": "cluster", "labels": {"cloudgan-shared": "cluster"}}
    step = step.model_copy(update={"body": body, "ensure": "cluster cloudgan"})
    cloud = SlowCloud(*[{"state": "making"}] * 500)
    with pytest.raises(LaunchError, match="cluster cloudgan was not ready within 0 s") as told:
        maker(cloud).ensure(step, plan)
    assert not isinstance(told.value, CapacityError)


def test_what_is_deleted_by_somebody_else_while_it_is_made_is_told(plan, step):
    with pytest.raises(LaunchError, match="is being deleted by somebody else while it is made"):
        maker(SlowCloud({"state": "leaving"})).ensure(step, plan)


def test_a_pool_of_somebody_else_is_left_alone(plan, step):
    cloud = CloudDouble()
    cloud.add("pool", POOL, run="other")
    with pytest.raises(ConfigError, match=r"no run's of cloudgan; it is left as it is"):
        maker(cloud).ensure(step, plan)
    assert creations(cloud) == []
    assert cloud.deleted == []


def test_a_pool_that_somebody_else_is_making_is_not_waited_for(plan, step):
    cloud = SlowCloud(*[{"state": "making"}] * 500)
    cloud.add("pool", POOL, run="other", nodes=2)
    with pytest.raises(ConfigError, match=r"no run's of cloudgan; it is left as it is"):
        maker(cloud).ensure(step, plan)


def test_the_same_run_with_other_settings_is_refused(plan, step):
    cloud = CloudDouble()
    cloud.add("pool", POOL, run="gan", labels={SPEC: "0123456789"})
    with pytest.raises(ConfigError, match="was started with other settings"):
        maker(cloud).ensure(step, plan)


def test_a_cluster_that_somebody_has_is_used(plan, step):
    cloud = CloudDouble()
    cloud.add("cluster", POOL)
    cloud.there[POOL] = replace(cloud.there[POOL], labels={})
    assert not maker(cloud).ensure(step, plan)
