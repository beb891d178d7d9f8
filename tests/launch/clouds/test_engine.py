"""Creating one resource: an existing one is kept, an error is reported, and those of others are unchanged."""

from dataclasses import replace
from itertools import islice

import pytest

from cloudgan.core.errors import (
    CapacityError,
    ConfigError,
    CredentialsError,
    LaunchError,
    ResourcesLeftError,
)
from cloudgan.core.labels import SPEC
from cloudgan.launch.clouds.engine import Engine, backoff
from cloudgan.schema.plan import Step
from launch.lifecycle.cloud_double import CloudDouble


def test_pauses_grow_from_a_moment_to_what_was_asked_and_no_further():
    found = list(islice(backoff(8.0), 7))
    assert found == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


POOL = "cloudgan/gan"


class SlowCloud(CloudDouble):
    """A cloud whose new resource has these `states`, one for each request; None: not listed yet."""

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
    return Engine(cloud, say, poll_seconds=0.01, gone_seconds=0.2, ready_seconds=0.2)


def test_what_is_not_there_is_made_and_waited_for(plan, step):
    making = {"state": "creating", "reason": "waiting for capacity"}
    cloud, said = SlowCloud(making, making, {"state": "ready", "reason": ""}), []
    assert maker(cloud, said).ensure(step, plan)
    assert cloud.asked("create") == ["pool gan"]
    assert said == ["pool gan: waiting for capacity"], "printed once"
    assert cloud.states == [], "it did not wait"


def test_what_an_earlier_launcher_left_half_made_is_waited_for_and_not_made_twice(plan, step):
    cloud = SlowCloud({"state": "creating"}, {"state": "creating"}, {"state": "ready"})
    cloud.create(step)
    assert not maker(cloud).ensure(step, plan)
    assert cloud.asked("create") == ["pool gan"]


def test_what_is_being_deleted_is_awaited_and_then_created_again(plan, step):
    cloud, said = CloudDouble(), []
    cloud.create(step)
    cloud.lingers = 2
    cloud.delete(cloud.find(step))
    assert maker(cloud, said).ensure(step, plan)
    assert len(cloud.asked("create")) == 2
    assert said == [f"pool {POOL} is still being deleted"]


def test_a_cluster_that_takes_for_ever_is_an_error_and_no_lack_of_capacity(plan, step):
    body = {"kind": "cluster", "labels": {"cloudgan-shared": "cluster"}}
    step = step.model_copy(update={"body": body, "ensure": "cluster cloudgan"})
    cloud = SlowCloud(*[{"state": "creating"}] * 500)
    with pytest.raises(LaunchError, match="cluster cloudgan was not ready within 0 s") as error:
        maker(cloud).ensure(step, plan)
    assert not isinstance(error.value, CapacityError)


@pytest.mark.parametrize("is_of_run", [True, False])
def test_a_deletion_by_another_client_during_the_creation_is_an_error(plan, step, is_of_run):
    undo = "cloudgan down gan" if is_of_run else "cloudgan setup --teardown with the same flags"
    with pytest.raises(LaunchError, match=f"is being deleted by another client.*{undo}$"):
        maker(SlowCloud({"state": "deleting"})).ensure(step, plan if is_of_run else None)


@pytest.mark.parametrize("states", [(), [{"state": "creating"}] * 500], ids=["ready", "creating"])
def test_a_pool_of_another_run_is_neither_changed_nor_waited_for(plan, step, states):
    cloud = SlowCloud(*states)
    cloud.add("pool", POOL, run="other", nodes=2)
    with pytest.raises(ConfigError, match=r"not managed by cloudgan; it is unchanged"):
        maker(cloud).ensure(step, plan)
    assert cloud.asked("create") == []
    assert cloud.deleted == []


def test_the_same_run_with_other_settings_is_refused(plan, step):
    cloud = CloudDouble()
    cloud.add("pool", POOL, run="gan", labels={SPEC: "0123456789"})
    with pytest.raises(ConfigError, match="was started with other settings"):
        maker(cloud).ensure(step, plan)


@pytest.fixture
def cloud():
    made = CloudDouble()
    made.add("cluster", "cloudgan")
    made.add("pool", "cloudgan/gan", run="gan")
    made.add("pool", "cloudgan/other", run="gan")
    return made


def remove(cloud, said=None, most_seconds=5.0):
    say = (said if said is not None else []).append
    remover = Engine(cloud, say, poll_seconds=0.01, gone_seconds=most_seconds)
    return list(remover.destroy(cloud.list_resources()))


def test_it_is_reported_as_deleted_only_when_it_is(cloud):
    cloud.lingers = 3
    for name in remove(cloud):
        assert name.partition(" ")[2] not in cloud.there


def test_a_refused_deletion_is_repeated_and_reported_once(cloud):
    cloud.refuses["cloudgan/gan"], said = 3, []
    assert len(remove(cloud, said)) == 3
    assert said == [
        "pool cloudgan/gan cannot be deleted yet: another operation runs on this cluster"
    ]


def test_what_is_half_deleted_is_only_waited_for(cloud):
    cloud.delete(cloud.there["cloudgan/gan"])
    cloud.lingers, asked, delete = 5, [], cloud.delete
    cloud.delete = lambda resource: (asked.append(resource.name), delete(resource))
    assert len(remove(cloud)) == 3
    assert asked.count("cloudgan/other") == 1, "once is enough, however long it takes"


def test_what_is_gone_already_is_fine(cloud):
    listed = cloud.list_resources()
    remove(cloud)
    remover = Engine(cloud, lambda _: None, poll_seconds=0.01)
    assert len(list(remover.destroy(listed))) == 3
    assert len(cloud.deleted) == 3, "each deletion was requested once"


FAILURES = (
    CredentialsError("this login has expired; log in again"),
    LaunchError("the service does not answer"),
    KeyError("provisioningState"),
)


@pytest.mark.parametrize("failure", FAILURES, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("when", ["delete", "refresh"])
def test_a_deletion_that_fails_skips_neither_its_rank_nor_the_next(cloud, when, failure):
    act = getattr(cloud, when)

    def failing(resource):
        if resource.name == "cloudgan/gan":
            raise failure
        return act(resource)

    setattr(cloud, when, failing)
    with pytest.raises(ResourcesLeftError) as error:
        remove(cloud, most_seconds=0.1)
    assert cloud.deleted[-2:] == ["cloudgan/other", "cloudgan"]
    assert "cloudgan/other" not in cloud.there
    assert str(failure) in str(error.value)
    assert "pool cloudgan/gan" in str(error.value), "what remains is named"
    assert error.value.exit_code == 4
