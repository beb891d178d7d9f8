"""`cloudgan doctor`: what is there, who needs it, what it costs, and that only leftovers go."""

from __future__ import annotations

import json
import re
import time

import pytest

from auditing.cloud_double import PROJECT, REGION, JobDouble, RulesDouble, installed
from cloudgan.core import plan as plans
from cloudgan.core.plan import Rental
from cloudgan.launching.intents import Intents
from cloudgan.stores import open_store

LONG_AGO = "2026-01-01T12:00:00+00:00"
KIND = {"node_type": "n1-standard-8+1xT4", "market": "spot", "nodes": 2, "parent": "cloudgan"}


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Nothing that is removed here takes five seconds."""
    monkeypatch.setattr("time.sleep", lambda seconds, sleep=time.sleep: sleep(min(seconds, 0.001)))


@pytest.fixture
def account(cloud, user_folder, tmp_path, plan_of, monkeypatch):
    """An account with a bucket, a cluster and a run of which the test says how it is."""
    installed_rules = RulesDouble(tmp_path / "buckets")
    place = installed_rules.place(PROJECT, REGION, f"{REGION}-a", None)
    cloud.add("bucket", f"cloudgan-{PROJECT}-{REGION}", is_free=True)
    cloud.add("cluster", "cloudgan", fee="GKE standard", made=LONG_AGO)
    cloud.api = JobDouble()

    def run(name, *states, store=None, **rental):
        kind = {"node_type": KIND["node_type"], "market": "spot", "pool": name} | rental
        plan = plan_of(
            name=name,
            place=place.model_dump(),
            store=store or installed_rules.store(place),
            rental=Rental(**kind),
            requests=lambda plan: (),
        )
        for state in states:
            Intents(open_store(plan.store), "another machine").write(plan, state)
        labels = plan.labels().as_dict()
        cloud.add("pool", f"cloudgan/{name}", name, labels=labels, made=LONG_AGO, **KIND)
        return plan

    cloud.run = run
    return cloud


def seen(said):
    return {one["name"]: one["standing"] for one in json.loads(said.stdout)["things"]}


def test_an_empty_account_is_fine(cloudgan_here, cloud, user_folder):
    said = cloudgan_here("doctor", "--provider=gcp")
    assert "gcp: no things of cloudgan in lab-1" in said.stdout


def test_a_run_that_is_alive_is_expected_and_never_deleted(cloudgan_here, account):
    account.run("gan", "starting", "started")
    account.api.active.add("gan")
    said = cloudgan_here("doctor", "--provider=gcp", "--delete", "--yes", "--json")
    assert set(seen(said).values()) == {"expected"}
    assert not account.deleted


def test_what_a_run_left_is_told_with_its_cost_and_the_command(cloudgan_here, account, tmp_path):
    plan = account.run("gan", "starting", "started")
    open_store(plan.store).put("runs/gan/checkpoints/one", b"x" * 2**20)
    said = cloudgan_here("doctor", "--provider=gcp", exits=4)
    (line,) = (line for line in said.stdout.splitlines() if "pool cloudgan/gan" in line)
    assert "left behind" in line
    assert "run gan has no Job any more (absent)" in line
    assert "cloudgan down gan --provider=gcp" in line
    assert re.search(r"2 left behind, for \d+\.\d\d USD per day; .*--delete", said.stderr)
    found = json.loads(cloudgan_here("doctor", "--provider=gcp", "--json", exits=4).stdout)
    pool = next(one for one in found["things"] if one["run"] == "gan")
    assert pool["usd_per_day"] > 1
    assert found["usd_per_day_left"] == {
        "known_usd": pytest.approx(pool["usd_per_day"] + 2.4),
        "unknown": [],
    }
    (folder,) = found["folders"]
    assert folder["bytes"] > 2**20
    assert folder["usd_per_month"] == pytest.approx(folder["bytes"] / 2**30 * 0.02)
    assert "--purge" in folder["remove"]
    assert not account.deleted, "looking deletes nothing"


def test_leftovers_go_after_a_question_and_what_others_own_stays(cloudgan_here, account):
    account.run("gan", "starting", "started")
    account.run("other", "starting", "started")
    account.api.active.add("other")
    said = cloudgan_here("doctor", "--provider=gcp", "--delete", exits=3)
    assert "Delete 1 thing that no run needs?" in said.stderr
    assert not account.deleted
    cloudgan_here("doctor", "--provider=gcp", "--delete", "--yes")
    assert account.deleted == ["cloudgan/gan"]
    assert {"cloudgan/other", "cloudgan"} < set(account.there)


def test_the_last_run_takes_the_cluster_along_and_the_bucket_stays(cloudgan_here, account):
    account.run("gan", "starting", "started")
    account.lingers = 3
    account.refuses = {"cloudgan": 2}
    said = cloudgan_here("doctor", "--provider=gcp", "--delete", "--yes", "--json")
    assert json.loads(said.stdout)["left"] == 0
    assert list(account.there) == [f"cloudgan-{PROJECT}-{REGION}"]
    assert account.deleted == ["cloudgan/gan", "cloudgan"]


def test_what_is_half_deleted_is_waited_for(cloudgan_here, account):
    account.run("gan", "removing")
    account.delete(account.there["cloudgan/gan"])
    account.lingers = 2
    assert seen(cloudgan_here("doctor", "--provider=gcp", "--json", exits=4)) == {
        "cloudgan/gan": "leaving",
        "cloudgan": "left",
        f"cloudgan-{PROJECT}-{REGION}": "expected",
    }
    cloudgan_here("doctor", "--provider=gcp", "--delete", "--yes")
    assert "cloudgan/gan" not in account.there


def test_a_run_without_intent_is_asked_of_its_cluster_and_goes_only_if_it_is_over(
    cloudgan_here, account
):
    account.run("gan")
    account.api.active.add("gan")
    assert seen(cloudgan_here("doctor", "--provider=gcp", "--json"))["cloudgan/gan"] == "expected"
    account.api.active.clear()
    said = cloudgan_here("doctor", "--provider=gcp", "--json", exits=4)
    assert seen(said)["cloudgan/gan"] == "left"
    found = json.loads(said.stdout)["things"]
    assert {one["remove"] for one in found if one["run"]} == {
        "cloudgan doctor --delete --provider=gcp"
    }, "`down` needs an intent"
    cloudgan_here("doctor", "--provider=gcp", "--delete", "--yes")
    assert "cloudgan/gan" not in account.there


def test_a_store_of_ones_own_is_looked_at_where_it_is_named_or_remembered(
    cloudgan_here, account, user_folder, tmp_path
):
    own = str(tmp_path / "own")
    plan = account.run("gan", "starting", store=own)
    there = account.there.pop("cloudgan/gan")
    account.add("pool", "cloudgan/gan", "gan", labels=there.labels, **KIND)
    said = cloudgan_here("doctor", "--provider=gcp", "--json")
    assert seen(said)["cloudgan/gan"] == "unknown", "it may be starting"
    said = cloudgan_here("doctor", "--provider=gcp", f"--store={own}", "--json")
    found = json.loads(said.stdout)["things"]
    assert f"cloudgan down gan --provider=gcp --store={own}" in {one["remove"] for one in found}
    assert seen(said)["cloudgan/gan"] == "expected"
    plans.write(user_folder / "runs" / "gan" / "plan.json", plan)
    said = cloudgan_here("doctor", "--provider=gcp", "--json")
    assert seen(said)["cloudgan/gan"] == "expected"


def test_a_run_that_came_alive_between_the_question_and_the_answer_stays(
    cloudgan_here, account, monkeypatch
):
    account.run("gan", "starting", "started")

    def answer(question, *, yes):
        account.api.active.add("gan")

    monkeypatch.setattr("cloudgan.cli.doctor.confirm", answer)
    said = cloudgan_here("doctor", "--provider=gcp", "--delete")
    assert "run gan is alive by now" in said.stderr
    assert not account.deleted, "nor the cluster that it uses"


def test_an_unknown_price_makes_the_sum_at_least(cloudgan_here, account):
    account.run("gan", "started")
    account.add("pool", "cloudgan/gan", "gan", **KIND | {"node_type": "n1-moon"}, made=LONG_AGO)
    said = cloudgan_here("doctor", "--provider=gcp", exits=4)
    assert "at least 2.40 USD (unknown: cloudgan/gan) per day" in said.stdout


def test_clouds_that_cannot_be_asked_are_said_and_none_is_an_error(
    cloudgan_here, account, monkeypatch, tmp_path
):
    others = [installed(monkeypatch, tmp_path, name) for name in ("aws", "azure")]
    for other in others:
        other.nobody = True
    account.there.clear()
    said = cloudgan_here("doctor")
    assert "aws was not asked: " in said.stdout
    account.nobody = True
    said = cloudgan_here("doctor", "--json", exits=2)
    assert set(json.loads(said.stdout)["not_asked"]) == {"aws", "azure", "gcp"}
    assert "no cloud could be asked" in said.stderr


def test_a_cluster_that_does_not_answer_leaves_its_run_unknown(cloudgan_here, account):
    from cloudgan.core.errors import LaunchError

    account.run("gan", "started")

    def away(path, *more):
        raise LaunchError("the cluster is away")

    account.api.get = away
    said = cloudgan_here("doctor", "--provider=gcp", "--delete", "--yes", "--json")
    assert seen(said) == {
        "cloudgan/gan": "unknown",
        "cloudgan": "expected",
        f"cloudgan-{PROJECT}-{REGION}": "expected",
    }
    assert not account.deleted


def test_the_day_of_expiry_is_told(cloudgan_here, account):
    account.run("gan", "started")
    account.add(
        "pool",
        "cloudgan/gan",
        "gan",
        labels={"cloudgan-run": "gan", "cloudgan-expires": "20260101t000000z"},
        **KIND,
    )
    found = json.loads(cloudgan_here("doctor", "--provider=gcp", "--json", exits=4).stdout)
    assert "it expired on 2026-01-01" in {one["why"] for one in found["things"]}
