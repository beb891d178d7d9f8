"""Single calls to Cloud TPU, and making and removing by them."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import CapacityError, ConfigError, PlanError
from cloudgan.launching.making import Maker
from cloudgan.launching.removing import Remover
from cloudgan.providers.gcp.tpu_requests import KIND
from cloudgan.providers.gcp.tpu_things import NODE_KIND
from google_cloud.refusal import Refusal
from providers.gcp.tpu_lab import POLL_SECONDS, cloud_of, planned, resolved, tpus

CREATE = "queuedResources.create"


@pytest.fixture
def google():
    with tpus() as made:
        yield made


@pytest.fixture
def cloud(google):
    return cloud_of(google.server.url)


@pytest.fixture
def plan():
    return resolved(planned())


@pytest.fixture
def said():
    return []


@pytest.fixture
def make(cloud, plan, said):
    maker = Maker(cloud, said.append, POLL_SECONDS)
    return lambda: maker.ensure(plan.steps[-1], plan)


def test_a_request_waits_in_the_queue_until_its_machines_are_there(google, cloud, plan, make, said):
    assert make() is True
    assert cloud.find(plan.steps[-1]).state == "ready"
    assert [one.partition(": ")[2] for one in said] == [
        "no such TPU is free; the request stands in the queue",
        "the TPU is being made",
    ]
    (thing,) = cloud.things("gan")
    assert (thing.kind, thing.node_type, thing.nodes) == (KIND, "v3-8", 1)
    assert thing.labels == plan.labels().as_dict()
    assert make() is False, "it is there"


def test_an_answer_that_was_lost_makes_no_second_request(google, cloud, plan, make):
    google.server.lose_answer(CREATE)
    assert make() is True
    assert len(google.resources) == 1


def test_what_is_not_listed_at_once_is_waited_for(google, make):
    google.server.hidden_ticks = 4
    assert make() is True
    assert google.server.methods().count("tpu.projects.locations.queuedResources.create") == 1


def test_a_queue_that_is_left_in_vain_is_want_of_capacity(google, cloud, plan, make):
    google.has_capacity = False
    with pytest.raises(CapacityError, match="not fulfilled before its valid until time"):
        make()
    (thing,) = cloud.things("gan")
    assert (thing.state, thing.cause, thing.nodes) == ("failed", "capacity", 0)


def test_a_quota_is_told_in_googles_words(google, make):
    said = "Quota limit 'TPUV3sPerProjectPerZoneForTPUAPI' has been exceeded. Limit: 0"
    google.server.refuse(CREATE, Refusal(429, said))
    with pytest.raises(CapacityError, match="TPUV3sPerProject"):
        make()
    assert google.server.methods().count("tpu.projects.locations.queuedResources.create") == 1


def test_what_is_somebody_elses_is_left_alone(google, plan, make, cloud):
    make()
    (resource,) = google.resources.values()
    resource["tpu"]["nodeSpec"][0]["node"]["labels"] = {"team": "theirs"}
    with pytest.raises(ConfigError, match="no run's of cloudgan"):
        make()
    assert not [one for one in cloud.things() if one.kind == KIND]


def test_removing_deletes_the_machines_with_the_request(google, cloud, make, said):
    make()
    assert len(google.nodes) == 1
    google.server.refuse("queuedResources.delete", Refusal(400, "It is currently busy"), times=3)
    gone = list(Remover(cloud, said.append, POLL_SECONDS, 20.0).remove(cloud.things("gan")))
    assert [one.partition(" projects/")[0] for one in gone] == [KIND]
    assert not google.resources
    assert not google.nodes


@pytest.mark.parametrize("state", ["FAILED", "SUSPENDED"])
def test_what_costs_nothing_any_more_is_removed_too(google, cloud, make, said, state):
    make()
    google.turn(state)
    google.nodes.clear()
    list(Remover(cloud, said.append, POLL_SECONDS, 20.0).remove(cloud.things("gan")))
    assert not google.resources


def test_machines_without_their_request_are_found_and_removed(google, cloud, make, said):
    make()
    google.orphan()
    (thing,) = cloud.things("gan")
    assert (thing.kind, thing.nodes, thing.node_type) == (NODE_KIND, 1, "v3-8")
    list(Remover(cloud, said.append, POLL_SECONDS, 20.0).remove([thing]))
    assert not google.nodes


def test_a_request_that_hides_its_labels_has_those_of_its_machines(google, cloud, plan, make):
    make()
    google.shows_labels = False
    (thing,) = cloud.things("gan")
    assert (thing.kind, thing.labels) == (KIND, plan.labels().as_dict())


def test_a_zone_is_chosen_that_has_such_a_slice(cloud):
    assert cloud.known(planned())["<zone>"] == "us-central1-b"
    place = planned().place.model_copy(update={"zone": "us-central1-c"})
    named = planned().model_copy(update={"place": place})
    assert cloud.known(named)["<zone>"] == "us-central1-c"
    place = planned().place.model_copy(update={"region": "us-east1"})
    elsewhere = planned().model_copy(update={"place": place})
    with pytest.raises(PlanError, match=r"no TPU v3-8 .* v5litepod-4 is the nearest that is sold"):
        cloud.known(elsewhere)


def test_a_slice_of_several_hosts_is_refused_before_anything_is_made(google, cloud):
    with pytest.raises(PlanError, match=r"v3-32 is 4 machines, .* Take v6e-8"):
        cloud.known(planned("v3-32"))
    assert google.server.seen == []


def test_check_asks_for_slice_and_system_image_and_names_the_quota(cloud):
    *_, account, slice_, image, quota = cloud.check(resolved(planned("v3-8", "spot")))
    assert account.subject == "service account cloudgan-tpu"
    assert account.verdict == "ok"
    assert (slice_.verdict, image.verdict) == ("ok", "ok")
    assert quota.verdict == "unknown"
    assert quota.says.startswith("8 are needed")
    assert "preemptible TPU v3 per project per zone" in quota.says
    *_, slice_, image, _ = cloud.check(resolved(planned("v5p-8")))
    assert (slice_.verdict, image.verdict) == ("missing", "missing")
