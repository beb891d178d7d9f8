"""Checkpoints are complete or absent, and rank the best one."""

from __future__ import annotations

import json
import math
import zipfile

import numpy as np
import pytest

from cloudgan.core.errors import CloudganError, DataError
from cloudgan.data.summary import TrainingSummary
from cloudgan.models.shower_frame import CLASSES, NODES
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import Numerics
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.stop_criterion import DEFAULT_RANKING, parse_stop_criterion
from cloudgan.training.checkpoint import (
    BestCheckpoint,
    Checkpoints,
    State,
    not_finite,
    read_checkpoint,
    restore,
    restore_part,
    resume_point,
)

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
    return State(
        best=None if best is None else BestCheckpoint(step=best, epoch=0, metrics={"metric": 0.2}),
        step=step,
        train_seconds=1.5,
        config_hash="0" * 16,
        config=RunConfig(),
        numerics=Numerics(
            processor="p",
            device="CPU",
            threads=2,
            replicas=1,
            workers=1,
            global_batch_size=8,
            precision="float32",
            math_library="oneDNN",
            tensorflow="2",
            keras="3",
        ),
        summary=TrainingSummary(
            count=10,
            sampled=10,
            energy_range_gev=(10, 100),
            theta_range_rad=None,
            mtheta_range_rad=(1, 2),
            layer_fraction=(0.1,) * 25,
            mean_image_sum_per_unit=1.0,
            contained_fraction=1.0,
            angle_fit=None,
        ),
    )


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "generator/000/kernel": rng.normal(size=(3, 4)).astype(np.float32),
        "generator/001/bias": rng.normal(size=4).astype(np.float32),
        "optimizer/000/iteration": np.int64(7),
    }


def restored(path, variables):
    """Restores a file; returns its state."""
    found = read_checkpoint(path)
    restore(found, variables)
    return found.state


def blank():
    return {name: Variable(np.zeros_like(value)) for name, value in arrays().items()}


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints", keep=2)


def test_what_was_saved_comes_back_bit_for_bit(checkpoints):
    path, size = checkpoints.save(state(5), arrays())
    variables = blank()
    assert restored(path, variables) == state(5)
    assert size == path.stat().st_size
    for name, value in arrays().items():
        np.testing.assert_array_equal(variables[name].value, value)


def test_the_newest_few_are_kept_and_the_untrained_one_for_ever(checkpoints):
    for step in (0, 3, 6, 9):
        checkpoints.save(state(step), arrays())
    assert checkpoints.steps() == [0, 6, 9]
    assert checkpoints.newest()[0].path == checkpoints.path_of(9)


def test_the_best_is_kept_however_old_until_another_is_better(checkpoints):
    for step, best in ((0, None), (3, 3), (6, 3), (9, 3), (12, 3)):
        checkpoints.save(state(step, best=best), arrays())
    assert checkpoints.steps() == [0, 3, 9, 12]
    checkpoints.save(state(15, best=15), arrays())
    assert checkpoints.steps() == [0, 12, 15]


def test_what_was_measured_of_the_best_comes_back_even_where_it_is_no_number(checkpoints):
    best = BestCheckpoint(step=3, epoch=0, metrics={"metric": 0.2, "hits": np.nan})
    path, _ = checkpoints.save(state(5).model_copy(update={"best": best}), arrays())
    found = read_checkpoint(path).state.best
    assert (found.step, found.metrics["metric"]) == (3, 0.2)
    assert np.isnan(found.metrics["hits"])
    assert found.as_json()["metrics"] == {"metric": 0.2, "hits": None}


def test_checkpoints_from_before_generators_were_validated_are_read(checkpoints):
    path, _ = checkpoints.save(state(5), arrays())
    with np.load(path) as archive:
        kept = {name: archive[name] for name in archive.files}
    meta = json.loads(kept["meta.json"].tobytes())
    del meta["best"], meta["validated_step"]
    np.savez(path, **kept | {"meta.json": np.frombuffer(json.dumps(meta).encode(), np.uint8)})
    assert read_checkpoint(path).state == state(5)


