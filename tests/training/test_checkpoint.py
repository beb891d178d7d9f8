"""Checkpoints are complete or absent, and rank the best one."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from cloudgan.core.errors import DataError
from cloudgan.data.summary import TrainingSummary
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import Numerics
from cloudgan.schema.stop_criterion import DEFAULT_RANKING, parse_stop_criterion
from cloudgan.training.checkpoint import (
    BestCheckpoint,
    Checkpoints,
    State,
    read_state,
    restore,
    restore_part,
)

pytestmark = pytest.mark.tf


class Variable:
    """As much of a Keras variable as a checkpoint touches."""

    def __init__(self, value):
        self.value = np.asarray(value)

    @property
    def shape(self):
        return self.value.shape

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


def blank():
    return {name: Variable(np.zeros_like(value)) for name, value in arrays().items()}


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints", keep=2)


def test_what_was_saved_comes_back_bit_for_bit(checkpoints):
    path, size = checkpoints.save(state(5), arrays())
    variables = blank()
    assert restore(path, variables) == state(5)
    assert size == path.stat().st_size
    for name, value in arrays().items():
        np.testing.assert_array_equal(variables[name].value, value)


def test_the_newest_few_are_kept_and_the_untrained_one_for_ever(checkpoints):
    for step in (0, 3, 6, 9):
        checkpoints.save(state(step), arrays())
    assert checkpoints.steps() == [0, 6, 9]
    assert checkpoints.latest() == checkpoints.path_of(9)


def test_the_best_is_kept_however_old_until_another_is_better(checkpoints):
    for step, best in ((0, None), (3, 3), (6, 3), (9, 3), (12, 3)):
        checkpoints.save(state(step, best=best), arrays())
    assert checkpoints.steps() == [0, 3, 9, 12]
    checkpoints.save(state(15, best=15), arrays())
    assert checkpoints.steps() == [0, 12, 15]


def test_what_was_measured_of_the_best_comes_back_even_where_it_is_no_number(checkpoints):
    best = BestCheckpoint(step=3, epoch=0, metrics={"metric": 0.2, "hits": np.nan})
    path, _ = checkpoints.save(state(5).model_copy(update={"best": best}), arrays())
    found = read_state(path).best
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
    assert read_state(path) == state(5)


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
    assert restore(elsewhere.fetch(2), blank()) == state(2, best=2)
    assert not elsewhere.fetch(3).exists()


def test_one_network_is_read_alone_in_its_own_order(checkpoints):
    path, _ = checkpoints.save(state(1), arrays())
    weights = [Variable(np.zeros((3, 4))), Variable(np.zeros(4))]
    restore_part(path, "generator", weights)
    np.testing.assert_array_equal(weights[0].value, arrays()["generator/000/kernel"])
    with pytest.raises(DataError, match="ema_generator has 0 arrays, in this model 2"):
        restore_part(path, "ema_generator", weights)


@pytest.mark.parametrize("damage", ["empty", "short", "text", "flipped"])
def test_a_damaged_file_is_named_and_nothing_is_assigned(checkpoints, damage):
    path, size = checkpoints.save(state(1), arrays())
    raw = bytearray(path.read_bytes())
    if damage == "flipped":
        raw[100] ^= 0xFF  # inside the first array
    path.write_bytes({"empty": b"", "short": raw[: size // 2], "text": b"no"}.get(damage, raw))
    variables = blank()
    with pytest.raises(DataError, match=path.name):
        restore(path, variables)
    assert not any(variable.value.any() for variable in variables.values())


def test_variables_of_another_model_are_refused(checkpoints):
    path, _ = checkpoints.save(state(1), arrays())
    variables = blank()
    variables["generator/001/bias"] = Variable(np.zeros(5))
    with pytest.raises(DataError, match=r"generator/001/bias has shape \(4,\), this model \(5,\)"):
        restore(path, variables)
    assert not variables["generator/000/kernel"].value.any()
    del variables["generator/001/bias"]
    with pytest.raises(DataError, match="variables do not match this model"):
        restore(path, variables)


def test_a_foreign_archive_is_no_checkpoint(tmp_path):
    path = tmp_path / "foreign.npz"
    np.savez(path, a=np.zeros(3))
    with pytest.raises(DataError, match="not a cloudgan checkpoint"):
        read_state(path)


def test_a_copy_in_a_store_is_fetched_where_the_folder_is_behind(tmp_path):
    url = f"file://{tmp_path / 'bucket'}"
    (tmp_path / "bucket").mkdir()
    Checkpoints(tmp_path / "a", keep=1, url=url).save(state(4), arrays())
    elsewhere = Checkpoints(tmp_path / "b", keep=1, url=url)
    latest = elsewhere.latest()
    assert latest == tmp_path / "b" / "step-000000004.npz"
    assert restore(latest, blank()) == state(4)


def test_the_store_keeps_no_more_than_the_folder(tmp_path):
    (tmp_path / "bucket").mkdir()
    saved = Checkpoints(tmp_path / "a", keep=1, url=f"file://{tmp_path / 'bucket'}")
    for step in (0, 2, 4):
        saved.save(state(step), arrays())
    names = sorted(path.name for path in (tmp_path / "bucket").rglob("step-*.npz"))
    assert names == ["step-000000000.npz", "step-000000004.npz"]


def test_a_store_that_fails_leaves_the_checkpoint_here_and_is_told(tmp_path):
    (tmp_path / "bucket").mkdir()
    saved = Checkpoints(tmp_path / "a", keep=3, url=f"file://{tmp_path / 'bucket'}")
    (tmp_path / "bucket").rmdir()
    (tmp_path / "bucket").write_text("a file where the folder was")
    path, _ = saved.save(state(2), arrays())
    assert restore(path, blank()) == state(2)
    assert "bucket" in (saved.copy_problem or "")


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
