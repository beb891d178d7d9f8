"""Checkpoints are complete or absent, copied to a store, and rank the best one."""

from __future__ import annotations

import json
import math
import threading
import zipfile

import numpy as np
import pytest

from cloudgan.core.errors import CloudganError, DataError
from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.stop_criterion import DEFAULT_RANKING, BestCheckpoint, parse_stop_criterion
from cloudgan.storage.folder import FolderStore
from cloudgan.training.checkpoint import Checkpoints, read_checkpoint, restore, restore_part
from records import checkpoint_state

pytestmark = pytest.mark.tf


class Variable:
    """As much of a Keras variable as a checkpoint touches."""

    def __init__(self, value, path="layer/kernel"):
        self.value, self.path = np.asarray(value), path

    @property
    def shape(self):
        return self.value.shape

    @property
    def dtype(self):
        return self.value.dtype.name

    def assign(self, value):
        self.value = np.asarray(value)


def state(step, *, best=None):
    found = best and BestCheckpoint(step=best, epoch=0, metrics={"metric": 0.2})
    return checkpoint_state(step, best=found, theta_range_rad=None)


def arrays():
    rng = np.random.default_rng(0)
    return {
        "generator/000/kernel": rng.normal(size=(3, 4)).astype(np.float32),
        "generator/001/bias": rng.normal(size=4).astype(np.float32),
        "optimizer/000/iteration": np.int64(7),
    }


def blank():
    return {name: Variable(np.zeros_like(value)) for name, value in arrays().items()}


def save(checkpoints, *steps, best=None):
    """Saves checkpoints; returns the path of the last one when all copies are made."""
    for step in steps:
        path, size = checkpoints.save(state(step, best=best), arrays())
        assert size == path.stat().st_size
    assert checkpoints.is_copied(within=None)
    return path


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints", keep=2, may_rename=True)


@pytest.fixture
def bucket(tmp_path):
    """An empty store, and a function that opens the checkpoints of a machine with copies there."""
    store = tmp_path / "bucket"
    store.mkdir()

    def machine(name, **options):
        options = {"keep": 1, "may_rename": True} | options
        return Checkpoints(tmp_path / name, url=store.as_uri(), **options)

    return store, machine


def names(folder):
    return sorted(path.name.replace("step-00000000", "") for path in folder.iterdir())


def test_what_was_saved_comes_back_bit_for_bit(checkpoints):
    found, variables = read_checkpoint(save(checkpoints, 5)), blank()
    restore(found, variables)
    assert found.state == state(5)
    for name, value in arrays().items():
        np.testing.assert_array_equal(variables[name].value, value)


@pytest.mark.parametrize(
    ("saved", "kept"),
    [
        ([(0, None), (3, None), (6, None), (9, None)], [0, 6, 9]),
        ([(0, None), (3, 3), (6, 3), (9, 3), (12, 3)], [0, 3, 9, 12]),
        ([(0, None), (3, 3), (6, 3), (9, 3), (12, 3), (15, 15)], [0, 12, 15]),
    ],
)
def test_the_newest_few_are_kept_with_the_untrained_and_the_best_one(checkpoints, saved, kept):
    for step, best in saved:
        save(checkpoints, step, best=best)
    assert checkpoints.steps() == kept
    assert checkpoints.newest()[0].path == checkpoints.path_of(kept[-1])


def test_the_metrics_of_the_best_come_back_even_where_one_is_no_number(checkpoints):
    best = BestCheckpoint(step=3, epoch=0, metrics={"metric": 0.2, "hits": np.nan})
    path, _ = checkpoints.save(state(5).model_copy(update={"best": best}), arrays())
    found = read_checkpoint(path).state.best
    assert (found.step, found.metrics["metric"]) == (3, 0.2)
    assert np.isnan(found.metrics["hits"])
    assert found.as_json()["metrics"] == {"metric": 0.2, "hits": None}


def test_one_network_is_read_alone_in_its_own_order(checkpoints):
    found = read_checkpoint(save(checkpoints, 1))
    weights = [Variable(np.zeros(size, np.float32)) for size in ((3, 4), (4,))]
    restore_part(found, "generator", weights)
    np.testing.assert_array_equal(weights[0].value, arrays()["generator/000/kernel"])
    with pytest.raises(DataError, match="ema_generator has 0 arrays, in this model 2"):
        restore_part(found, "ema_generator", weights)


def flipped(path):
    raw = bytearray(path.read_bytes())
    raw[100] ^= 0xFF  # inside the first array
    path.write_bytes(raw)


def rewritten(save=np.savez, meta=None, **changed):
    """Returns a function that rewrites a file with `changed` arrays, or other metadata."""

    def damage(path):
        with np.load(path) as archive:
            kept = {name: archive[name] for name in archive.files}
        if meta:
            text = meta(json.loads(kept["meta.json"].tobytes()))
            kept["meta.json"] = np.frombuffer(json.dumps(text).encode(), np.uint8)
        save(path, **kept | changed)

    return damage


