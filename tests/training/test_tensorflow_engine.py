"""Steps are compiled in the background; held-out losses count every shower once, for any number of workers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from cloudgan.data.batches import Batch
from cloudgan.data.input_pipeline import FLOATS
from cloudgan.schema.losses import PASSES, loss_columns
from cloudgan.training.tensorflow_engine import (
    compile_steps,
    dummy_batches,
    held_out_losses,
    held_out_pipeline,
    no_votes,
    precompiled,
)

pytestmark = pytest.mark.tf


def held_out(count):
    numbers = np.arange(count, dtype=np.float32)[:, None]
    image = np.zeros((count, 3, 3, 4), np.float32) + numbers[:, :, None, None]
    return Batch(image, numbers, numbers, numbers)


def feed(count, own, *, batch=4, replicas=2):
    return held_out_pipeline(held_out(count), global_batch_size=batch, replicas=replicas, own=own)


def shares(count, own):
    return list(feed(count, own).take(count // 4 * len(own)).as_numpy_iterator())


def test_two_workers_together_hold_every_shower_once_and_in_place():
    both = [shares(8, range(worker, worker + 1)) for worker in range(2)]
    rows = [
        [(int(part["step"][0]), int(part["first_row"][0]), part["energy"].ravel().tolist())
         for part in worker]
        for worker in both
    ]  # fmt: skip
    assert rows[0] == [(0, 0, [0, 1]), (1, 0, [4, 5])]
    assert rows[1] == [(0, 2, [2, 3]), (1, 2, [6, 7])]
    assert both[0][0]["image"].shape == (2, 3, 3, 4, 1)
    assert float(both[1][1]["image"][1].max()) == 7


def test_one_worker_with_two_replicas_holds_the_same_in_their_order():
    found = [part["energy"].ravel().tolist() for part in shares(8, range(2))]
    assert found == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_showers_that_fill_no_batch_are_left_out_and_the_others_come_again():
    parts = feed(10, range(2)).take(5).as_numpy_iterator()
    found = [part["energy"].ravel().tolist() for part in parts]
    assert found == [[0, 1], [2, 3], [4, 5], [6, 7], [0, 1]]


def test_it_has_no_end_so_that_workers_need_not_ask_each_other_at_each_batch():
    assert feed(8, range(2)).cardinality() == tf.data.INFINITE_CARDINALITY


def test_losses_are_means_over_batches_and_traced_before_the_first(two_replicas):
    batches, traces = (
        two_replicas.distribute_datasets_from_function(lambda _: feed(8, range(2))),
        [],
    )

    class Step:
        def evaluate(self, batch):
            traces.append(batch)
            return tf.reduce_sum(batch["energy"]) * tf.ones((len(PASSES), len(loss_columns())))

    losses = held_out_losses(two_replicas, Step(), batches, 2)
    traced = len(traces)
    assert losses()["generator"]["total"] == (0 + 1 + 2 + 3 + 4 + 5 + 6 + 7) / 2
    assert traced
    assert len(traces) == traced


SHAPE = (2, 2, 3)


class Count:
    """A step that notes each tracing, and returns the mean energy of its batch as losses."""

    loss_dtype = "float32"

    def __init__(self):
        self.traced = []

    def __call__(self, batch):
        self.traced.append(threading.current_thread().name)
        return tf.fill((len(PASSES), len(loss_columns())), tf.reduce_mean(batch["energy"]))


class Noted:
    """A dataset that notes the thread in which each of its iterators is made."""

    def __init__(self, dataset):
        self.dataset, self.made = dataset, []

    def __iter__(self):
        self.made.append(threading.current_thread())
        return iter(self.dataset)


def ones(strategy):
    blank = dummy_batches(4, SHAPE)
    full = blank.map(lambda batch: batch | {name: batch[name] + 1 for name in FLOATS})
    return strategy.distribute_datasets_from_function(lambda _: full)


@pytest.fixture(params=["one", "mirrored"])
def strategy(request, two_replicas):
    return tf.distribute.OneDeviceStrategy("CPU:0") if request.param == "one" else two_replicas


def test_steps_are_traced_once_in_the_thread_and_no_step_is_lost(strategy):
    step = Count()
    blank = Noted(strategy.distribute_datasets_from_function(lambda _: dummy_batches(4, SHAPE)))
    thread = ThreadPoolExecutor(1)
    run = precompiled(thread, strategy, compile_steps(strategy, step), blank)
    with strategy.scope():
        losses, _ = run(iter(ones(strategy)), tf.constant(3, tf.int32), no_votes())
    replicas = strategy.num_replicas_in_sync
    np.testing.assert_array_equal(losses, np.full(losses.shape, 3.0 * replicas))
    assert len(step.traced) == replicas
    assert threading.current_thread().name not in step.traced
    assert blank.made == [threading.current_thread()], "iterators of two threads mix their devices"


def test_what_fails_while_warming_is_raised_where_it_is_called(strategy):
    def fails(*_):
        raise ValueError("no such operation")

    run = precompiled(ThreadPoolExecutor(1), strategy, fails, [])
    with pytest.raises(ValueError, match="no such operation"):
        run(None, None, None)
