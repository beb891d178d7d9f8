"""Enabling of APIs: the operation takes minutes, and the enabled APIs refuse requests for some more."""

import pytest

from cloudgan.core.errors import LaunchError
from cloudgan.launch.clouds.engine import Engine
from cloudgan.launch.clouds.gcp.names import SERVICES
from cloudgan.launch.clouds.gcp.planner import pod_identity_step, setup_steps
from launch.clouds.gcp.lab import PLACE


class Clock:
    """Replaces the module `time`: a sleep returns at once and advances the clock."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("cloudgan.core.clock.time", clock)
    monkeypatch.setattr("time.sleep", clock.sleep)
    return clock


def apis_step():
    return setup_steps(PLACE)[0]


def slow_cloud(lab):
    """A client with the product's intervals."""
    return lab.cloud(poll_seconds=5.0)


def test_enabling_of_apis_is_followed_for_ten_minutes(lab, google, clock):
    google.identity.apis_off = {"container.googleapis.com", "tpu.googleapis.com"}
    google.identity.enabling_ticks = 110
    cloud = slow_cloud(lab)
    assert Engine(cloud, lambda _: None).ensure(apis_step(), None)
    assert 500 < clock.now < 600
    assert not google.identity.apis_off


def test_enabling_that_does_not_end_is_reported_after_ten_minutes(lab, google, clock):
    google.identity.apis_off = {"container.googleapis.com"}
    google.identity.enabling_ticks = 10_000
    with pytest.raises(LaunchError, match=r"not accepted within 600 s: .*; rerun cloudgan setup"):
        Engine(slow_cloud(lab)).ensure(apis_step(), None)
    assert 600 < clock.now < 620


def test_enabling_that_fails_is_reported_with_its_reason(lab, google, clock):
    google.identity.apis_off = {"container.googleapis.com"}
    google.identity.enabling_ticks = 3
    google.identity.enabling_error = "Billing account for project 'lab' is not found."
    with pytest.raises(
        LaunchError, match=r"Billing account for project 'lab' is not found\. Check"
    ):
        Engine(slow_cloud(lab)).ensure(apis_step(), None)
    assert clock.now < 60


def test_enabling_waits_for_that_of_another_client(lab, google, clock):
    google.identity.apis_off = {"container.googleapis.com"}
    google.identity.enabling_ticks = 6
    body = apis_step().body
    path = f"{SERVICES}/projects/lab/services:batchEnable"
    lab.api().send("POST", path, body)
    Engine(slow_cloud(lab)).ensure(apis_step(), None)
    refused = [one for one in google.server.seen if one.status == 400]
    assert refused
    assert not google.identity.apis_off


def test_an_api_that_was_just_enabled_may_refuse_requests_for_five_minutes(lab, google, clock):
    google.identity.apis_off = {"container.googleapis.com"}
    google.identity.settling_ticks = 25
    cloud = slow_cloud(lab)
    Engine(cloud, lambda _: None).ensure(apis_step(), None)
    assert cloud.list_resources() is not None
    assert [one.status for one in google.server.seen].count(403) > 5
    assert 100 < clock.now < 300


def test_an_api_that_refuses_for_longer_is_named_as_disabled(lab, google, clock):
    google.identity.apis_off = {"container.googleapis.com"}
    google.identity.settling_ticks = 1000
    cloud = slow_cloud(lab)
    Engine(cloud, lambda _: None).ensure(apis_step(), None)
    (silent,) = cloud.list_resources().silent
    assert "Kubernetes Engine (container.googleapis.com is not enabled" in silent
    assert 300 <= clock.now < 330


CONDITIONAL = {
    "role": "roles/container.admin",
    "members": ["user:owner@example.org"],
    "condition": {"title": "cloudgan-resources", "expression": "resource.name != ''"},
}


@pytest.mark.parametrize("place", ["project", "cloudgan-lab-us-central1", "cloudgan-trainer"])
def test_conditional_bindings_of_the_owner_survive_setup_and_teardown(lab, google, place):
    cloud = lab.cloud()
    maker = lab.engine()
    bucket = next(step for step in setup_steps(PLACE) if step.ensure.startswith("bucket"))
    maker.ensure(bucket, None)
    policies = (
        google.storage.policies if place in google.storage.policies else google.identity.policies
    )
    email = f"{place}@lab.iam.gserviceaccount.com"
    policy = policies[email if email in policies else place]
    policy["bindings"].append(CONDITIONAL)
    google.identity.has_pool = lambda: True
    for step in (*setup_steps(PLACE), pod_identity_step(PLACE)):
        maker.ensure(step, None)
        assert not maker.ensure(step, None), "found after its creation"
    if place != "cloudgan-trainer":
        for resource in cloud.list_resources():
            if resource.kind == "service account":
                cloud.delete(resource)
    found = policies[email if email in policies else place]["bindings"]
    assert found.count(CONDITIONAL) == 1
    assert not any("_withcond_" in one["role"] for one in found)
