"""`cloudgan doctor`: existing resources, the runs that need them, their cost, and the deletion of orphaned ones only."""

import json
import re

import pytest

from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.core.labels import EXPIRES
from cloudgan.schema import plan as plans
from cloudgan.storage.store import StoreError, open_store
from launch.lifecycle.cloud_double import (
    REGION,
    JobDouble,
    installed,
)

pytestmark = pytest.mark.usefixtures("impatient")

LONG_AGO = "2026-01-01T12:00:00+00:00"
KIND = {"node_type": "n1-standard-8+1xT4", "market": "spot", "nodes": 2, "parent": "cloudgan"}


@pytest.fixture
def account(cloud, user_folder, provisioned):
    """An account with a bucket, a cluster and a run whose state the test sets."""
    cloud.add("bucket", f"gcp-{REGION}", is_free=True)
    cloud.add("cluster", "cloudgan", fee="GKE standard", created_at=LONG_AGO)
    cloud.api = JobDouble()

    def run(name, *states, store=None, **node_pool):
        plan = provisioned(name, *states, store=store, node_pool=node_pool)
        labels = plan.labels().as_dict() | {EXPIRES: "21001231t120000z"}
        cloud.add("pool", f"cloudgan/{name}", name, labels=labels, created_at=LONG_AGO, **KIND)
        return plan

    cloud.run = run
    return cloud


def seen(said):
    return {one["name"]: one["status"] for one in json.loads(said.stdout)["resources"]}


def test_an_empty_account_is_fine(cloudgan_here, cloud, user_folder):
    said = cloudgan_here("doctor", "--provider=gcp")
    assert "gcp: no resources of cloudgan in lab-1" in said.stdout


def test_an_orphaned_resource_is_listed_with_its_cost_and_its_command(
    cloudgan_here, account, tmp_path
):
    plan = account.run("gan", "starting", "started")
    open_store(plan.store).put("runs/gan/checkpoints/one", b"x" * 2**20)
    said = cloudgan_here("doctor", "--provider=gcp", exits=4)
    (line,) = (line for line in said.stdout.splitlines() if "pool cloudgan/gan  " in line)
    assert "✗ orphaned" in line
    assert "pool cloudgan/gan: run gan has no Job (absent)" in said.stdout
    assert "cloudgan down gan --provider=gcp" in line
    assert re.search(r"2 orphaned resources, \d+\.\d\d USD per day; .*--delete", said.stderr)
    found = cloudgan_here("doctor", "--provider=gcp", "--json", exits=4).json()
    pool = next(one for one in found["resources"] if one["run"] == "gan")
    assert pool["usd_per_day"] > 1
    assert found["usd_per_day_orphaned"] == {
        "known_usd": pytest.approx(pool["usd_per_day"] + 2.4),
        "unknown": [],
    }
    (folder,) = found["folders"]
    assert folder["bytes"] > 2**20
    assert folder["usd_per_month"] == pytest.approx(folder["bytes"] / 2**30 * 0.02)
    assert "--purge" in folder["remove"]
    assert not account.deleted, "a survey deletes nothing"


def test_orphaned_resources_are_deleted_after_confirmation_and_others_stay(cloudgan_here, account):
    account.run("gan", "starting", "started")
    account.run("other", "starting", "started")
    account.api.active.add("other")
    said = cloudgan_here("doctor", "--provider=gcp", "--delete", exits=3)
    assert "Delete 1 orphaned resource?" in said.stderr
    assert not account.deleted
    cloudgan_here("doctor", "--provider=gcp", "--delete", "--yes")
    assert account.deleted == ["cloudgan/gan"]
    assert {"cloudgan/other", "cloudgan"} < set(account.there)


def test_the_cluster_is_deleted_with_its_last_run_and_the_bucket_stays(cloudgan_here, account):
    account.run("gan", "starting", "started")
    account.lingers = 3
    account.refuses = {"cloudgan": 2}
    said = cloudgan_here("doctor", "--provider=gcp", "--delete", "--yes", "--json")
    assert json.loads(said.stdout)["orphaned"] == 0
    assert list(account.there) == [f"gcp-{REGION}"]
    assert account.deleted == ["cloudgan/gan", "cloudgan"]


