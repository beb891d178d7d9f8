from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from cloudgan.core.errors import ConfigError
from cloudgan.data import store as store_module
from cloudgan.data.batches import ReadingTime, TrainingSet
from cloudgan.data.epoch_sampler import EpochSampler
from cloudgan.data.input_pipeline import input_pipeline, reader_error
from cloudgan.schema.presets import find_preset
from data.conftest import flip, make_store

pytestmark = pytest.mark.tf

GLOBAL_BATCH = 8


@pytest.fixture
def store(tmp_path, public_hdf5):
    return make_store(tmp_path / "set", public_hdf5)


@pytest.fixture
def training_set(store):
    return TrainingSet.open(store, find_preset("mini"))


class SlowSet:
    """Showers with slow reads: each batch takes a while, as from a bucket; counts the reads."""

    SECONDS = 0.1

    def __init__(self, training_set):
        self.model, self._set = training_set.model, training_set
        self.begun = self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()

    def train_cells(self, rows):
        with self._lock:
            self.begun += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.SECONDS)
        with self._lock:
            self.at_once -= 1
        return self._set.train_cells(rows)


def take(training_set, count, *, first=0, local=1, replicas=1, start=0, threads=2):
    order = EpochSampler(training_set.train_counts, 3, GLOBAL_BATCH, blocks_per_group=2)
    dataset = input_pipeline(
        training_set,
        order,
        worker_first_replica=first,
        local_replicas=local,
        replicas=replicas,
        start_step=start,
        threads=threads,
    )
    return dataset, list(itertools.islice(dataset.as_numpy_iterator(), count))


def joined(elements, name):
    return np.concatenate([element[name] for element in elements])


def test_shapes_are_static(training_set):
    dataset, _ = take(training_set, 0, local=2, replicas=2)
    spec = dataset.element_spec
    assert spec["image"] == tf.TensorSpec((4, 17, 17, 25, 1), tf.float32)
    assert {spec[n].shape.as_list().__repr__() for n in ("energy", "angle", "ecal")} == {"[4, 1]"}
    assert spec["step"] == spec["first_row"] == tf.TensorSpec((1,), tf.int64)


def test_elements_are_the_rows_of_the_order(training_set):
    order = EpochSampler(training_set.train_counts, 3, GLOBAL_BATCH, blocks_per_group=2)
    _, elements = take(training_set, 5)
    for step, element in enumerate(elements):
        batch = training_set.train_rows(order.rows(step, 0, GLOBAL_BATCH))
        np.testing.assert_array_equal(element["image"][..., 0], batch.image)
        for name in ("energy", "angle", "ecal"):
            np.testing.assert_array_equal(element[name], getattr(batch, name))


def test_images_that_are_changed_on_the_way_leave_no_trace_in_later_ones(training_set):
    order = EpochSampler(training_set.train_counts, 3, GLOBAL_BATCH, blocks_per_group=2)
    dataset, _ = take(training_set, 0)

    def changed(element):
        ones = tf.raw_ops.Relu(features=element["image"] + 1.0)
        return element["image"], tf.raw_ops.Neg(x=tf.raw_ops.Cos(x=element["image"])), ones

    later = dataset.map(changed)
    for step, (image, *_) in enumerate(itertools.islice(later, 12)):
        expected = training_set.train_rows(order.rows(step, 0, GLOBAL_BATCH)).image
        np.testing.assert_array_equal(image.numpy()[..., 0], expected)


@pytest.mark.parametrize(("workers", "local"), [(1, 2), (1, 4), (2, 1), (2, 2), (4, 1)])
def test_replicas_and_workers_share_the_global_batch_of_one_replica(training_set, workers, local):
    _, alone = take(training_set, 6)
    replicas = workers * local
    shares = [
        take(training_set, 6 * local, first=w * local, local=local, replicas=replicas)[1]
        for w in range(workers)
    ]
    for step in range(6):
        parts = [
            element for share in shares for element in share[step * local : (step + 1) * local]
        ]
        assert [int(p["first_row"][0]) for p in parts] == [
            r * GLOBAL_BATCH // replicas for r in range(replicas)
        ]
        assert {int(part["step"][0]) for part in parts} == {step}
        for name in ("image", "energy", "angle", "ecal"):
            np.testing.assert_array_equal(joined(parts, name), alone[step][name])


def test_a_resumed_feed_continues_where_the_other_stopped(training_set):
    _, unbroken = take(training_set, 14, local=2, replicas=2)
    _, resumed = take(training_set, 4, local=2, replicas=2, start=5)
    for one, other in zip(unbroken[10:], resumed, strict=True):
        for name, value in one.items():
            np.testing.assert_array_equal(value, other[name])


def test_the_elements_do_not_depend_on_threads(training_set):
    _, one = take(training_set, 12, threads=1)
    _, many = take(training_set, 12, threads=8)
    np.testing.assert_array_equal(joined(one, "image"), joined(many, "image"))


def test_mirrored_replicas_get_consecutive_elements(training_set):
    order = EpochSampler(training_set.train_counts, 3, GLOBAL_BATCH)
    devices = tf.config.list_logical_devices("CPU")
    strategy = tf.distribute.MirroredStrategy([device.name for device in devices])
    replicas = strategy.num_replicas_in_sync
    dataset = strategy.distribute_datasets_from_function(
        lambda _: input_pipeline(
            training_set,
            order,
            worker_first_replica=0,
            local_replicas=replicas,
            replicas=replicas,
            start_step=2,
            threads=2,
        )
    )
    iterator = iter(dataset)
    for _ in range(2):
        values = strategy.experimental_local_results(next(iterator)["first_row"])
        size = GLOBAL_BATCH // replicas
        assert [int(value[0]) for value in values] == [r * size for r in range(replicas)]


def test_a_global_batch_that_the_replicas_do_not_divide_is_refused(training_set):
    with pytest.raises(ConfigError, match="batch of 8 is not divisible by 3 replicas"):
        take(training_set, 1, replicas=3)


def test_a_damaged_file_surfaces_as_a_data_error(store, training_set, monkeypatch):
    monkeypatch.setattr(store_module, "_LOOK_SECONDS", 0)
    flip(store / "part-00001-values.npy", -5)
    with pytest.raises(tf.errors.OpError) as caught:
        take(training_set, 6)
    error = reader_error(caught.value)
    assert error is not None
    assert "part-00001-values.npy is damaged" in str(error)
    assert reader_error(ValueError("something else")) is None


def test_a_feed_that_is_drained_keeps_its_readers_busy_and_a_full_one_lets_them_rest(training_set):
    slow, reading = SlowSet(training_set), ReadingTime()
    order = EpochSampler(training_set.train_counts, 3, GLOBAL_BATCH, blocks_per_group=2)
    dataset = input_pipeline(
        slow,
        order,
        worker_first_replica=0,
        local_replicas=1,
        replicas=1,
        start_step=0,
        threads=2,
        reading=reading,
    )
    elements = iter(dataset)
    for _ in range(12):
        next(elements)
    assert slow.most_at_once == 2
    settled = None
    while settled != (slow.begun, 0):
        settled = (slow.begun, slow.at_once)
        time.sleep(5 * slow.SECONDS)
        assert slow.begun < 12 + 24, "nobody takes batches, and the readers go on"
    assert reading.seconds >= slow.begun * slow.SECONDS
    before = reading.seconds
    time.sleep(2 * slow.SECONDS)
    assert (reading.seconds, slow.begun) == (before, settled[0])
