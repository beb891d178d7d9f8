"""A run on Cloud TPU from its start to its end, as `cloudgan deploy` goes about it."""

from __future__ import annotations

import gzip
import threading
import time

import pytest

from cloudgan.core.errors import CapacityError, LaunchError
from cloudgan.launching.following import Follower
from cloudgan.launching.ledger import Ledger
from cloudgan.launching.starting import start
from cloudgan.run_folder import RunFolder
from cloudgan.stores import open_store
from google_cloud.refusal import Refusal
from providers.gcp.tpu_lab import note, planned, provider, resolved, tpus

BEAT = """{"time": "2199-01-01T00:00:00+00:00", "configuration": "0123456789abcdef",
"phase": "training", "world": 1, "missing": [], "generation": 1, "restarts": 0, "epochs": 5}"""


@pytest.fixture
def google():
    with tpus() as made:
        yield made


@pytest.fixture
def store(tmp_path):
    return str(tmp_path / "store")


@pytest.fixture
def plan(store):
    """Its machines would need a bucket; what is tested here reads the store only."""
    there = resolved(planned(store="gs://lab/runs"))
    return there.model_copy(update={"store": store})


@pytest.fixture
def said():
    return []


@pytest.fixture
def run(google, store, said):
    return provider(google.server.url, store, said)


@pytest.fixture
def begin(plan, run, tmp_path, said):
    ledger = Ledger(RunFolder(tmp_path / "here"), plan)
    return lambda: start(plan, run, ledger, said.append)


def heard(store, plan):
    open_store(store).put(f"runs/{plan.run}/heartbeat.json", BEAT.encode())


def follow(run, plan, *, until=20.0):
    """Follows as `deploy` does; a run that never ends fails the test."""
    end = time.monotonic() + until

    def see(_):
        assert time.monotonic() < end

    return Follower(run, plan, lambda _: None, see).follow()


def later(action, *arguments):
    thread = threading.Timer(0.2, action, arguments)
    thread.daemon = True
    thread.start()


def test_a_run_starts_is_followed_to_its_end_and_leaves_nothing(google, run, plan, begin, store):
    assert begin() is True
    assert run.state("gan").phase == "starting"
    assert run.nodes("gan")[0].up is not None
    note(store, plan, "training")
    heard(store, plan)
    assert run.state("gan").phase == "running"
    assert begin() is False, "it runs"
    later(note, store, plan, "ended", 0)
    assert follow(run, plan).phase == "finished"
    assert list(run.release("gan", "finished"))
    assert not google.resources
    assert run.state("gan").phase == "finished"
    assert run.runs() == ("gan",)
    list(run.remove("gan"))
    assert run.runs() == ()


def test_a_machine_that_deleted_itself_is_no_loss(google, run, plan, begin, store):
    begin()
    note(store, plan, "ended", 0)
    google.turn("DELETING")
    assert run.state("gan").phase == "finished"
    google.resources.clear()
    google.nodes.clear()
    assert follow(run, plan).phase == "finished"


def test_no_capacity_ends_the_start_and_says_so(google, begin, run):
    google.has_capacity = False
    with pytest.raises(CapacityError):
        begin()
    list(run.release("gan", "failed"))
    assert not google.resources


@pytest.mark.parametrize("noticed_by", ["queue", "machine"])
def test_machines_that_were_taken_back_are_asked_for_again(google, plan, store, begin, noticed_by):
    begin()
    said = []
    run = provider(google.server.url, store, said)
    note(store, plan, "training", began=int(time.time()) - 3600)
    (made,) = google.resources.values()
    made["createTime"] = "2020-01-01T00:00:00Z"
    if noticed_by == "queue":
        google.turn("SUSPENDED")
    else:
        note(store, plan, "ended", 75, "preempted", began=int(time.time()) - 3600)
        google.resources.clear()
    google.nodes.clear()

    def train_again():
        while not any(one["state"]["state"] == "ACTIVE" for one in google.resources.values()):
            time.sleep(0.01)
        note(store, plan, "ended", 0)

    thread = threading.Thread(target=train_again, daemon=True)
    thread.start()
    assert follow(run, plan).phase == "finished"
    thread.join()
    assert any("taken" in one or "took the TPU back" in one for one in said)
    (again,) = google.resources.values()
    metadata = again["tpu"]["nodeSpec"][0]["node"]["metadata"]
    left = int(metadata["cloudgan-deadline-seconds"])
    assert plan.limits.deadline_seconds - 3700 < left <= plan.limits.deadline_seconds - 3600