def test_a_run_without_desired_state_is_deleted_only_if_its_cluster_reports_its_end(
    cloudgan_here, account
):
    account.run("gan")
    account.api.active.add("gan")
    assert seen(cloudgan_here("doctor", "--provider=gcp", "--json"))["cloudgan/gan"] == "expected"
    account.api.active.clear()
    said = cloudgan_here("doctor", "--provider=gcp", "--json", exits=4)
    assert seen(said)["cloudgan/gan"] == "orphaned"
    found = json.loads(said.stdout)["resources"]
    assert {one["remove"] for one in found if one["run"]} == {
        "cloudgan doctor --delete --provider=gcp"
    }, "`down` needs the desired state"
    cloudgan_here("doctor", "--provider=gcp", "--delete", "--yes")
    assert "cloudgan/gan" not in account.there


def test_a_runs_own_store_is_read_if_it_is_named_or_known(
    cloudgan_here, account, user_folder, tmp_path
):
    own = str(tmp_path / "own")
    plan = account.run("gan", "starting", store=own)
    there = account.there.pop("cloudgan/gan")
    account.add("pool", "cloudgan/gan", "gan", labels=there.labels, **KIND)
    said = cloudgan_here("doctor", "--provider=gcp", "--json")
    assert seen(said)["cloudgan/gan"] == "unknown", "it may be starting"
    said = cloudgan_here("doctor", "--provider=gcp", f"--store={own}", "--json")
    found = json.loads(said.stdout)["resources"]
    assert f"cloudgan down gan --provider=gcp --store={own}" in {one["remove"] for one in found}
    assert seen(said)["cloudgan/gan"] == "expected"
    plans.write(user_folder / "runs" / "gan" / "plan.json", plan)
    said = cloudgan_here("doctor", "--provider=gcp", "--json")
    assert seen(said)["cloudgan/gan"] == "expected"


def test_a_run_that_starts_during_the_confirmation_stays(cloudgan_here, account, monkeypatch):
    account.run("gan", "starting", "started")

    def answer(question, *, yes):
        account.api.active.add("gan")

    monkeypatch.setattr("cloudgan.cli.execution.confirm", answer)
    said = cloudgan_here("doctor", "--provider=gcp", "--delete")
    assert "run gan is active or its state is unknown" in said.stderr
    assert not account.deleted, "nor the cluster that it uses"


def test_an_unknown_price_makes_the_total_a_lower_bound(cloudgan_here, account):
    account.run("gan", "started")
    account.add(
        "pool", "cloudgan/gan", "gan", **KIND | {"node_type": "n1-moon"}, created_at=LONG_AGO
    )
    said = cloudgan_here("doctor", "--provider=gcp", exits=4)
    assert "total: 2.40 USD, plus cloudgan/gan (unknown) per day" in said.stdout


def test_unavailable_clouds_are_listed_and_none_available_is_an_error(
    cloudgan_here, account, monkeypatch, tmp_path
):
    others = [installed(monkeypatch, tmp_path, name) for name in ("aws", "azure")]
    for other in others:
        other.has_no_login = True
    account.there.clear()
    said = cloudgan_here("doctor")
    assert "aws could not be queried: " in said.stdout
    account.has_no_login = True
    said = cloudgan_here("doctor", "--json", exits=2)
    assert set(json.loads(said.stdout)["unavailable"]) == {"aws", "azure", "gcp"}
    assert "no cloud could be queried" in said.stderr


def test_the_run_of_an_unavailable_cluster_is_unknown(cloudgan_here, account):
    account.run("gan", "started")

    def away(path, *more):
        raise LaunchError("the cluster is away")

    account.api.get = away
    said = cloudgan_here("doctor", "--provider=gcp", "--delete", "--yes", "--json")
    assert seen(said) == {
        "cloudgan/gan": "unknown",
        "cloudgan": "expected",
        f"gcp-{REGION}": "expected",
    }
    assert not account.deleted


