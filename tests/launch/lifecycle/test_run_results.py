"""What a run left in its store, read from any machine."""

from __future__ import annotations

import gzip
import secrets

import pytest

from cloudgan.core.documents import read_json
from cloudgan.core.errors import ConfigError, ResourcesLeftError
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.launch.lifecycle.run_results import RunResults, transfer_checkpoints
from cloudgan.schema import record
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.config import RunConfig
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.launch import Launch
from cloudgan.schema.run_document import ForeignDocumentError
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.run_state import LogLine
from cloudgan.storage.folder import FolderStore
from cloudgan.storage.run_logs import read_run_log
from cloudgan.storage.store import StoreError, deletable_name

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
    """Writes the files that a pod leaves in the store."""
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
    assert results.store.list() == (), (
        "the folder is not that of the run, as long as it has no plan"
    )
    results.write_plan(plan)
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


def test_the_cells_and_the_result_of_a_grid_are_fetched_and_older_states_removed(results, folder):
    grid = {"rows": 1, "columns": 2, "task": "ring"}
    folder.write_config(RunConfig.model_validate({"grid": grid}))
    assert results.fetch(folder) == []
    assert not (folder.path / "coevolution.json").exists()
    names = (
        "cells/0-0/record.jsonl",
        "cells/0-0/state-000000005.npz",
        "mixture.npz",
        "status.json",
    )
    for name in names:
        put(results, name, b"x")
    put(results, "cells/0-0/other.exe", b"x")
    put(results, "plan.json.old", b"x")
    assert sorted(results.fetch(folder)) == sorted(names)
    results.store.delete(f"runs/{results.run}/cells/0-0/state-000000005.npz")
    put(results, "cells/0-0/state-000000010.npz", b"y")
    results.fetch(folder)
    states = [path.name for path in (folder.path / "cells" / "0-0").glob("*.npz")]
    assert states == ["state-000000010.npz"]
    found = read_json(folder.path / "coevolution.json", CoevolutionConfig)
    assert (found.columns, found.engine) == (2, "ranks")
    assert results.grid_status() is None, "the status above is damaged"
    (folder.path / "cells" / "0-0" / "state-000000020.npz").write_text("continued on this machine")
    assert results.fetch(folder) == []
    assert (folder.path / "cells" / "0-0" / "state-000000020.npz").exists()


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
    with pytest.raises(ConfigError, match=r"runs/gan/ has 2 files and no plan of run gan"):
        results.purge()
    results.write_plan(plan)
    assert results.purge() == 3
    assert results.store.list() == other.store.list()
    assert len(other.store.list()) == 2


def test_the_folder_of_a_namesake_is_not_purged_and_its_launch_log_not_replaced(results, plan):
    theirs = plan.model_copy(update={"owner": "someone-else", "spec_hash": "0123456789"})
    results.write_plan(theirs)
    for act in (results.purge, lambda: results.write_launch(Launch(run="gan", config_hash="0"))):
        with pytest.raises(ForeignDocumentError, match="owner is 'someone-else'"):
            act()
    assert results.store.list() == ("runs/gan/plan.json",)


def test_an_interrupted_start_can_be_purged_by_its_desired_state(results, plan):
    results.write_plan(plan.model_copy(update={"spec_hash": "0123456789"}))
    RunRegistry(results.store, "me").write(plan, "starting")
    assert results.purge() == 2


class WithFolderObjects(FolderStore):
    """A bucket in which a cloud's console created folders, or another program odd names."""

    def __init__(self, folder, *names):
        super().__init__(folder)
        self.names, self.deleted = names, []

    def list(self, prefix=""):
        extra = (name for name in self.names if name.startswith(prefix))
        return tuple(sorted((*super().list(prefix), *extra)))

    def delete(self, name):
        self.deleted.append(deletable_name(name))
        super().delete(name.removesuffix("/")) if name not in self.names else None


