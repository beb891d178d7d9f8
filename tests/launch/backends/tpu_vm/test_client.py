"""Calls to Cloud TPU, and creation and deletion through them."""

import pytest

from cloudgan.core.errors import CapacityError, ConfigError, PlanError
from cloudgan.launch.clouds.engine import Engine
from cloudgan.launch.clouds.gcp.kinds import QUEUED, TPU_VM
from emulators.gcp.refusal import Refusal
from launch.backends.tpu_vm.lab import POLL_SECONDS, cloud_of, planned, resolved, tpus

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
    maker = Engine(cloud, said.append, POLL_SECONDS)
    return lambda: maker.ensure(plan.steps[-1], plan)


def test_a_queued_request_waits_for_its_vms(google, cloud, plan, make, said):
    assert make() is True
    assert cloud.find(plan.steps[-1]).state == "ready"
    assert [one.partition(": ")[2] for one in said] == [
        "no such TPU is available; the request is queued",
        "the TPU is being provisioned",
    ]
    (resource,) = cloud.list_resources("gan")
    assert (resource.kind, resource.node_type, resource.nodes) == (QUEUED.name, "v3-8", 1)
    assert resource.labels == plan.labels().as_dict()
    assert make() is False, "it is there"


def test_a_lost_response_makes_no_second_request(google, cloud, plan, make):
    google.server.lose_answer(CREATE)
    assert make() is True
    assert len(google.resources) == 1


def test_provisioning_waits_for_resources_that_appear_late(google, make):
    google.server.hidden_ticks = 4
    assert make() is True
    assert google.server.methods().count("tpu.projects.locations.queuedResources.create") == 1


def test_an_expired_request_is_a_capacity_error(google, cloud, plan, make):
    google.has_capacity = False
    with pytest.raises(CapacityError, match="not fulfilled before its valid until time"):
        make()
    (resource,) = cloud.list_resources("gan")
    assert (resource.state, resource.cause, resource.nodes) == ("failed", "capacity", 0)


def test_an_exceeded_quota_shows_googles_message(google, make):
    said = "Quota limit 'TPUV3sPerProjectPerZoneForTPUAPI' has been exceeded. Limit: 0"
    google.server.refuse(CREATE, Refusal(429, said))
    with pytest.raises(CapacityError, match="TPUV3sPerProject"):
        make()
    assert google.server.methods().count("tpu.projects.locations.queuedResources.create") == 1


def test_an_unmanaged_tpu_is_refused(google, plan, make, cloud):
    make()
    (resource,) = google.resources.values()
    resource["tpu"]["nodeSpec"][0]["node"]["labels"] = {"team": "theirs"}
    with pytest.raises(ConfigError, match="not managed by cloudgan"):
        make()
    assert not [one for one in cloud.list_resources() if one.kind == QUEUED.name]


def test_deletion_includes_the_vms(google, cloud, make, said):
    make()
    assert len(google.nodes) == 1
    google.server.refuse("queuedResources.delete", Refusal(400, "It is currently busy"), times=3)
    gone = list(Engine(cloud, said.append, POLL_SECONDS, 20.0).destroy(cloud.list_resources("gan")))
    assert [one.partition(" projects/")[0] for one in gone] == [QUEUED.name]
    assert not google.resources
    assert not google.nodes


@pytest.mark.parametrize("state", ["FAILED", "SUSPENDED"])
def test_failed_and_suspended_requests_are_deleted(google, cloud, make, said, state):
    make()
    google.turn(state)
    google.nodes.clear()
    list(Engine(cloud, said.append, POLL_SECONDS, 20.0).destroy(cloud.list_resources("gan")))
    assert not google.resources


def test_vms_without_a_request_are_found_and_deleted(google, cloud, make, said):
    make()
    google.orphan()
    (resource,) = cloud.list_resources("gan")
    assert (resource.kind, resource.nodes, resource.node_type) == (TPU_VM.name, 1, "v3-8")
    list(Engine(cloud, said.append, POLL_SECONDS, 20.0).destroy([resource]))
    assert not google.nodes


def test_a_request_without_labels_has_those_of_its_vms(google, cloud, plan, make):
    make()
    google.shows_labels = False
    (resource,) = cloud.list_resources("gan")
    assert (resource.kind, resource.labels) == (QUEUED.name, plan.labels().as_dict())


def test_the_zone_offers_the_slice(cloud):
    assert cloud.resolve_placeholders(planned())["<zone>"] == "us-central1-b"
    assert cloud.resolve_placeholders(planned())["<zones>"].split()[0] == "us-central1-b"
    place = planned().target.model_copy(update={"zone": "us-central1-c"})
    named = planned().model_copy(update={"target": place})
    assert cloud.resolve_placeholders(named)["<zone>"] == "us-central1-c"
    place = planned().target.model_copy(update={"region": "us-east1"})
    elsewhere = planned().model_copy(update={"target": place})
    with pytest.raises(
        PlanError, match=r"no TPU v3-8 .* the nearest generally available slice is v5litepod-4"
    ):
        cloud.resolve_placeholders(elsewhere)


def test_a_multi_host_slice_is_refused_before_any_creation(google, cloud):
    with pytest.raises(PlanError, match=r"v3-32 has 4 VMs, .* the nearest: v6e-8"):
        cloud.resolve_placeholders(planned("v3-32"))
    assert google.server.seen == []


def test_check_covers_slice_and_system_image_and_names_the_quota(cloud):
    *_, account, slice_, image, quota = cloud.check(resolved(planned("v3-8", "spot")))
    assert account.subject == "service account cloudgan-tpu"
    assert account.status == "ok"
    assert (slice_.status, image.status) == ("ok", "ok")
    assert quota.status == "unknown"
    assert quota.message.startswith("8 are needed")
    assert "preemptible TPU v3 per project per zone" in quota.message
    *_, slice_, image, _ = cloud.check(resolved(planned("v5p-8")))
    assert (slice_.status, image.status) == ("missing", "missing")