def of_unknown_compression(path):
    raw = bytearray(path.read_bytes())
    entry = raw.index(b"PK\x01\x02")  # of the first array, in the directory
    raw[entry + 10] = 99  # its method
    path.write_bytes(raw)


def with_a_text_entry(path):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.txt", "no array")


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-200]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "text": lambda path: path.write_bytes(b"no"),
    "a pickle": lambda path: path.write_bytes(b"\x80\x04N."),
    "one flipped bit": flipped,
    "unknown compression": of_unknown_compression,
    "compressed": rewritten(np.savez_compressed),
    "an entry that is no array": with_a_text_entry,
    "objects": rewritten(extra=np.array([{}], dtype=object)),
    "metadata of numbers": rewritten(**{"meta.json": np.zeros(3)}),
    "metadata that is a list": rewritten(meta=lambda _: []),
    "metadata of another type": rewritten(meta=lambda meta: meta | {"numerics": 3}),
    "a negative step": rewritten(meta=lambda meta: meta | {"step": -6}),
    "another step": rewritten(meta=lambda meta: meta | {"step": 5}),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link to a file that is gone": lambda path: (path.unlink(), path.symlink_to("gone.npz")),
    "no archive of cloudgan": lambda path: np.savez(path, a=np.zeros(3)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_renamed_and_the_one_before_is_used(tmp_path, damage):
    folder, shown = RunFolder(tmp_path), []
    saved = Checkpoints(folder.checkpoints, keep=2, may_rename=True)
    save(saved, 3, 6)
    damage(saved.path_of(6))
    content = saved.path_of(6).is_file() and saved.path_of(6).read_bytes()
    assert saved.resume_point(folder, shown.append).state.step == 3
    kept = folder.checkpoints / "step-000000006.npz.damaged"
    assert content == (kept.is_file() and kept.read_bytes()), "nothing is deleted"
    (line,) = record.read(folder.record_file).lines
    assert (line.kind, line.step, line.path) == ("damaged", 6, str(kept))
    assert "step-000000006.npz: " in line.reason
    assert "pickle" not in line.reason
    assert saved.resume_point(folder, shown.append).state.step == 3
    (said,) = shown
    assert said.endswith("kept as step-000000006.npz.damaged"), "once"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"generator/001/bias": np.zeros(5, np.float32)}, r"shape \(5,\), this model \(4,\)"),
        ({"generator/001/bias": np.zeros(4)}, "type float64, this model float32"),
        ({"generator/001/bias": np.array(["x"] * 4)}, "type <U1, this model float32"),
        ({"generator/002/bias": np.zeros(4)}, "variables do not match this model"),
        ({"generator/001/bias": np.full(4, np.nan, np.float32)}, "layer/kernel: 4 of 4 values"),
    ],
)
def test_arrays_that_do_not_fit_the_networks_set_the_checkpoint_aside(tmp_path, changed, reason):
    folder, variables = RunFolder(tmp_path), blank()
    saved = Checkpoints(folder.checkpoints, keep=2, may_rename=True)
    save(saved, 3, 6)
    rewritten(**changed)(saved.path_of(6))
    newest = saved.resume_point(folder, print)
    with pytest.raises(DataError, match=reason) as refused:
        restore(newest, variables)
    assert not any(variable.value.any() for variable in variables.values())
    before = saved.resume_point(folder, print, refused=(newest, str(refused.value)))
    assert (before.state.step, saved.steps()) == (3, [3])


def test_without_a_checkpoint_that_can_be_used_all_are_named_and_none_is_renamed(checkpoints):
    save(checkpoints, 3, 6)
    for step in (3, 6):
        flipped(checkpoints.path_of(step))
    for _ in range(2):
        with pytest.raises(DataError, match=r"no usable.*step-000000006.npz.*step-000000003.npz"):
            checkpoints.newest()
    assert checkpoints.steps() == [3, 6]


def test_a_run_whose_checkpoints_are_all_renamed_does_not_start_again(checkpoints):
    path = save(checkpoints, 3)
    path.rename(path.with_name(f"{path.name}.damaged"))
    with pytest.raises(DataError, match=r"step-000000003.npz.damaged"):
        checkpoints.newest()


def test_a_worker_that_is_not_the_chief_takes_the_same_checkpoint_and_renames_nothing(tmp_path):
    saved = Checkpoints(tmp_path, keep=2)
    save(saved, 3, 6)
    flipped(saved.path_of(6))
    for may_rename, there in ((False, [3, 6]), (True, [3]), (False, [3])):
        found, _ = Checkpoints(tmp_path, may_rename=may_rename).newest()
        assert (found.state.step, saved.steps()) == (3, there)