def test_the_trace_of_ranks_is_fetched_when_there_is_one(plan, folder):
    parallel = plan.config.parallel.model_copy(update={"mode": "gem", "trace": True})
    config = plan.config.model_copy(update={"parallel": parallel})
    results = RunResults.from_plan(plan.model_copy(update={"config": config}))
    results.write_plan(results.own)
    put(results, "record.jsonl", b"{}\n")
    assert results.fetch(folder) == ["record.jsonl"]
    put(results, "trace.json", b"{}")
    assert results.fetch(folder) == ["trace.json"]
    assert folder.trace_file.read_bytes() == b"{}"
    assert results.fetch(folder) == []


def test_folder_objects_of_a_console_are_not_fetched_and_are_purged(plan, folder, tmp_path):
    names = [
        f"runs/gan/{name}" for name in ("", "checkpoints/", "logs/", "logs/0/", "desired-state/")
    ]
    store = WithFolderObjects(tmp_path / "store", *names)
    results = RunResults(store, "gan", plan)
    results.write_plan(plan)
    put(results, "record.jsonl", b"one\n")
    put(results, "checkpoints/step-000000100.npz", b"weights")
    assert results.fetch(folder) == ["record.jsonl", "checkpoints/step-000000100.npz"]
    assert list(results.log_lines()) == []
    assert RunRegistry(store, "me").read("gan") is None
    assert results.purge() == 8
    assert set(names) < set(store.deleted)
    assert store.deleted[-1] == "runs/gan/plan.json"


@pytest.mark.parametrize(
    "name", ["../../other/plan.json", "checkpoints/../../b/x.npz", "a\nb", "a//b"]
)
def test_an_object_with_a_name_that_reaches_elsewhere_is_neither_fetched_nor_deleted(
    plan, folder, tmp_path, name
):
    store = WithFolderObjects(tmp_path / "store", f"runs/gan/{name}")
    results = RunResults(store, "gan", plan)
    results.write_plan(plan)
    put(results, "record.jsonl", b"one\n")
    assert results.fetch(folder) == ["record.jsonl"]
    with pytest.raises(ResourcesLeftError, match="1 objects remain"):
        results.purge()
    assert store.deleted == ["runs/gan/record.jsonl", "runs/gan/plan.json"]


def test_a_damaged_log_is_shown_up_to_the_damage_with_a_sentence(results):
    whole = gzip.compress(b"first\n" + secrets.token_bytes(5000).hex().encode())
    put(results, "logs/0/a.log.gz", whole[:-2000])
    put(results, "logs/1/b.log.gz", b"not gzip at all")
    put(results, "logs/2/c.log.gz", whole[:200] + b"\xff" * 50 + whole[250:])
    put(results, "logs/3/d.log.gz", gzip.compress(b"whole\n"))
    lines = [(line.index, line.text) for line in results.log_lines()]
    assert lines[0] == (0, "first")
    said = [text for _, text in lines if text.startswith("[")]
    assert [("damaged after" in text, ".log.gz: " in text) for text in said] == [(True, True)] * 3
    assert lines[-1] == (3, "whole")


def test_a_log_is_decompressed_up_to_a_limit(results):
    put(results, "logs/0/bomb.gz", gzip.compress(b"0" * 10_000_000))
    name = "runs/gan/logs/0/bomb.gz"
    *lines, last = read_run_log(results.store, name, largest_bytes=50_000)
    assert sum(map(len, lines)) == 50_000
    assert "only the first 50000 bytes are shown" in last
    (last,) = read_run_log(results.store, name, largest_bytes=100)
    assert "more than 100: not read" in last


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


def test_without_a_checkpoint_no_checkpoint_is_transferred(stores):
    assert transfer_checkpoints(*stores, print) is None


def test_a_store_that_cannot_be_read_is_reported_and_training_restarts_at_step_0(stores):
    old, new = stores

    class Away(FolderStore):
        def list(self, prefix=""):
            raise StoreError("gs://lab: no answer")

    said = []
    assert transfer_checkpoints(RunResults(Away(old.store.url), "gan"), new, said.append) is None
    assert "so training restarts at step 0: gs://lab: no answer" in said[0]
