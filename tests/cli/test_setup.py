"""`cloudgan setup`: creates the resources of an account, changes nothing the second time, and deletes them."""

from dataclasses import replace

import pytest

from cloudgan.storage.store import open_store
from launch.lifecycle.cloud_double import REGION

pytestmark = pytest.mark.usefixtures("user_folder", "impatient")

BUCKET, IDENTITY = f"gcp-{REGION}", "cloudgan-pods"
SETUP = ("setup", "--provider=gcp", "--yes")
TEARDOWN = (*SETUP, "--teardown")


def test_a_dry_run_needs_no_login(cloudgan_here, cloud):
    cloud.has_no_login = True
    said = cloudgan_here("setup", "--provider=gcp", "--dry-run").stdout
    assert "bucket gcp-us-central1" in said
    found = cloudgan_here("setup", "--provider=gcp", "--dry-run", "--json").json()
    assert [step["ensure"] for step in found["steps"]][1] == "identity cloudgan-pods"
    assert found["steps"][0]["path"] == f"https://cloud.example/{BUCKET}"
    assert not cloud.there


def test_missing_resources_are_created_once_after_confirmation(cloudgan_here, cloud):
    said = cloudgan_here("setup", "--provider=gcp", exits=3)
    assert "Create what is missing in gcp lab-1, us-central1?" in said.stderr
    assert not cloud.there
    first = cloudgan_here(*SETUP, "--json").json()
    assert first["created"] == [f"bucket {BUCKET}", f"identity {IDENTITY}"]
    assert set(cloud.there) == {BUCKET, IDENTITY}
    del cloud.there[IDENTITY]
    assert "✓ gcp lab-1, us-central1 is ready: 1 created, 1 existed" in cloudgan_here(*SETUP).stdout
    assert cloudgan_here(*SETUP, "--json").json()["created"] == []


def test_a_teardown_removes_what_no_run_owns_and_leaves_the_bucket(cloudgan_here, cloud):
    cloudgan_here(*SETUP)
    cloud.add("cluster", "cloudgan")
    said = cloudgan_here("setup", "--provider=gcp", "--teardown", exits=3)
    assert "Delete 2 resources of gcp lab-1 in all regions?" in said.stderr
    assert not cloud.deleted
    said = cloudgan_here(*TEARDOWN, "--dry-run").stdout
    assert "would delete: cluster cloudgan" in said
    assert not cloud.deleted
    said = cloudgan_here(*TEARDOWN).stdout
    assert f"bucket {BUCKET} is kept" in said
    assert cloud.deleted == ["cloudgan", IDENTITY], "by rank"
    assert set(cloud.there) == {BUCKET}
    assert "no resource without a run exists" in cloudgan_here(*TEARDOWN).stdout


@pytest.mark.parametrize("state", ["starting", "started", "removing"])
def test_a_teardown_is_refused_while_a_run_is_open(cloudgan_here, cloud, provisioned, state):
    cloudgan_here(*SETUP)
    provisioned("gan", state)
    said = cloudgan_here(*TEARDOWN, "--purge", exits=2)
    assert "runs are open: gan" in said.stderr
    assert "cloudgan down gan --provider=gcp" in said.stderr
    assert not cloud.deleted


def test_a_teardown_is_refused_while_a_run_has_resources(cloudgan_here, cloud):
    cloudgan_here(*SETUP)
    cloud.add("pool", "cloudgan/gan", "gan")
    assert "runs are open: gan" in cloudgan_here(*TEARDOWN, exits=2).stderr
    assert not cloud.deleted


def test_a_purge_asks_before_it_empties_a_bucket(cloudgan_here, cloud, provisioned, monkeypatch):
    cloudgan_here(*SETUP)
    plan = provisioned("gan", "starting", "removed")
    store = open_store(plan.store)
    store.put("data/showers.h5", b"x" * 2**20)
    asked = []

    def answer(question, *, yes):
        asked.append(question)

    monkeypatch.setattr("cloudgan.cli.execution.confirm", answer)
    cloudgan_here("setup", "--provider=gcp", "--teardown", "--purge")
    assert len(asked) == 2
    assert "has 3 files, 1.0 MiB of gan: delete them permanently?" in asked[1]
    assert store.list() == ()
    assert not cloud.there


def test_another_region_keeps_its_own_and_what_is_of_all_regions(cloudgan_here, cloud, provisioned):
    cloudgan_here(*SETUP)
    cloud.add("bucket", "gcp-europe-west4", region="europe-west4")
    cloud.add("cluster", "europe/cloudgan", region="europe-west4-b")
    cloud.add("identity", IDENTITY, region="")
    provisioned("gan", "started")
    said = cloudgan_here("setup", "--provider=gcp", "--teardown", "--region=europe-west4", exits=3)
    assert "Delete 1 resource of gcp lab-1 in europe-west4?" in said.stderr
    cloudgan_here(*TEARDOWN, "--region=europe-west4", "--purge")
    assert set(cloud.there) == {BUCKET, IDENTITY}, "a run of another region does not prevent it"


def test_the_parent_of_a_kept_bucket_stays(cloudgan_here, cloud):
    """Like a resource group of Azure, whose deletion deletes all that is in it."""
    cloudgan_here(*SETUP)
    cloud.add("bucket", "group", labels={"cloudgan-shared": "group"}, deletion_order=90)
    cloud.add("bucket", "role", labels={"cloudgan-shared": "role"}, deletion_order=90)
    cloud.there[BUCKET] = replace(cloud.there[BUCKET], parent="group")
    cloudgan_here(*TEARDOWN)
    assert set(cloud.there) == {BUCKET, "group"}
    cloudgan_here(*TEARDOWN, "--purge")
    assert not cloud.there
