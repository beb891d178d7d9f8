"""`deploy` without a running job: confirmation, refusals, existing runs, prices."""

import datetime as dt
import hashlib
import json
import re
from dataclasses import dataclass

import pytest

from cli.provisioned import RUN, showers_in_bucket
from cloudgan.core import settings
from cloudgan.core.clock import utc_today
from cloudgan.core.errors import CredentialsError, OpenPortsError
from cloudgan.launch.backends.run_document import read_plan
from cloudgan.launch.kubernetes.manifests import PROBE, run_yaml
from cloudgan.money.catalog import load_catalog, write_refreshed
from cloudgan.schema.plan import Plan
from cloudgan.schema.run_state import RunState
from cloudgan.storage.folder import FolderStore
from cloudgan.storage.store import (
    BucketMissingError,
    ObjectMissingError,
    StoreCredentialsError,
    StoreError,
)
from launch.lifecycle.place_double import PlaceDouble
from money.refresh.conftest import lists as prices_server
from records import heartbeat

FLAGS = (
    "--provider=kubernetes",
    "--store=s3://lab/cloudgan",
    "--data=s3://lab/cloudgan/data/x",
    "--image=lab/gan:1",
    "--name=gan",
    "--preset=smoke",
)
DEPLOY = ("deploy", *FLAGS)


@pytest.fixture
def cluster(user_folder, monkeypatch, tmp_path):
    """A cluster that records its requests, and a bucket with showers."""
    double = PlaceDouble()
    showers_in_bucket(monkeypatch, tmp_path / "showers")
    monkeypatch.setattr(
        "cloudgan.launch.operations.deployment.open_backend", lambda place, say, **_: double
    )
    return double


@pytest.fixture
def store(tmp_path, monkeypatch):
    """The folder that replaces the bucket."""
    found = FolderStore(tmp_path / "bucket")
    monkeypatch.setattr("cloudgan.launch.lifecycle.run_results.open_store", lambda url: found)
    return found


def left_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def planned(cloudgan_here, *more):
    return Plan.model_validate_json(cloudgan_here("plan", *FLAGS, *more, "--json").stdout)


def trained(store, plan, exit_code=0, config=None):
    """Writes the files that the chief worker leaves when it ends."""
    digest = hashlib.sha256((config or run_yaml(plan)).encode()).hexdigest()[:16]
    beat = heartbeat(config_hash=digest, phase="ended", exit_code=exit_code)
    store.put("runs/gan/heartbeat.json", beat.model_dump_json().encode())
    store.put("runs/gan/plan.json", plan.model_dump_json().encode())
    store.put("runs/gan/record.jsonl", b"{}\n")


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_dry_run_is_the_plan(cloudgan_here, cluster, user_folder, form):
    dry, plan = (
        re.sub(r"\d{8}t\d{6}z", "a second", cloudgan_here(*verb, *FLAGS, *form).stdout)
        for verb in (("deploy", "--dry-run"), ("plan",))
    )
    assert dry == plan
    assert (cluster.calls, cluster.made, left_in(user_folder)) == ([], [], [])


def test_the_showers_of_a_bucket_are_counted_before_anything_starts(
    cloudgan_here, cluster, store, user_folder
):
    price = "--price-as=gcp/n1-standard-8+1xT4/us-central1/on_demand"
    limits = ("--epochs=1000", price, "--budget-usd=0.5", "--max-hours=0.2")
    before = planned(cloudgan_here, *limits)  # refuses no limit, since it asks no bucket
    assert "assume 124,987, as in the paper" in " ".join(before.warnings)
    assert before.forecast.low_seconds > before.limits.deadline_seconds
    cloudgan_here(*DEPLOY, *limits, "--yes", "--detach")
    started = read_plan(user_folder / "runs" / "gan" / "plan.json", "gan")
    assert started.showers.records == 8
    assert started.forecast.low_seconds < before.forecast.low_seconds / 10
    assert "as in the paper" not in " ".join(started.warnings)


@dataclass(frozen=True)
class _Failing:
    """The bucket of --data, in which nothing can be read."""

    error: Exception
    url: str = "s3://lab/cloudgan/data/x"

    def read(self, name):
        raise self.error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ObjectMissingError("none"), "s3://lab/cloudgan/data/x holds no complete store"),
        (BucketMissingError("there is no bucket lab"), "there is no bucket lab"),
        (StoreCredentialsError("no login"), "the showers were not counted: no login"),
        (StoreError("no network"), "the showers were not counted: no network"),
    ],
)
@pytest.mark.usefixtures("store")
def test_a_bucket_without_showers_starts_nothing_and_one_that_is_silent_is_not_empty(
    cloudgan_here, cluster, monkeypatch, error, said
):
    bucket = "cloudgan.storage.bucket_showers.open_store"
    monkeypatch.setattr(bucket, lambda url: _Failing(error))
    is_silent = "not counted" in said
    done = cloudgan_here(*DEPLOY, "--yes", "--detach", exits=0 if is_silent else 2)
    assert said in done.stderr
    assert bool(cluster.made) == is_silent


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_without_a_terminal_nothing_is_sent_and_nothing_is_written(
    cloudgan_here, cluster, store, user_folder, form
):
    said = cloudgan_here(*DEPLOY, *form, exits=3)
    assert "Start 1 worker in kubernetes (context lab, namespace cloudgan)?" in said.stderr
    assert "add --yes" in said.stderr
    assert cluster.calls == [("check", "gan")], "it only looked"
    assert (cluster.made, store.list(), left_in(user_folder)) == ([], (), [])
    if form:
        assert json.loads(said.stdout)["exit_code"] == 3


