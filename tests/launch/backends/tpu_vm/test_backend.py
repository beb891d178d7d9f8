"""A run on Cloud TPU from its start to its end, as `cloudgan deploy` drives it."""

import gzip
import threading
import time
from pathlib import Path

import pytest

from cloudgan.core.errors import LaunchError
from cloudgan.launch.backends.tpu_vm.requests import put_secret
from cloudgan.launch.lifecycle.apply import apply
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.run_monitor import RunMonitor
from cloudgan.schema.config import parse_config
from cloudgan.schema.run_folder import RunFolder
from cloudgan.storage.store import open_store
from launch.backends.tpu_vm.lab import planned, provider, resolved, tpus, write_status

BEAT = """{"time": "2199-01-01T00:00:00+00:00", "config_hash": "0123456789abcdef",
"phase": "training", "world": 1, "missing_workers": [], "generation": 1, "restarts": 0, "epochs": 5}"""


@pytest.fixture
def google():
    with tpus() as made:
        yield made


@pytest.fixture
def store(tmp_path):
    return str(tmp_path / "store")


@pytest.fixture
def plan(store, monkeypatch):
    """A plan whose bucket is a folder."""
    monkeypatch.setattr("cloudgan.launch.clouds.gcp.client.open_store", lambda _: open_store(store))
    return resolved(planned(store="gs://lab/runs"))


@pytest.fixture
def said():
    return []


@pytest.fixture
def run(google, store, said):
    return provider(google.server.url, store, said)


@pytest.fixture
def begin(plan, run, tmp_path, said):
    ledger = LaunchLog(RunFolder(tmp_path / "here"), plan)
    return lambda: apply(plan, run, ledger, said.append)


def heard(store, plan):
    open_store(store).put(f"runs/{plan.run}/heartbeat.json", BEAT.encode())


def follow(run, plan, *, until=20.0):
    """Follows like `deploy`; fails if the run does not end in time."""
    end = time.monotonic() + until

    def see(_):
        assert time.monotonic() < end

    return RunMonitor(run, plan, lambda _: None, see).follow()


def later(action, *arguments):
    thread = threading.Timer(0.2, action, arguments)
    thread.daemon = True
    thread.start()


def test_a_run_is_followed_from_start_to_end_and_leaves_no_resource(
    google, run, plan, begin, store
):
    assert begin() is True
    assert run.state("gan").phase == "starting"
    assert run.nodes("gan")[0].started_at is not None
    write_status(store, plan, "training")
    heard(store, plan)
    assert run.state("gan").phase == "running"
    assert begin() is False, "it runs"
    later(write_status, store, plan, "ended", 0)
    assert follow(run, plan).phase == "finished"
    assert list(run.deprovision("gan", "finished"))
    assert not google.resources
    assert run.state("gan").phase == "finished"
    assert run.list_runs() == ("gan",)
    list(run.destroy("gan"))
    assert run.list_runs() == ()


@pytest.mark.parametrize("noticed_by", ["queue", "machine"])
def test_a_preempted_tpu_is_requested_again(google, plan, store, begin, noticed_by):
    begin()
    said = []
    run = provider(google.server.url, store, said)
    write_status(store, plan, "training", booted_at=int(time.time()) - 3600)
    (made,) = google.resources.values()
    made["createTime"] = "2020-01-01T00:00:00Z"
    if noticed_by == "queue":
        google.turn("SUSPENDED")
    else:
        write_status(store, plan, "ended", 75, "preempted", booted_at=int(time.time()) - 3600)
        google.resources.clear()
    google.nodes.clear()

    def train_again():
        while not any(one["state"]["state"] == "ACTIVE" for one in google.resources.values()):
            time.sleep(0.01)
        write_status(store, plan, "ended", 0)

    thread = threading.Thread(target=train_again, daemon=True)
    thread.start()
    assert follow(run, plan).phase == "finished"
    thread.join()
    assert any("preempted the TPU" in one for one in said)
    (again,) = google.resources.values()
    metadata = again["tpu"]["nodeSpec"][0]["node"]["metadata"]
    left = int(metadata["cloudgan-deadline-seconds"])
    assert plan.limits.deadline_seconds - 3700 < left <= plan.limits.deadline_seconds - 3600


def test_a_second_preemption_uses_the_deadline_that_the_first_one_left(
    google, run, plan, begin, store
):
    begin()
    (made,) = google.resources.values()
    made["tpu"]["nodeSpec"][0]["node"]["metadata"]["cloudgan-deadline-seconds"] = "1000"
    google.turn("SUSPENDED")
    run.wait_for_change("gan", 1)
    (again,) = google.resources.values()
    metadata = again["tpu"]["nodeSpec"][0]["node"]["metadata"]
    assert metadata["cloudgan-deadline-seconds"] == "1000", "no machine had booted"


