"""`cloudgan setup`: what an account needs once, made twice without harm, and removed."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from auditing.cloud_double import PROJECT, REGION, RulesDouble
from cloudgan.core.plan import Rental
from cloudgan.launching.intents import Intents
from cloudgan.stores import open_store

BUCKET, IDENTITY = f"cloudgan-{PROJECT}-{REGION}", "cloudgan-pods"
SETUP = ("setup", "--provider=gcp", "--yes")
TEARDOWN = (*SETUP, "--teardown")


@pytest.fixture(autouse=True)
def impatient(user_folder, monkeypatch):
    """Nothing that is removed here takes five seconds."""
    monkeypatch.setattr("time.sleep", lambda seconds, sleep=time.sleep: sleep(min(seconds, 0.001)))


@pytest.fixture
def started(plan_of, tmp_path):
    """Notes that somebody means a run to be in these states, one after the other."""

    def note(*states):
        rules = RulesDouble(tmp_path / "buckets")
        place = rules.place(PROJECT, REGION, None, None)
        plan = plan_of(
            place=place.model_dump(),
            store=rules.store(place),
            rental=Rental(node_type="n1-standard-8+1xT4", market="spot", pool="gan"),
            requests=lambda plan: (),
        )
        for state in states:
            Intents(open_store(plan.store), "another machine").write(plan, state)
        return plan

    return note


def test_a_dry_run_needs_no_login(cloudgan_here, cloud):
    cloud.nobody = True
    said = cloudgan_here("setup", "--provider=gcp", "--dry_run").stdout
    assert "bucket cloudgan-<project>-us-central1" in said
    assert "POST https://cloud.example/buckets" in said
    found = json.loads(cloudgan_here("setup", "--provider=gcp", "--dry_run", "--json").stdout)
    assert [step["ensure"] for step in found["steps"]][1] == "identity cloudgan-pods"
    assert not cloud.there


def test_what_is_missing_is_made_after_a_question_and_made_once(cloudgan_here, cloud):
    said = cloudgan_here("setup", "--provider=gcp", exits=3)
    assert "Make what of this is missing in gcp lab-1, us-central1?" in said.stderr
    assert not cloud.there
    first = json.loads(cloudgan_here(*SETUP, "--json").stdout)
    assert first["made"] == [f"bucket {BUCKET}", f"identity {IDENTITY}"]
    assert set(cloud.there) == {BUCKET, IDENTITY}
    del cloud.there[IDENTITY]
    assert "1 made, 1 were there" in cloudgan_here(*SETUP).stdout
    assert json.loads(cloudgan_here(*SETUP, "--json").stdout)["made"] == []


def test_whose_account_has_to_be_said(cloudgan_here, cloud):
    assert "Give --provider=" in cloudgan_here("setup", "--dry_run", exits=2).stderr
    assert "--teardown" in cloudgan_here(*SETUP, "--purge", exits=2).stderr


def test_a_teardown_removes_what_no_run_owns_and_leaves_the_bucket(cloudgan_here, cloud):
    cloudgan_here(*SETUP)
    cloud.add("cluster", "cloudgan")
    said = cloudgan_here("setup", "--provider=gcp", "--teardown", exits=3)
    assert "Remove 2 from gcp lab-1" in said.stderr
    assert not cloud.deleted
    said = cloudgan_here(*TEARDOWN, "--dry_run").stdout
    assert "would go: cluster cloudgan" in said
    assert not cloud.deleted
    said = cloudgan_here(*TEARDOWN).stdout
    assert f"bucket {BUCKET} stays" in said
    assert cloud.deleted == ["cloudgan", IDENTITY], "by rank"
    assert set(cloud.there) == {BUCKET}
    assert "nothing is there that no run owns" in cloudgan_here(*TEARDOWN).stdout


@pytest.mark.parametrize("state", ["starting", "started", "removing"])
def test_a_teardown_is_refused_while_a_run_is_open(cloudgan_here, cloud, started, state):
    cloudgan_here(*SETUP)
    started(state)
    said = cloudgan_here(*TEARDOWN, "--purge", exits=2)
    assert "runs are open: gan" in said.stderr
    assert "cloudgan down gan --provider=gcp" in said.stderr
    assert not cloud.deleted


def test_a_teardown_is_refused_while_a_thing_of_a_run_is_there(cloudgan_here, cloud):
    cloudgan_here(*SETUP)
    cloud.add("pool", "cloudgan/gan", "gan")
    assert "runs are open: gan" in cloudgan_here(*TEARDOWN, exits=2).stderr
    assert not cloud.deleted


def test_a_purge_asks_before_it_loses_what_runs_left(cloudgan_here, cloud, started, monkeypatch):
    cloudgan_here(*SETUP)
    plan = started("starting", "removed")
    store = open_store(plan.store)
    store.put("data/showers.h5", b"x" * 2**20)
    asked = []

    def answer(question, *, yes):
        asked.append(question)

    monkeypatch.setattr("cloudgan.cli.setup.confirm", answer)
    cloudgan_here("setup", "--provider=gcp", "--teardown", "--purge")
    assert len(asked) == 2
    assert "holds 3 files, 1.0 MiB of gan: lose them for ever?" in asked[1]
    assert store.list() == ()
    assert not cloud.there


def test_another_region_keeps_its_own_and_what_is_of_all_regions(cloudgan_here, cloud, started):
    cloudgan_here(*SETUP)
    cloud.add("bucket", f"cloudgan-{PROJECT}-europe-west4", region="europe-west4")
    cloud.add("cluster", "europe/cloudgan", region="europe-west4-b")
    cloud.add("identity", IDENTITY, region="")
    started("started")
    cloudgan_here(*TEARDOWN, "--region=europe-west4", "--purge")
    assert set(cloud.there) == {BUCKET, IDENTITY}, "a run of another region is in nobody's way"


def test_what_holds_a_bucket_stays_with_it(cloudgan_here, cloud):
    """As a resource group of Azure, which takes all that is in it along."""
    cloudgan_here(*SETUP)
    cloud.add("bucket", "group", labels={"cloudgan-shared": "group"}, rank=90)
    cloud.add("bucket", "role", labels={"cloudgan-shared": "role"}, rank=90)
    cloud.there[BUCKET] = replace(cloud.there[BUCKET], parent="group")
    cloudgan_here(*TEARDOWN)
    assert set(cloud.there) == {BUCKET, "group"}
    cloudgan_here(*TEARDOWN, "--purge")
    assert not cloud.there
