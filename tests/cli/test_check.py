"""`cloudgan check`: one table for all clouds, and nothing made."""

from __future__ import annotations

import json
import sys

import pytest

from auditing.cloud_double import installed
from cloudgan.core.errors import PlanError
from cloudgan.launching.cloud import Finding

QUOTA = Finding(
    "quota PREEMPTIBLE_NVIDIA_T4_GPUS in us-central1", "missing", "1 of 2; ask for 2 more"
)


@pytest.fixture
def clouds(monkeypatch, tmp_path):
    """All three."""
    return {name: installed(monkeypatch, tmp_path, name) for name in ("aws", "azure", "gcp")}


def test_without_any_login_each_cloud_has_one_helpful_line(cloudgan_here, clouds, monkeypatch):
    for cloud in clouds.values():
        cloud.nobody = True
    monkeypatch.setitem(sys.modules, "cloudgan.providers.aws.cloud", None)  # no SDK
    said = cloudgan_here("check", exits=2)
    lines = [line for line in said.stdout.splitlines() if "missing" in line]
    assert [line.split()[0] for line in lines] == ["aws", "azure", "gcp"]
    assert "pip install 'cloudgan[aws]'" in lines[0]
    assert "type: gcloud auth application-default login" in lines[2]
    assert "no cloud is ready" in said.stderr


def test_one_cloud_that_is_fine_is_enough_unless_another_was_named(cloudgan_here, clouds):
    clouds["aws"].nobody = clouds["azure"].nobody = True
    found = json.loads(cloudgan_here("check", "--json").stdout)
    assert found["fine"]
    assert [name for name, one in found["clouds"].items() if one["fine"]] == ["gcp"]
    cloudgan_here("check", "--provider=gcp")
    said = cloudgan_here("check", "--provider=aws", "--json", exits=2)
    assert not json.loads(said.stdout)["fine"], "one JSON object, and the error beside it"
    assert "aws is not ready" in said.stderr


def test_quota_is_asked_for_the_very_offer(cloudgan_here, clouds):
    cloud = clouds["gcp"]
    cloud.findings += (QUOTA,)
    flags = ("--provider=gcp", "--accelerator=t4", "--nodes=2", "--spot=always")
    said = cloudgan_here("check", *flags, "--region=us-central1", exits=2)
    assert QUOTA.says in said.stdout
    assert "price of gcp/n1-standard" in said.stdout
    assert cloud.asked == [("check", "check", "us-central1")]
    assert not cloud.there, "nothing was made"


def test_what_a_cloud_does_not_sell_is_missing_and_the_login_is_looked_at(cloudgan_here, clouds):
    said = cloudgan_here("check", "--provider=aws", "--accelerator=TPU-v3:8", exits=2)
    assert "no price is known of TPU-v3:8 on aws" in said.stdout
    assert "marie in project lab-1" in said.stdout


def test_a_place_that_does_not_serve_it_is_missing(cloudgan_here, clouds, monkeypatch):
    def known(plan):
        raise PlanError("us-central1 has no T4")

    monkeypatch.setattr(clouds["gcp"], "known", known)
    said = cloudgan_here("check", "--provider=gcp", "--accelerator=t4", exits=2)
    assert "us-central1 has no T4" in said.stdout
    assert "marie in project lab-1" in said.stdout


def test_a_region_without_a_cloud_is_refused(cloudgan_here, clouds):
    said = cloudgan_here("check", "--region=us-central1", exits=2)
    assert "add --provider=" in said.stderr


def test_the_price_says_how_old_it_is_and_an_old_one_is_not_known_to_hold(cloudgan_here, clouds):
    found = json.loads(
        cloudgan_here("check", "--provider=gcp", "--accelerator=v100", "--json").stdout
    )
    price = found["clouds"]["gcp"]["findings"][-1]
    assert price["subject"].startswith("price of gcp/")
    assert "USD/h per node" in price["says"]
    if price["verdict"] == "unknown":
        assert "cloudgan prices refresh --source=gcp" in price["says"]