def test_a_preempted_tpu_is_requested_again_as_the_plan_says_not_as_documents_in_the_bucket_say(
    google, plan, begin, store, said
):
    begin()
    (first,) = google.resources.values()
    *_, object_name = open_store(store).list("runs/gan/desired-state/")
    text = open_store(store).read(object_name).decode()
    stolen = text.replace("cloudgan-tpu@", "owner@").replace("#!/bin/bash", "#!/bin/bash\\nevil")
    assert stolen != text
    open_store(store).put(object_name, stolen.encode())
    write_status(store, plan, "training", booted_at=int(time.time()) - 60, deadline_seconds=10**8)
    google.turn("SUSPENDED")
    first["createTime"] = "2020-01-01T00:00:00Z"
    provider(google.server.url, store, said).wait_for_change("gan", 1)
    (again,) = google.resources.values()
    (before,), (after,) = first["tpu"]["nodeSpec"], again["tpu"]["nodeSpec"]
    assert after["node"]["serviceAccount"] == before["node"]["serviceAccount"]
    assert (
        after["node"]["metadata"]["startup-script"] == before["node"]["metadata"]["startup-script"]
    )
    left = int(after["node"]["metadata"]["cloudgan-deadline-seconds"])
    assert left <= plan.limits.deadline_seconds - 60


def test_no_tpu_is_requested_after_the_deadline(google, run, plan, begin, store):
    begin()
    write_status(store, plan, "training", booted_at=int(time.time()) - plan.limits.deadline_seconds)
    (made,) = google.resources.values()
    made["createTime"] = "2020-01-01T00:00:00Z"
    google.turn("SUSPENDED")
    with pytest.raises(LaunchError, match="preempted the TPU of run gan"):
        follow(run, plan)
    assert not google.resources
    assert run.state("gan").phase == "absent"
    assert begin() is True, "rerunning the command starts a new attempt"


def test_stop_lets_the_worker_save_before_the_tpu_is_deleted(google, run, plan, begin, store):
    begin()
    write_status(store, plan, "training")
    heard(store, plan)

    def obey():
        while "runs/gan/stop" not in open_store(store).list("runs/gan/"):
            time.sleep(0.01)
        assert google.resources, "not before it saved"
        write_status(store, plan, "ended", 75, "stopped")

    thread = threading.Thread(target=obey, daemon=True)
    thread.start()
    run.stop("gan")
    thread.join()
    assert not google.resources
    assert "runs/gan/stop" not in open_store(store).list("runs/gan/")
    assert run.state("gan").phase == "stopped"
    assert begin() is True, "it resumes"


def test_stop_does_not_wait_without_a_vm(google, run, plan, begin, store):
    begin()
    google.turn("WAITING_FOR_RESOURCES")
    run.stop("gan")
    assert not google.resources


def test_down_deletes_a_tpu_that_google_lists_without_labels(google, run, plan, begin, store):
    begin()
    google.shows_labels = False
    google.nodes.clear()
    assert run._cloud.list_resources("gan") == ()
    assert any("queued resource" in one for one in run.destroy("gan"))
    assert not google.resources


@pytest.fixture
def of_four(google, store, monkeypatch):
    """A run on a slice of four VMs, which began, and its backend."""
    monkeypatch.setattr("cloudgan.launch.clouds.gcp.client.open_store", lambda _: open_store(store))
    found = resolved(planned("v3-32", store="gs://lab/runs"))
    found = found.model_copy(
        update={"config": parse_config({"name": "gan", "training": {"engine": "jax"}}, "a test")}
    )
    backend = provider(google.server.url, store)
    apply(found, backend, LaunchLog(RunFolder(Path(store) / "here"), found), lambda _: None)
    put_secret(found, open_store(store))
    return backend


def test_a_slice_that_is_requested_again_gets_another_secret_which_goes_with_it(
    google, of_four, store
):
    first = open_store(store).read("runs/gan/secret")
    google.turn("SUSPENDED")
    of_four.wait_for_change("gan", 1)
    second = open_store(store).read("runs/gan/secret")
    assert (len(first), len(second)) == (64, 64)
    assert first != second
    list(of_four.destroy("gan"))
    assert "runs/gan/secret" not in open_store(store).list("runs/gan/")


def test_each_vm_of_a_slice_has_its_own_log(of_four, store):
    for number in range(4):
        name = f"runs/gan/logs/{number}/a.log.gz"
        open_store(store).put(name, gzip.compress(f"I am {number}\n".encode()))
    sources = of_four.log_sources("gan")
    lines = {name: [line.text for line in source(False)] for name, source in sources.items()}
    assert lines == {f"worker-{number}": [f"I am {number}"] for number in range(4)}


def test_logs_come_from_the_store_and_follow_until_the_end(google, run, plan, begin, store):
    begin()
    write_status(store, plan, "training")
    heard(store, plan)
    name = "runs/gan/logs/0/1-a.log.gz"
    open_store(store).put(name, gzip.compress(b"one\ntwo\n"))
    (source,) = run.log_sources("gan").values()
    assert [line.text for line in source(False)] == ["one", "two"]

    def more():
        open_store(store).put(name, gzip.compress(b"one\ntwo\nthree\n"))
        write_status(store, plan, "ended", 0)

    later(more)
    assert [line.text for line in source(True)] == ["one", "two", "three"]
