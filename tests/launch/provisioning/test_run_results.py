"""What a run left in its store, read from any machine."""

from __future__ import annotations

import gzip

import pytest

from cloudgan.launch.provisioning.run_results import RunResults, transfer_checkpoints
from cloudgan.schema import record
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.launch import Launch
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.run_state import LogLine
from cloudgan.storage.folder import FolderStore
from cloudgan.storage.store import StoreError

BEAT = Heartbeat(
    time="2026-11-21T12:00:00Z",
    config_hash="0" * 16,
    phase="training",
    world=2,
    missing_workers=(),
    generation=1,
    restarts=0,
    epochs=2,
)


@pytest.fixture
def plan(plan_of, tmp_path):
    return plan_of(store=str(tmp_path / "store"))


@pytest.fixture
def results(plan):
    return RunResults.from_plan(plan)


def put(results, name, content):
    """What a pod would leave."""
    results.store.put(f"runs/{results.run}/{name}", content)


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "here" / "gan")


def test_a_claim_can_be_read_by_pods_only(plan_of):
    assert RunResults.from_plan(plan_of(store="pvc:results")) is None


def test_a_run_that_left_nothing_yet_is_no_error(results, folder):
    assert results.heartbeat() is results.plan() is None
    assert results.fetch(folder) == []
    assert list(results.log_lines()) == []
    assert results.purge() == 0
    assert not folder.path.exists()


def test_the_newest_heartbeat_is_read_and_a_strange_one_is_none(results):
    put(results, "heartbeat.json", BEAT.model_dump_json().encode())
    assert results.heartbeat() == BEAT
    put(results, "heartbeat.json", b'{"schema_version": 99}')
    assert results.heartbeat() is None


def test_the_plan_is_kept_beside_what_it_makes(results, plan):
    results.write_plan(plan)
    assert results.plan() == plan
    put(results, "plan.json", b"{")
    assert results.plan() is None


def test_what_was_started_is_kept_for_other_machines(results, plan):
    assert results.read_launch() is None
    known = Launch(run="gan", config_hash="0" * 16)
    results.write_launch(known)
    assert RunResults.from_plan(plan).read_launch() == known
    put(results, "launch.json", b"{")
    assert results.read_launch() is None


def test_record_and_checkpoints_are_fetched_once(results, folder):
    put(results, "record.jsonl", b"one\n")
    put(results, "checkpoints/step-000000100.npz", b"weights")
    put(results, "heartbeat.json", BEAT.model_dump_json().encode())
    assert results.fetch(folder) == ["record.jsonl", "checkpoints/step-000000100.npz"]
    assert folder.record_file.read_bytes() == b"one\n"
    assert (folder.checkpoints / "step-000000100.npz").read_bytes() == b"weights"
    assert results.fetch(folder) == []
    put(results, "record.jsonl", b"one\ntwo\n")
    put(results, "checkpoints/step-000000200.npz", b"more")
    assert results.fetch(folder) == ["record.jsonl", "checkpoints/step-000000200.npz"]
    assert folder.record_file.read_bytes() == b"one\ntwo\n"


def test_logs_are_read_worker_by_worker_and_in_the_order_of_their_incarnations(results):
    put(results, "logs/1/20261121t120000.log.gz", gzip.compress(b"b\n"))
    put(results, "logs/0/20261121t130000.log.gz", gzip.compress(b"second\xff\n"))
    put(results, "logs/0/20261121t120000.log.gz", gzip.compress(b"first\n"))
    put(results, "logs/10/20261121t120000.log.gz", gzip.compress(b"ten\n"))
    put(results, "logs/2/20261121t120000.log.gz", gzip.compress(b"two\n"))
    put(results, "logs/notes.txt", b"not a log")
    found = [(each.index, each.text) for each in results.log_lines()]
    assert found == [(0, "first"), (0, "second\ufffd"), (1, "b"), (2, "two"), (10, "ten")]
    assert all(isinstance(each, LogLine) and each.time == "" for each in results.log_lines())


def test_purging_removes_this_run_and_no_other(results, plan, plan_of):
    other = RunResults.from_plan(plan_of(name="gan-2", store=plan.store))
    for each in (results, other):
        put(each, "record.jsonl", b"x")
        put(each, "checkpoints/step-000000100.npz", b"x")
    assert results.purge() == 2
    assert results.store.list() == other.store.list()
    assert len(other.store.list()) == 2


@pytest.fixture
def stores(tmp_path):
    return tuple(RunResults(FolderStore(tmp_path / name), "gan") for name in ("old", "new"))


def put_checkpoints(results, *steps, record=b"{}\n"):
    for step in steps:
        results.store.put(f"runs/gan/checkpoints/step-{step:09d}.npz", str(step).encode())
    results.store.put("runs/gan/record.jsonl", record)
    results.store.put("runs/gan/run.yaml", b"data: {path: gs://old}")


def test_the_newest_checkpoint_and_the_record_go_along_and_nothing_else(stores):
    old, new = stores
    put_checkpoints(old, 10, 20)
    said = []
    assert transfer_checkpoints(old, new, said.append) == 20
    assert new.store.list() == ("runs/gan/checkpoints/step-000000020.npz", "runs/gan/record.jsonl")
    assert new.store.read("runs/gan/checkpoints/step-000000020.npz") == b"20"
    assert "step 20" in said[0]
    assert transfer_checkpoints(old, new, said.append) == 20
    assert len(said) == 1, "it was done"


def test_the_best_checkpoint_goes_along_as_the_record_names_it(stores, tmp_path):
    old, new = stores
    found = record.Validated(
        time="2026-01-01T00:00:00Z",
        step=10,
        epoch=0,
        showers=500,
        metrics={"metric": 0.2},
        seconds=1.0,
        ranked_by="metric",
        best=True,
        program_seconds=9.0,
    )
    record.append(tmp_path / "record.jsonl", found)
    put_checkpoints(old, 10, 20, 30, record=(tmp_path / "record.jsonl").read_bytes())
    assert transfer_checkpoints(old, new, print) == 30
    assert new.store.list("runs/gan/checkpoints/") == (
        "runs/gan/checkpoints/step-000000010.npz",
        "runs/gan/checkpoints/step-000000030.npz",
    )


def test_a_store_that_is_further_stays_as_it_is(stores):
    old, new = stores
    put_checkpoints(old, 10)
    put_checkpoints(new, 30, record=b"longer\n")
    assert transfer_checkpoints(old, new, print) == 30
    assert new.store.read("runs/gan/record.jsonl") == b"longer\n"


def test_without_a_checkpoint_a_run_begins_anew(stores):
    assert transfer_checkpoints(*stores, print) is None


def test_a_store_that_cannot_be_read_is_told_and_the_run_begins_anew(stores):
    old, new = stores

    class Away(FolderStore):
        def list(self, prefix=""):
            raise StoreError("gs://lab: nobody answers")

    said = []
    assert transfer_checkpoints(RunResults(Away(old.store.url), "gan"), new, said.append) is None
    assert "so training restarts at step 0: gs://lab: nobody answers" in said[0]