def test_marginals_that_were_measured_before_the_spectrum_are_read_without_corrections(checkpoints):
    limits = {"generator/002/limits": np.ones(4, np.float32)}
    path, _ = checkpoints.save(state(5), arrays() | limits)
    found = read_checkpoint(path).arrays
    assert set(found) == {*arrays(), *limits, "generator/003/spectrum"}
    assert found["generator/003/spectrum"].shape == (CLASSES, NODES)
    assert not found["generator/003/spectrum"].any()


def test_the_best_gets_to_the_store_with_the_next_one_where_it_could_not_before(tmp_path):
    bucket = tmp_path / "bucket"
    saved = Checkpoints(tmp_path / "a", keep=1, url=f"file://{bucket}")
    bucket.write_text("a file where the folder is to be")
    saved.save(state(2, best=2), arrays())
    saved.save(state(4, best=2), arrays())
    assert saved.copy_problem
    bucket.unlink()
    bucket.mkdir()
    saved.save(state(6, best=2), arrays())
    assert sorted(path.name for path in bucket.iterdir()) == [
        "step-000000002.npz",
        "step-000000006.npz",
    ]


def test_a_checkpoint_that_only_the_store_has_is_fetched_when_it_is_asked_for(tmp_path):
    (tmp_path / "bucket").mkdir()
    url = f"file://{tmp_path / 'bucket'}"
    saved = Checkpoints(tmp_path / "a", keep=1, url=url)
    for step in (2, 4):
        saved.save(state(step, best=2), arrays())
    elsewhere = Checkpoints(tmp_path / "b", keep=1, url=url)
    assert restored(elsewhere.fetch(2), blank()) == state(2, best=2)
    assert not elsewhere.fetch(3).exists()


def test_one_network_is_read_alone_in_its_own_order(checkpoints):
    path, _ = checkpoints.save(state(1), arrays())
    weights = [Variable(np.zeros(size, np.float32)) for size in ((3, 4), (4,))]
    restore_part(read_checkpoint(path), "generator", weights)
    np.testing.assert_array_equal(weights[0].value, arrays()["generator/000/kernel"])
    with pytest.raises(DataError, match="ema_generator has 0 arrays, in this model 2"):
        restore_part(read_checkpoint(path), "ema_generator", weights)


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
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_renamed_and_the_one_before_is_used(tmp_path, damage):
    folder = RunFolder(tmp_path)
    saved = Checkpoints(folder.checkpoints, keep=2, may_rename=True)
    for step in (3, 6):
        saved.save(state(step), arrays())
    damage(saved.path_of(6))
    content = saved.path_of(6).is_file() and saved.path_of(6).read_bytes()
    shown = []
    found = resume_point(saved, folder, shown.append)
    assert found.state.step == 3
    kept = folder.checkpoints / "step-000000006.npz.damaged"
    assert content == (kept.is_file() and kept.read_bytes()), "nothing is deleted"
    (line,) = record.read(folder.record_file).lines
    assert (line.kind, line.step, line.path) == ("damaged", 6, str(kept))
    assert "step-000000006.npz: " in line.reason
    assert "pickle" not in line.reason
    (said,) = shown
    assert said.endswith("kept as step-000000006.npz.damaged")
    assert resume_point(saved, folder, shown.append).state.step == 3
    assert len(shown) == 1, "it is reported once"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"generator/001/bias": np.zeros(5, np.float32)}, r"shape \(5,\), this model \(4,\)"),
        ({"generator/001/bias": np.zeros(4)}, "type float64, this model float32"),
        ({"generator/002/bias": np.zeros(4)}, "variables do not match this model"),
        ({"generator/001/bias": np.full(4, np.nan, np.float32)}, "layer/kernel: 4 of 4 values"),
    ],
)
def test_arrays_that_do_not_fit_the_networks_set_the_checkpoint_aside(tmp_path, changed, reason):
    folder = RunFolder(tmp_path)
    saved = Checkpoints(folder.checkpoints, keep=2, may_rename=True)
    for step in (3, 6):
        saved.save(state(step), arrays())
    rewritten(**changed)(saved.path_of(6))
    newest = resume_point(saved, folder, lambda _: None)
    variables = blank()
    with pytest.raises(DataError, match=reason) as refused:
        restore(newest, variables)
    assert not any(variable.value.any() for variable in variables.values())
    before = resume_point(saved, folder, lambda _: None, refused=(newest, str(refused.value)))
    assert before.state.step == 3
    assert saved.steps() == [3]