def test_weights_that_are_not_finite_are_neither_saved_nor_used(checkpoints):
    path = save(checkpoints, 1)
    bad = np.array([0, np.inf, np.nan, 1], np.float32)
    with pytest.raises(CloudganError, match="step 2 not saved: 2 of 4 values of generator/001"):
        checkpoints.save(state(2), arrays() | {"generator/001/bias": bad})
    text = {"generator/001/bias": np.array(["x"]), "optimizer/000": np.array(["y"])}
    with pytest.raises(CloudganError, match="generator/001/bias has type <U1, not numbers"):
        checkpoints.save(state(2), arrays() | text)
    assert checkpoints.steps() == [1]
    rewritten(**{"generator/001/bias": bad})(path)
    weights = [Variable(np.zeros(size, np.float32), "conv/bias") for size in ((3, 4), (4,))]
    with pytest.raises(DataError, match=r"layer conv/bias: 2 of 4 values .* are NaN or infinite"):
        restore_part(read_checkpoint(path), "generator", weights)
    assert not weights[0].value.any()


def test_the_store_has_what_the_folder_has(bucket):
    store, machine = bucket
    save(machine("a"), 0, 2, 4)
    assert names(store) == ["0.npz", "4.npz"]


def test_the_copy_is_used_where_the_folder_is_behind_or_damaged(bucket, tmp_path):
    _, machine = bucket
    save(machine("a"), 2, 4, best=2)
    latest, damaged = machine("b").newest()
    assert (latest.path, latest.state, damaged) == (
        tmp_path / "b" / "step-000000004.npz",
        state(4, best=2),
        [],
    )
    assert read_checkpoint(machine("b").fetch(2)).state == state(2, best=2)
    assert not machine("b").fetch(3).exists()
    flipped(latest.path)
    found, (damaged,) = machine("b").newest()
    assert (found.state.step, found.path) == (4, latest.path)
    assert damaged.path.name == "step-000000004.npz.damaged"
    assert read_checkpoint(latest.path).state.step == 4


def test_a_damaged_copy_in_the_bucket_is_renamed_there(bucket):
    store, machine = bucket
    save(machine("a", keep=2), 3, 6)
    flipped(store / "step-000000006.npz")
    assert machine("b").newest()[0].state.step == 3
    assert names(store) == ["3.npz", "6.npz.damaged"]
    assert machine("c").newest()[0].state.step == 3


def test_a_slow_store_holds_up_the_next_checkpoint_only(bucket, monkeypatch):
    store, machine = bucket
    put, is_released = FolderStore.put, threading.Event()

    def slow(*arguments, **options):
        assert is_released.wait(60)
        put(*arguments, **options)

    monkeypatch.setattr(FolderStore, "put", slow)
    saved = machine("a")
    saved.save(state(2), arrays())
    assert (saved.steps(), saved.is_copied(), names(store)) == ([2], False, [])
    threading.Timer(0.2, is_released.set).start()
    saved.save(state(4), arrays())
    assert is_released.is_set()
    assert saved.is_copied(within=None)
    assert names(store) == ["4.npz"]


def test_a_store_that_fails_leaves_the_checkpoint_here_and_gets_the_best_later(bucket):
    store, machine = bucket
    saved = machine("a")
    store.rmdir()
    store.write_text("a file where the folder is to be")
    path = save(saved, 2, 4, best=2)
    assert "bucket" in saved.copy_problem
    assert read_checkpoint(path).state.step == 4
    store.unlink()
    store.mkdir()
    save(saved, 6, best=2)
    assert (saved.copy_problem, names(store)) == (None, ["2.npz", "6.npz"])


def test_a_login_that_fails_does_not_stop_the_training(tmp_path, monkeypatch):
    pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:9/v1/credentials")
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0.01)
    saved = Checkpoints(tmp_path / "a", keep=1, url="s3://bucket/run/checkpoints")
    for step in (2, 4):
        assert save(saved, step).exists()
        assert "it needs s3:ListBucket" in saved.copy_problem


def test_an_old_copy_that_cannot_be_deleted_does_not_stop_the_training(bucket):
    store, machine = bucket
    saved = machine("a")
    path = save(saved, 2)
    (store / path.name).unlink()
    (store / path.name).mkdir()
    save(saved, 4)
    assert (saved.copy_problem, saved.steps()) == (None, [4])


def best(metric, **others):
    return BestCheckpoint(step=10, epoch=0, metrics={"metric": metric} | others)


@pytest.mark.parametrize(
    ("one", "other", "criterion", "is_better"),
    [
        (best(9.0), None, "", True),
        (best(math.nan), None, "", False),
        (best(0.1), best(0.2), "", True),
        (best(0.2), best(0.2), "", False),
        (best(0.5, hits=0.8), best(0.1, hits=0.7), "hits>=0.9", True),
        (best(0.5, hits=0.8), best(0.1), "hits>=0.9", True),
        (best(0.1), best(0.5, hits=0.8), "hits>=0.9", False),
    ],
)
def test_the_first_with_the_best_number_ranks_first(one, other, criterion, is_better):
    ranking = parse_stop_criterion(criterion) if criterion else DEFAULT_RANKING
    assert one.is_better_than(other, ranking) is is_better