def test_a_cluster_that_leaves_ports_open_ends_a_deploy_with_2(cloudgan_here, cluster, store):
    def refuse(when, step):
        if step.method == PROBE:
            raise OpenPortsError("open; pass --allow-open-ports")

    cluster.interrupt = refuse
    said = cloudgan_here(*DEPLOY, "--nodes=2", "--yes", exits=2)
    assert said.stderr.splitlines()[-1] == "cloudgan: open; pass --allow-open-ports"
    assert "Job gan" not in [step.ensure for step in cluster.made], "no worker was started"
    cloudgan_here(*DEPLOY, "--nodes=2", "--allow-open-ports", "--yes", "--detach")


def test_a_started_run_can_be_left_alone(cloudgan_here, cluster, store, user_folder):
    said = cloudgan_here(*DEPLOY, "--yes", "--detach", "--json").json()
    assert (said["run"], said["state"], said["usd"]) == ("gan", "started", None)
    plan = planned(cloudgan_here)
    assert [step.ensure for step in cluster.made] == [step.ensure for step in plan.steps]
    here = user_folder / "runs" / "gan"
    assert {"run.yaml", "plan.json", "launch.json"} <= {path.name for path in here.iterdir()}
    assert "runs/gan/plan.json" in store.list(), "another machine finds the desired state"
    again = cloudgan_here(*DEPLOY, "--yes", "--detach", "--json").json()
    assert again == said
    assert len(cluster.made) == len(plan.steps), "and it was made once"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (CredentialsError("log in again"), 2, "cloudgan: log in again; "),
        (StoreError("s3://x: no answer"), 1, "cloudgan: s3://x: no answer; "),
    ],
    ids=["Ctrl-C", "login", "store"],
)
def test_what_ends_the_following_of_a_run_leaves_it_alone_and_says_so(
    *, cloudgan_here, cluster, store, error, code, said
):
    def fail(seconds):
        raise error

    cluster.passes = fail
    done = cloudgan_here(*DEPLOY, "--yes", exits=code).stderr
    assert f"{said}run gan continues; `cloudgan status gan`" in done
    assert ("stop", "gan") not in cluster.calls


def test_a_run_that_failed_ends_the_command_with_what_to_type(cloudgan_here, cluster, store):
    cluster.states = [RunState("absent")] * 2 + [
        RunState(
            "failed", reason="worker 0: it ended with exit code 1", ended_at="2026-11-21T12:00:00Z"
        )
    ]
    said = cloudgan_here(*DEPLOY, "--yes", exits=1)
    assert "run gan failed: worker 0: it ended with exit code 1" in said.stderr


def test_another_run_of_this_name_is_refused_before_anything_is_written(
    cloudgan_here, cluster, store, user_folder
):
    cluster.meant = planned(cloudgan_here, "--epochs=9")
    said = cloudgan_here(*DEPLOY, "--yes", exits=2)
    assert "exists with other settings (there, requested: epochs: 9, " in said.stderr
    assert (cluster.made, store.list(), left_in(user_folder)) == ([], (), [])


def test_a_finished_run_prints_its_result_and_starts_nothing(
    cloudgan_here, cluster, store, user_folder
):
    plan = planned(cloudgan_here)
    trained(store, plan)
    for cluster.meant, cluster.over in ((plan, "finished"), (None, "")):
        said = cloudgan_here(*DEPLOY, "--json").json()
        assert said["state"] == "finished"
        assert said["record"] == "runs/gan/record.jsonl"
    assert (cluster.made, cluster.calls) == ([], [])
    assert (user_folder / "runs" / "gan" / "record.jsonl").read_bytes() == b"{}\n"


@pytest.mark.parametrize("how", ["failed", "other settings", "an earlier run's heartbeat"])
def test_a_run_that_did_not_finish_is_not_taken_for_one_that_did(
    cloudgan_here, cluster, store, how
):
    plan = planned(cloudgan_here)
    if how == "failed":
        trained(store, plan, exit_code=1)
    elif how == "other settings":
        trained(store, planned(cloudgan_here, "--epochs=9"))
    else:
        trained(store, plan, config=run_yaml(planned(cloudgan_here, "--epochs=9")))
    cloudgan_here(*DEPLOY, exits=3)
    assert cluster.calls == [("check", "gan")], "it would begin"