def test_a_second_loss_counts_from_what_the_first_left(google, run, plan, begin, store):
    begin()
    (made,) = google.resources.values()
    made["tpu"]["nodeSpec"][0]["node"]["metadata"]["cloudgan-deadline-seconds"] = "1000"
    google.turn("SUSPENDED")
    run.wait_for_change("gan", 1)
    (again,) = google.resources.values()
    metadata = again["tpu"]["nodeSpec"][0]["node"]["metadata"]
    assert metadata["cloudgan-deadline-seconds"] == "1000", "no machine had booted"


def test_no_machine_is_asked_for_when_the_jobs_time_is_over(google, run, plan, begin, store):
    begin()
    note(store, plan, "training", began=int(time.time()) - plan.limits.deadline_seconds)
    (made,) = google.resources.values()
    made["createTime"] = "2020-01-01T00:00:00Z"
    google.turn("SUSPENDED")
    with pytest.raises(LaunchError, match="took the TPU of run gan back"):
        follow(run, plan)
    assert not google.resources
    assert run.state("gan").phase == "absent"
    assert begin() is True, "the same command begins anew"


def test_stopping_lets_the_worker_save_before_the_machines_go(google, run, plan, begin, store):
    begin()
    note(store, plan, "training")
    heard(store, plan)

    def obey():
        while "runs/gan/stop" not in open_store(store).list("runs/gan/"):
            time.sleep(0.01)
        assert google.resources, "not before it saved"
        note(store, plan, "ended", 75, "stopped")

    thread = threading.Thread(target=obey, daemon=True)
    thread.start()
    run.stop("gan")
    thread.join()
    assert not google.resources
    assert "runs/gan/stop" not in open_store(store).list("runs/gan/")
    assert run.state("gan").phase == "stopped"
    assert begin() is True, "it goes on"


def test_a_stop_waits_for_nobody_where_no_machine_is_there_yet(google, run, plan, begin, store):
    begin()
    google.turn("WAITING_FOR_RESOURCES")
    run.stop("gan")
    assert not google.resources


def test_a_deletion_that_is_refused_for_a_while_is_asked_for_again(google, run, begin, store, plan):
    begin()
    note(store, plan, "ended", 1)
    google.server.refuse("queuedResources.delete", Refusal(400, "It is currently busy"), times=4)
    list(run.remove("gan"))
    assert not google.resources


def test_down_removes_what_google_lists_without_labels(google, run, plan, begin, store):
    begin()
    google.shows_labels = False
    google.nodes.clear()
    assert run._cloud.things("gan") == ()
    assert any("queued resource" in one for one in run.remove("gan"))
    assert not google.resources


def test_logs_are_what_the_store_holds_and_follow_until_the_end(google, run, plan, begin, store):
    begin()
    note(store, plan, "training")
    heard(store, plan)
    name = "runs/gan/logs/0/1-a.log.gz"
    open_store(store).put(name, gzip.compress(b"one\ntwo\n"))
    (source,) = run.log_sources("gan").values()
    assert [line.text for line in source(False)] == ["one", "two"]

    def more():
        open_store(store).put(name, gzip.compress(b"one\ntwo\nthree\n"))
        note(store, plan, "ended", 0)

    later(more)
    assert [line.text for line in source(True)] == ["one", "two", "three"]