def test_without_a_checkpoint_that_can_be_used_all_are_named_and_none_is_renamed(tmp_path):
    saved = Checkpoints(tmp_path, keep=2, may_rename=True)
    for step in (3, 6):
        path, _ = saved.save(state(step), arrays())
        flipped(path)
    for _ in range(2):
        with pytest.raises(DataError, match=r"no usable.*step-000000006.npz.*step-000000003.npz"):
            saved.newest()
    assert saved.steps() == [3, 6]
    assert DataError.exit_code == 2


def test_a_run_whose_checkpoints_are_all_renamed_does_not_start_again(tmp_path):
    saved = Checkpoints(tmp_path, keep=2, may_rename=True)
    path, _ = saved.save(state(3), arrays())
    path.rename(path.with_name(f"{path.name}.damaged"))
    with pytest.raises(DataError, match=r"step-000000003.npz.damaged"):
        saved.newest()


def test_a_worker_that_is_not_the_chief_takes_the_same_checkpoint_and_renames_nothing(tmp_path):
    saved = Checkpoints(tmp_path, keep=2, may_rename=True)
    for step in (3, 6):
        saved.save(state(step), arrays())
    flipped(saved.path_of(6))
    for may_rename, there in ((False, [3, 6]), (True, [3]), (False, [3])):
        found, _ = Checkpoints(tmp_path, may_rename=may_rename).newest()
        assert found.state.step == 3
        assert saved.steps() == there


def test_the_copy_in_the_bucket_replaces_a_damaged_file(tmp_path):
    (tmp_path / "bucket").mkdir()
    saved = Checkpoints(
        tmp_path / "a", keep=2, url=f"file://{tmp_path / 'bucket'}", may_rename=True
    )
    for step in (3, 6):
        saved.save(state(step), arrays())
    flipped(saved.path_of(6))
    found, (damaged,) = saved.newest()
    assert (found.state.step, found.path) == (6, saved.path_of(6))
    assert damaged.path.name == "step-000000006.npz.damaged"
    assert read_checkpoint(saved.path_of(6)).state.step == 6


def test_a_damaged_copy_in_the_bucket_is_renamed_there(tmp_path):
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    saved = Checkpoints(tmp_path / "a", keep=2, url=f"file://{bucket}")
    for step in (3, 6):
        saved.save(state(step), arrays())
    flipped(bucket / "step-000000006.npz")
    elsewhere = Checkpoints(tmp_path / "b", url=f"file://{bucket}", may_rename=True)
    assert elsewhere.newest()[0].state.step == 3
    names = sorted(path.name for path in bucket.iterdir())
    assert names == ["step-000000003.npz", "step-000000006.npz.damaged"]
    nowhere = Checkpoints(tmp_path / "c", url=f"file://{bucket}", may_rename=True)
    assert nowhere.newest()[0].state.step == 3


def test_weights_that_are_not_finite_are_neither_saved_nor_used(checkpoints):
    path, _ = checkpoints.save(state(1), arrays())
    bad = np.array([0, np.inf, np.nan, 1], np.float32)
    with pytest.raises(CloudganError, match="step 2 not saved: 2 of 4 values of generator/001"):
        checkpoints.save(state(2), arrays() | {"generator/001/bias": bad})
    assert checkpoints.steps() == [1]
    rewritten(**{"generator/001/bias": bad})(path)
    weights = [Variable(np.zeros(size, np.float32), "conv/bias") for size in ((3, 4), (4,))]
    with pytest.raises(DataError, match=r"layer conv/bias: 2 of 4 values .* are NaN or infinite"):
        restore_part(read_checkpoint(path), "generator", weights)
    assert not weights[0].value.any()


def test_variables_of_another_model_are_refused(checkpoints):
    path, _ = checkpoints.save(state(1), arrays())
    variables = blank()
    variables["generator/001/bias"] = Variable(np.zeros(5, np.float32))
    with pytest.raises(DataError, match=r"generator/001/bias has shape \(4,\), this model \(5,\)"):
        restored(path, variables)
    assert not variables["generator/000/kernel"].value.any()
    del variables["generator/001/bias"]
    with pytest.raises(DataError, match="variables do not match this model"):
        restored(path, variables)


