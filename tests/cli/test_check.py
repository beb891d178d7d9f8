"""`cloudgan check`: one table for all clouds, and no resource created."""

import json
import sys
import threading

import pytest

from cloudgan.core.errors import PlanError
from cloudgan.launch.clouds.resource import Finding
from launch.lifecycle.cloud_double import installed

QUOTA = Finding(
    "quota PREEMPTIBLE_NVIDIA_T4_GPUS in us-central1", "missing", "1 of 2; ask for 2 more"
)


@pytest.fixture
def clouds(monkeypatch, tmp_path):
    """The doubles of all three clouds."""
    return {name: installed(monkeypatch, tmp_path, name) for name in ("aws", "azure", "gcp")}


def test_without_any_login_each_cloud_has_one_helpful_line(cloudgan_here, clouds, monkeypatch):
    for cloud in clouds.values():
        cloud.has_no_login = True
    monkeypatch.setitem(sys.modules, "cloudgan.launch.clouds.aws.client", None)  # no SDK
    said = cloudgan_here("check", exits=2)
    lines = said.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["✗", "AWS"], ["✗", "Azure"], ["✗", "GCP"]]
    assert "pip install '.[aws]'" in lines[0]
    assert "type: gcloud auth login" in lines[2]
    assert "no cloud is ready" in said.stderr


def test_one_ready_cloud_is_enough_unless_another_is_named(cloudgan_here, clouds):
    clouds["aws"].has_no_login = clouds["azure"].has_no_login = True
    found = cloudgan_here("check", "--json").json()
    assert found["ready"]
    assert [name for name, one in found["clouds"].items() if one["ready"]] == ["gcp"]
    assert cloudgan_here("check", "--provider=gcp").stdout.startswith("✓ GCP   ready: marie in")
    said = cloudgan_here("check", "--provider=aws", "--json", exits=2)
    assert not json.loads(said.stdout)["ready"], "one JSON object, and the error beside it"
    assert "aws is not ready" in said.stderr


@pytest.mark.parametrize("flags", [[], ["--accelerator=t4"]], ids=["login", "quota"])
def test_a_cloud_that_does_not_answer_is_not_waited_for(cloudgan_here, clouds, monkeypatch, flags):
    """The double stands for an SDK that retries for minutes while no packet comes back."""
    monkeypatch.setattr("cloudgan.launch.operations.check._CONTACT_SECONDS", 0.2)
    never = threading.Event()
    for cloud in clouds.values():
        monkeypatch.setattr(cloud, "identify", lambda: never.wait() or {}, raising=False)
    found = cloudgan_here("check", *flags, "--json", exits=2).json()
    for name, one in found["clouds"].items():
        assert one["findings"][0]["message"] == f"{name} did not answer within 0 s; try again"
    never.set()


def test_quota_is_checked_for_the_requested_offer(cloudgan_here, clouds):
    cloud = clouds["gcp"]
    cloud.findings += (QUOTA,)
    flags = ("--provider=gcp", "--accelerator=t4", "--nodes=2", "--market=spot")
    said = cloudgan_here("check", *flags, "--region=us-central1", exits=2)
    assert QUOTA.message in said.stdout
    assert cloud.asked("check") == ["us-central1"]
    assert not cloud.there, "no resource was created"


def test_a_node_type_that_a_cloud_lacks_is_missing_and_its_login_is_checked(cloudgan_here, clouds):
    said = cloudgan_here("check", "--provider=aws", "--accelerator=TPU-v3:8", exits=2)
    assert "✗ AWS   offer: no price is known for TPU-v3:8 on aws" in said.stdout
    assert "login" not in said.stdout, "what is fine is shown with -v"


def test_a_region_without_the_node_type_is_missing(cloudgan_here, clouds, monkeypatch):
    def resolve_placeholders(plan):
        raise PlanError("us-central1 has no T4")

    monkeypatch.setattr(clouds["gcp"], "resolve_placeholders", resolve_placeholders)
    said = cloudgan_here("check", "--provider=gcp", "--accelerator=t4", exits=2)
    assert "✗ GCP   target: us-central1 has no T4\n" in said.stdout


def test_a_reservation_is_checked_by_its_cloud_and_a_refusal_is_missing(
    cloudgan_here, clouds, monkeypatch
):
    asked = []

    def resolve_placeholders(plan):
        asked.append(plan.node_pool.reservation)
        raise PlanError("reservation week is of g2-standard-4, and the run needs more")

    monkeypatch.setattr(clouds["gcp"], "resolve_placeholders", resolve_placeholders)
    flags = ("--provider=gcp", "--region=us-central1", "--reservation=week")
    said = cloudgan_here("check", *flags, "--accelerator=h100:8", exits=2)
    assert "reservation week is of g2-standard-4" in said.stdout
    assert asked == ["week"]
    assert "give --provider and --accelerator" in cloudgan_here("check", *flags, exits=2).stderr


def test_the_age_of_a_price_is_shown_and_an_old_one_has_status_unknown(cloudgan_here, clouds):
    found = cloudgan_here("check", "--provider=gcp", "--accelerator=v100", "--json").json()
    price = found["clouds"]["gcp"]["findings"][-1]
    assert price["subject"].startswith("price of gcp/")
    assert "USD/h per node" in price["message"]
    if price["status"] == "unknown":
        assert "cloudgan prices refresh --provider=gcp" in price["message"]
