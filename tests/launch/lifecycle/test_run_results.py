"""What a run left in its store, read from any machine."""

import gzip
import secrets

import pytest

from cloudgan.core.documents import read_json
from cloudgan.core.errors import ConfigError, ResourcesLeftError
from cloudgan.launch.backends.run_document import ForeignDocumentError
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.launch.lifecycle.run_results import RunResults, transfer_checkpoints
from cloudgan.schema import record
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.config import RunConfig
from cloudgan.schema.launch import Launch
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.run_state import LogLine
from cloudgan.storage.folder import FolderStore
from cloudgan.storage.run_logs import read_run_log
from cloudgan.storage.store import StoreError, is_addressable
from records import heartbeat, validated

BEAT = heartbeat(world=2)


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


def test_each_document_is_kept_for_other_machines_and_a_damaged_one_is_none(results, plan):
    known = Launch(run="gan", config_hash="0" * 16)
    results.write_launch(known, "")
    assert results.store.list() == (), "without a plan the folder is not that of the run"
    results.write_plan(plan)
    results.write_launch(known, "")
    put(results, "heartbeat.json", BEAT.model_dump_json().encode())
    other = RunResults.from_plan(plan)
    found = {"plan": other.plan, "launch": other.read_launch, "heartbeat": other.heartbeat}
    assert [read() for read in found.values()] == [plan, known, BEAT]
    for name, read in found.items():
        for content in (b"{", b'{"schema_version": 99}'):
            put(results, f"{name}.json", content)
            assert read() is None


def test_record_checkpoints_and_the_trace_of_ranks_are_fetched_once(plan, folder):
    parallel = plan.config.parallel.model_copy(update={"mode": "gem", "trace": True})
    config = plan.config.model_copy(update={"parallel": parallel})
    results = RunResults.from_plan(plan.model_copy(update={"config": config}))
    results.write_plan(results.own)
    put(results, "heartbeat.json", BEAT.model_dump_json().encode())
    steps = [
        {"record.jsonl": b"one\n", "checkpoints/step-000000100.npz": b"weights"},
        {"record.jsonl": b"one\ntwo\n", "checkpoints/step-000000200.npz": b"more"},
        {"trace.json": b"{}"},
        {},
    ]
    for files in steps:
        for name, content in files.items():
            put(results, name, content)
        assert results.fetch(folder) == list(files)
        assert {name: (folder.path / name).read_bytes() for name in files} == files


def test_a_record_that_was_continued_in_the_folder_stays_as_it_is(results, folder):
    put(results, "record.jsonl", b"one\n")
    assert results.fetch(folder) == ["record.jsonl"]
    folder.record_file.write_bytes(b"one\ntrained here\n")
    assert results.fetch(folder) == []
    assert folder.record_file.read_bytes() == b"one\ntrained here\n"


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
    for act in (
        results.purge,
        lambda: results.write_launch(Launch(run="gan", config_hash="0"), ""),
    ):
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
        assert is_addressable(name.removesuffix("/"))
        self.deleted.append(name)
        super().delete(name.removesuffix("/")) if name not in self.names else None


def test_folder_objects_of_a_console_are_not_fetched_and_are_purged(plan, folder, tmp_path):
    names = [
        f"runs/gan/{name}" for name in ("", "checkpoints/", "logs/", "logs/0/", "desired-state/")
    ]
    store = WithFolderObjects(tmp_path / "store", *names)
    results = RunResults(store, plan)
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
    results = RunResults(store, plan)
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


class Away(FolderStore):
    def list(self, prefix=""):
        raise StoreError("gs://lab: no answer")


def checkpoint(step):
    return f"runs/gan/checkpoints/step-{step:09d}.npz"


@pytest.mark.parametrize(
    ("old", "new", "best", "step", "copied"),
    [
        ((10, 20), (), None, 20, (20,)),
        ((10, 20, 30), (), 10, 30, (10, 30)),
        ((10,), (30,), None, 30, ()),
        ((), (), None, None, ()),
    ],
    ids=["the newest", "and the best", "not to a store that is further", "none is there"],
)
def test_newest_and_best_checkpoint_and_the_record_go_along_to_another_store(  # noqa: PLR0917
    tmp_path, plan, old, new, best, step, copied
):
    places = {name: RunResults(FolderStore(tmp_path / name), plan) for name in ("old", "new")}
    record_file = tmp_path / "record.jsonl"
    record_file.write_bytes(b"{}\n")
    if best:
        found = validated(0, 0.2, step=best)
        record_file.unlink()
        record.append(record_file, found)
    for name, steps in (("old", old), ("new", new)):
        for one in steps:
            places[name].store.put(checkpoint(one), str(one).encode())
        if steps:
            places[name].store.put("runs/gan/record.jsonl", record_file.read_bytes())
            places[name].store.put("runs/gan/run.yaml", b"data: {path: gs://old}")
    there, said = set(places["new"].store.list()), []
    for _ in range(2):
        assert transfer_checkpoints(places["old"], places["new"], said.append) == step
    came = set(places["new"].store.list()) - there
    record_came = {"runs/gan/record.jsonl"} if copied else set()
    assert came == {checkpoint(one) for one in copied} | record_came
    assert [places["new"].store.read(checkpoint(one)) for one in copied] == [
        str(one).encode() for one in copied
    ]
    assert [f"step {step} from" in line for line in said] == [True] * bool(copied), "once"


class Full(FolderStore):
    """A store that takes only so many objects."""

    left = 0

    def put(self, name, content, **condition):
        if self.left == 0:
            raise StoreError("gs://lab: no answer")
        self.left -= 1
        super().put(name, content, **condition)


def test_a_copy_that_was_cut_short_is_completed_by_the_next_one(plan, tmp_path):
    old, new = RunResults(FolderStore(tmp_path / "old"), plan), Full(tmp_path / "new")
    record.append(tmp_path / "record.jsonl", validated(0, 0.2, step=10))
    old.store.put("runs/gan/record.jsonl", tmp_path / "record.jsonl")
    for step in (10, 20):
        old.store.put(checkpoint(step), str(step).encode())
    for new.left in range(3):
        assert transfer_checkpoints(old, RunResults(new, plan), lambda _: None) is None
    new.left = 3
    assert transfer_checkpoints(old, RunResults(new, plan), lambda _: None) == 20
    assert new.list() == old.store.list()


def test_a_store_that_cannot_be_read_is_reported_and_training_restarts_at_step_0(plan, tmp_path):
    said, new = [], RunResults(FolderStore(tmp_path / "new"), plan)
    assert transfer_checkpoints(RunResults(Away(str(tmp_path)), plan), new, said.append) is None
    assert "so training restarts at step 0: gs://lab: no answer" in said[0]
