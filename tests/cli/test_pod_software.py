"""A run uses the image that its tag named at the time of deploy."""

from __future__ import annotations

import json
import re

import pytest

from cli.provisioned import basis
from cloudgan.api import pod_software
from cloudgan.api.pod_software import known_wheels, pin_image
from cloudgan.core.errors import ConfigError, UnknownNameError
from cloudgan.launch.container_registry.client import Registry
from cloudgan.launch.kubernetes.manifests import manifest_steps
from cloudgan.schema.plan import Plan
from cloudgan.storage.folder import FolderStore
from launch.provisioning.place_double import PlaceDouble

DIGEST = "sha256:" + "0a" * 32


class Cluster(PlaceDouble):
    """Builds its steps from the plan that it gets, as every backend does."""

    def steps(self, plan):
        return manifest_steps(plan)


@pytest.fixture
def pin(registry):
    """Pins the image of a plan without pauses; `pin.said` has the messages."""

    def run(plan, before=None):
        return pin_image(plan, before, run.said.append, lambda host: Registry(host, sleep=str))

    run.said = []
    return run


@pytest.fixture
def planned_with(plan_of):
    def make(image, **place):
        return plan_of(workers={"image": image}, target=place)

    return make


def test_a_plan_gets_the_digest_and_keeps_the_tag(registry, pin, planned_with):
    digest = registry.put_image("lab/gan", "1")
    plan = planned_with(f"{registry.host}/lab/gan:1")
    found = pin(plan)
    assert found.workers.image == f"{registry.host}/lab/gan:1@{digest}"
    assert (found.spec_hash, found.warnings) == (plan.spec_hash, plan.warnings), (
        "another day, the same run"
    )


def test_a_resumed_run_keeps_its_image(registry, pin, planned_with):
    registry.put_image("lab/gan", "1")
    plan = planned_with(f"{registry.host}/lab/gan:1")
    first = pin(plan)
    registry.put_image("lab/gan", "1", "linux/arm64")
    assert pin(plan, first).workers.image == first.workers.image
    assert pin.said == [f"resuming with the image of the run, {first.workers.image}"]
    assert pin(plan).workers.image != first.workers.image, "a new one gets what the tag means now"
    other = first.model_copy(update={"spec_hash": "0123456789"})
    assert pin(plan, other).workers.image != first.workers.image
    assert pin(plan, plan).workers.image != plan.workers.image, "it began by its tag: no digest"


def test_no_request_is_sent_without_image_or_with_a_digest(registry, pin, planned_with):
    for image in (None, f"{registry.host}/lab/gan@{DIGEST}"):
        plan = planned_with(image)
        assert pin(plan) == plan
    assert registry.asked == []


def test_a_wrong_tag_is_refused_with_the_nearest(registry, pin, planned_with):
    registry.put_image("lab/gan", "1.0")
    with pytest.raises(UnknownNameError, match=r"Did you mean '1\.0'"):
        pin(planned_with(f"{registry.host}/lab/gan:1.0.0"))


def test_a_private_registry_without_login_is_a_warning_that_says_what_that_means(
    registry, pin, planned_with
):
    registry.access = "token"
    registry.put_image("lab/gan", "1")
    plan = planned_with(f"{registry.host}/lab/gan:1")
    found = pin(plan)
    assert found.workers == plan.workers
    (warning,) = set(found.warnings) - set(plan.warnings)
    assert f"image {plan.workers.image} is not pinned to a digest" in warning
    assert "requires a login, and none was found" in warning
    assert "no record says which one trained" in warning


def test_an_unavailable_registry_is_a_warning(registry, pin, planned_with):
    registry.failures.extend([(503, {})] * 3)
    (warning,) = set(pin(planned_with(f"{registry.host}/lab/gan:1")).warnings) - set(
        planned_with(None).warnings
    )
    assert "HTTP 503" in warning


def test_an_image_for_another_platform_is_refused(registry, pin, planned_with):
    registry.put_image("lab/gan", "1", "linux/arm64")
    image = f"{registry.host}/lab/gan:1"
    plan = planned_with(image)
    assert "@" in pin(plan).workers.image, "the platform of a cluster's nodes is unknown"
    place = plan.target.model_copy(update={"provider": "gcp"})
    with pytest.raises(ConfigError, match=r"built for linux/arm64.*as `cloudgan image` shows"):
        pin(plan.model_copy(update={"target": place}))


def test_deploy_records_the_digest_in_what_it_makes_and_in_its_files(
    cloudgan_here, user_folder, monkeypatch, docker_hub, tmp_path
):
    double = Cluster()
    monkeypatch.setattr("cloudgan.api.deploy_attempt.open_backend", lambda place, say, **_: double)
    bucket = FolderStore(tmp_path / "bucket")
    monkeypatch.setattr("cloudgan.launch.provisioning.run_results.open_store", lambda url: bucket)
    flags = (
        "--provider=kubernetes",
        "--store=s3://lab/cloudgan",
        "--image=lab/gan:1",
        "--data=s3://lab/cloudgan/data/x",
        "--name=gan",
        "--preset=smoke",
    )
    offline = cloudgan_here("deploy", *flags, "--dry-run", "--json").stdout
    assert "image      lab/gan:1; its digest is resolved at deploy\n" in basis(offline)
    assert "sha256" not in offline, "no digest is invented"
    cloudgan_here("deploy", *flags, "--yes", "--detach")
    image = f"lab/gan:1@{docker_hub.tagged['lab/gan']['1']}"
    folder = user_folder / "runs" / "gan"
    assert Plan.model_validate_json((folder / "plan.json").read_text()).workers.image == image
    launch = json.loads((folder / "launch.json").read_text())
    assert image in json.dumps(launch["attempts"][0]["requests"]), "in the Job that was sent"
    assert [step for step in double.made if image in json.dumps(step.body)]


@pytest.mark.parametrize(
    ("accelerator", "named", "others"),
    [
        ("H100", {"tensorflow", "nvidia-cudnn-cu12", "nvidia-nccl-cu12", "boto3"}, {"libtpu"}),
        ("TPU-v5e", {"tensorflow-tpu", "libtpu", "boto3"}, {"nvidia-cudnn-cu12"}),
        (None, {"boto3", "keras"}, {"tensorflow", "nvidia-cudnn-cu12", "libtpu"}),
    ],
)
def test_pods_with_accelerators_install_tensorflow_and_its_libraries(
    monkeypatch, tmp_path, accelerator, named, others
):
    locks = []
    monkeypatch.setattr(
        pod_software, "dependency_wheels", lambda lock, **_: locks.append(lock) or ()
    )
    monkeypatch.setattr(pod_software, "cache_folder", lambda: tmp_path)
    known_wheels(accelerator)
    packages = set(re.findall(r"^([a-z0-9-]+)==", locks[0], re.MULTILINE))
    assert named <= packages
    assert not others & packages
