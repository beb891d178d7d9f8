"""First calls that happen in a thread while the rest of a run is prepared."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf

from cloudgan.data.feed import FLOATS
from cloudgan.training.session import compile_steps, no_votes
from cloudgan.training.step import COLUMNS, PASSES
from cloudgan.training.warming import Warming, blank_batches, warmed

pytestmark = pytest.mark.tf
SHAPE = (2, 2, 3)


class Count:
    """A step that tells how often it was traced, and returns its batch' mean energy as losses."""

    loss_dtype = "float32"

    def __init__(self):
        self.traced = []

    def __call__(self, batch):
        self.traced.append(threading.current_thread().name)
        return tf.fill((len(PASSES), len(COLUMNS)), tf.reduce_mean(batch["energy"]))


def ones(strategy):
    blank = blank_batches(4, SHAPE)
    full = blank.map(lambda batch: batch | {name: batch[name] + 1 for name in FLOATS})
    return strategy.distribute_datasets_from_function(lambda _: full)


@pytest.fixture(params=["one", "mirrored"])
def strategy(request, two_replicas):
    return tf.distribute.OneDeviceStrategy("CPU:0") if request.param == "one" else two_replicas


def test_steps_are_traced_once_in_the_thread_and_no_step_is_lost(strategy):
    step = Count()
    stand_in = strategy.distribute_datasets_from_function(lambda _: blank_batches(4, SHAPE))
    run = warmed(Warming(strategy), compile_steps(strategy, step), stand_in)
    with strategy.scope():
        losses, _ = run(iter(ones(strategy)), tf.constant(3, tf.int32), no_votes())
    replicas = strategy.num_replicas_in_sync
    np.testing.assert_array_equal(losses, np.full(losses.shape, 3.0 * replicas))
    assert len(step.traced) == replicas
    assert threading.current_thread().name not in step.traced


def test_what_fails_while_warming_is_raised_where_it_is_called(strategy):
    def fails(*_):
        raise ValueError("no such operation")

    run = warmed(Warming(strategy), fails, [])
    with pytest.raises(ValueError, match="no such operation"):
        run(None, None, None)


def test_first_calls_happen_one_after_the_other(strategy):
    warming, order, go = Warming(strategy), [], threading.Event()
    first = warming.begin(lambda: (go.wait(10), order.append("first")))
    second = warming.begin(lambda: order.append("second"))
    assert not second.done()
    go.set()
    first.result(10)
    second.result(10)
    assert order == ["first", "second"]