# `deploy` with an old price: it queries the cloud first, then asks the user


AZURE = ("--provider=azure", "--accelerator=a100", "--market=on_demand", "--region=eastus")
NODE = "Standard_NC24ads_A100_v4"
OFFER = f"azure/{NODE}/eastus/on_demand"


@pytest.fixture
def own_prices(tmp_path, monkeypatch):
    """A data folder of the test; returns a function that writes one price into it."""
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path / "data"))

    def write(days_old, usd_per_hour=3.0):
        row = load_catalog().row(OFFER)
        date = "unknown"
        if days_old is not None:
            date = (utc_today() - dt.timedelta(days=days_old)).isoformat()
        fresh = row.model_copy(update={"date": date, "usd_per_hour": usd_per_hour})
        write_refreshed(settings.data_folder() / "prices", "azure", [fresh])

    return write


lists = prices_server
"""A fixture."""


@pytest.fixture
def azure_list(lists, monkeypatch):
    """A server with the protocol of Azure's list of prices; returns it, with one price on demand."""
    item = {
        "armSkuName": NODE,
        "armRegionName": "eastus",
        "type": "Consumption",
        "productName": "Virtual Machines NCadsA100v4 Series",
        "skuName": NODE,
        "meterName": NODE,
        "unitOfMeasure": "1 Hour",
        "retailPrice": 2.5,
        "currencyCode": "USD",
    }
    lists.answer = lambda _: lists.says(json.dumps({"Items": [item]}).encode())
    monkeypatch.setenv("CLOUDGAN_AZURE_PRICES_URL", lists.url)
    return lists


def typed(desk, *more, exits=0):
    data = f"--data={desk.folder / 'showers'}"
    out, aside = desk.type("deploy", data, f"--name={RUN}", *AZURE, *more, exits=exits)
    return " ".join((out + aside).split())


@pytest.mark.parametrize(("days", "expected"), [(None, "age unknown"), (120, "120 days old")])
def test_a_stale_or_undated_price_needs_its_own_flag(desk, own_prices, days, expected):
    own_prices(days)
    said = typed(desk, "--yes", exits=3)
    assert f"warning: the price of {OFFER} is of" in said
    assert expected in said
    assert "With such a price --yes needs --allow-stale-price" in said
    assert desk.doubles["azure"].made == []
    typed(desk, "--yes", "--allow-stale-price")
    assert desk.attempts()[0].end_reason == "finished"


def test_the_price_is_refreshed_and_the_plan_uses_it(desk, own_prices, azure_list):
    own_prices(None)
    said = typed(desk, "--yes")
    (attempt,) = desk.attempts()
    assert attempt.price_rows[0].usd_per_hour == 2.5
    assert attempt.price_rows[0].date == utc_today().isoformat()
    assert re.search(r"1 x NC24ads_A100_v4 on demand .* 2\.50 ", said)
    assert {one.query["$filter"].count(NODE) for one in azure_list.asked} == {1}, "one node only"


def test_a_recent_price_needs_no_flag_if_its_list_is_unavailable_which_is_said_once(
    desk, own_prices
):
    own_prices(20)
    said = typed(desk, "--yes")
    assert desk.attempts()[0].end_reason == "finished"
    assert said.count("the price was not refreshed") == 1


def test_a_plan_refreshes_no_price(desk, own_prices, azure_list):
    own_prices(None)
    desk.type("plan", *AZURE)
    desk.type("deploy", *AZURE, "--dry-run")
    assert azure_list.asked == []


def test_the_total_and_the_question_with_account_and_place_are_last(desk, own_prices):
    own_prices(20)
    said = typed(desk, exits=3)
    assert re.search(
        r"total [\d.]+ to [\d.]+ USD, plus .*staging of wheels and data.*unknown", said
    )
    assert "Create 1 node in subscription lab-1, eastus" in said
    assert "add --yes. Nothing was started" in said
    assert "the price of" not in said


def test_without_a_known_duration_the_plan_names_the_maximum_cost(desk, own_prices):
    own_prices(20)
    said = typed(desk, "--max-steps=10", "--max-hours=2", "--budget-usd=50", exits=3)
    hourly = r"total unknown; [\d.]+ USD/h with all that bills by the hour"
    assert re.search(rf"{hourly}, at most [\d.]+ USD until its deadline", said)
    assert "limits 50 USD, 2 h at most" in said
    assert "0.00 USD" not in said, "unknown is never zero"


def test_an_unknown_price_is_stated_before_the_question(desk):
    data = f"--data={desk.folder / 'showers'}"
    flags = ("--provider=gcp", "--accelerator=n1-standard-8+1xV100", "--region=asia-east1")
    said = desk.type("deploy", data, *flags, "--allow-unknown-price", exits=3)[0]
    assert "total    unknown: these nodes have no known price in this region" in said