def test_a_foreign_archive_is_no_checkpoint(tmp_path):
    path = tmp_path / "foreign.npz"
    np.savez(path, a=np.zeros(3))
    with pytest.raises(DataError, match="not a cloudgan checkpoint"):
        read_checkpoint(path)


def test_a_copy_in_a_store_is_fetched_where_the_folder_is_behind(tmp_path):
    url = f"file://{tmp_path / 'bucket'}"
    (tmp_path / "bucket").mkdir()
    Checkpoints(tmp_path / "a", keep=1, url=url).save(state(4), arrays())
    elsewhere = Checkpoints(tmp_path / "b", keep=1, url=url)
    latest, damaged = elsewhere.newest()
    assert latest.path == tmp_path / "b" / "step-000000004.npz"
    assert not damaged
    assert restored(latest.path, blank()) == state(4)


def test_the_store_keeps_no_more_than_the_folder(tmp_path):
    (tmp_path / "bucket").mkdir()
    saved = Checkpoints(tmp_path / "a", keep=1, url=f"file://{tmp_path / 'bucket'}")
    for step in (0, 2, 4):
        saved.save(state(step), arrays())
    names = sorted(path.name for path in (tmp_path / "bucket").rglob("step-*.npz"))
    assert names == ["step-000000000.npz", "step-000000004.npz"]


def test_a_store_that_fails_leaves_the_checkpoint_here_and_is_reported(tmp_path):
    (tmp_path / "bucket").mkdir()
    saved = Checkpoints(tmp_path / "a", keep=3, url=f"file://{tmp_path / 'bucket'}")
    (tmp_path / "bucket").rmdir()
    (tmp_path / "bucket").write_text("a file where the folder was")
    path, _ = saved.save(state(2), arrays())
    assert restored(path, blank()) == state(2)
    assert "bucket" in (saved.copy_problem or "")


def test_a_login_that_fails_does_not_stop_the_training(tmp_path, monkeypatch):
    pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:9/v1/credentials")
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0.01)
    saved = Checkpoints(tmp_path / "a", keep=1, url="s3://bucket/run/checkpoints")
    for step in (2, 4):
        path, _ = saved.save(state(step), arrays())
        assert restored(path, blank()) == state(step)
        assert "it needs s3:ListBucket" in saved.copy_problem


def test_an_old_copy_that_cannot_be_deleted_does_not_stop_the_training(tmp_path):
    bucket = tmp_path / "bucket"
    saved = Checkpoints(tmp_path / "a", keep=1, url=f"file://{bucket}")
    saved.save(state(2), arrays())
    (bucket / "step-000000002.npz").unlink()
    (bucket / "step-000000002.npz").mkdir()
    path, _ = saved.save(state(4), arrays())
    assert restored(path, blank()) == state(4)
    assert saved.copy_problem is None
    assert saved.steps() == [4]


def best(metric, **others):
    return BestCheckpoint(step=10, epoch=0, metrics={"metric": metric} | others)


def test_the_first_that_has_a_number_is_the_best():
    assert best(9.0).is_better_than(None, DEFAULT_RANKING)
    assert not best(math.nan).is_better_than(None, DEFAULT_RANKING)


def test_of_two_that_are_as_good_the_earlier_stays():
    assert best(0.1).is_better_than(best(0.2), DEFAULT_RANKING)
    assert not best(0.2).is_better_than(best(0.2), DEFAULT_RANKING)


def test_another_number_ranks_those_that_were_measured_before():
    ranking = parse_stop_criterion("hits>=0.9")
    assert best(0.5, hits=0.8).is_better_than(best(0.1, hits=0.7), ranking)
    assert best(0.5, hits=0.8).is_better_than(best(0.1), ranking)
    assert not best(0.1).is_better_than(best(0.5, hits=0.8), ranking)


def test_weights_of_another_type_than_numbers_are_named():
    named = not_finite({"generator/00": np.array(["x"]), "optimizer/00": np.array(["y"])})
    assert named == "generator/00 has type <U1, not numbers"