def test_a_zone_that_does_not_answer_is_listed_and_the_exit_code_is_4(cloudgan_here, cloud):
    cloud.silent = [f"{REGION}-f"]
    said = cloudgan_here("doctor", "--provider=gcp", exits=4)
    assert f"gcp: no answer from {REGION}-f; resources may be there: try again later" in said.stderr
    assert "gcp: no resources of cloudgan in the part of lab-1 that answered" in said.stdout
    found = cloudgan_here("doctor", "--provider=gcp", "--json", exits=4).json()
    assert found["silent"] == {"gcp": [f"{REGION}-f"]}


def test_a_cloud_that_does_not_answer_is_not_one_without_a_login(
    cloudgan_here, account, monkeypatch
):
    def away(run=None, regions=None):
        raise LaunchError("Google answered 503")

    account.list_resources = away
    said = cloudgan_here("doctor", "--provider=gcp", exits=4)
    assert "gcp: no answer from Google answered 503" in said.stderr


def test_a_cluster_is_not_orphaned_while_its_users_may_be_in_a_silent_zone(cloudgan_here, account):
    account.silent = [f"{REGION}-f"]
    said = cloudgan_here("doctor", "--provider=gcp", "--delete", "--yes", "--json", exits=4)
    assert seen(said)["cloudgan"] == "unknown"
    assert not account.deleted


@pytest.mark.parametrize("verb", ["down", "cancel"])
def test_the_end_of_a_run_is_not_proven_where_a_zone_does_not_answer(cloudgan_here, account, verb):
    account.run("gan", "starting", "started")
    account.silent = [f"{REGION}-f"]
    said = cloudgan_here(verb, "gan", "--provider=gcp", exits=4)
    assert f"no answer from {REGION}-f" in said.stderr
    assert "run `cloudgan down gan` again" in said.stderr
    assert "nothing to delete" not in said.stdout
    assert "cloudgan/gan" not in account.there, "what answers is deleted"


@pytest.mark.parametrize("verb", ["down", "cancel"])
def test_an_expired_login_during_a_deletion_is_exit_code_4_and_names_what_remains(
    cloudgan_here, account, verb
):
    account.run("gan", "starting", "started")
    account.fails["cloudgan/gan"] = CredentialsError("this login has expired; log in again")
    said = cloudgan_here(verb, "gan", "--provider=gcp", exits=4)
    assert "pool cloudgan/gan: this login has expired; log in again" in said.stderr
    assert "cloudgan" not in account.there, "the cluster bills too"


def test_a_run_is_not_denied_where_a_region_does_not_answer(cloudgan_here, account):
    account.silent = ["europe-west4-a"]
    said = cloudgan_here("down", "gan", "--provider=gcp", exits=4)
    assert "no answer from europe-west4-a, where run gan may be" in said.stderr


def test_a_run_of_a_store_that_cannot_be_read_is_unknown(cloudgan_here, account, monkeypatch):
    account.run("gan")
    monkeypatch.setattr(
        "cloudgan.storage.folder.FolderStore.list",
        lambda self, prefix="": (_ for _ in ()).throw(
            StoreError("the bucket is of another project")
        ),
    )
    said = cloudgan_here("doctor", "--provider=gcp", "--delete", "--yes", "--json")
    assert seen(said)["cloudgan/gan"] == "unknown", "its nodes may wait for the next run"
    assert not account.deleted


def test_a_teardown_deletes_nothing_while_a_region_does_not_answer(cloudgan_here, account):
    account.silent = ["europe-west4-a"]
    said = cloudgan_here("setup", "--teardown", "--provider=gcp", "--yes", exits=4)
    assert "no answer from europe-west4-a" in said.stderr
    assert not account.deleted
