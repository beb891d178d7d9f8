"""The loop, block by block, and its compilation in the background."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf

from cloudgan.core.errors import CloudganError
from cloudgan.core.progress import Silent
from cloudgan.data.pipeline.epoch_sampler import EpochSampler
from cloudgan.data.pipeline.input_pipeline import FLOATS
from cloudgan.schema.liveness import LivenessFile
from cloudgan.schema.losses import PASSES, loss_columns
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.training.engines.tensorflow_loop import (
    Precompiler,
    compile_steps,
    dummy_batches,
    no_votes,
    precompiled,
)
from cloudgan.training.stopping import StopFlag, StopTraining
from cloudgan.training.train_loop import STOP_REASONS, TrainLoop

pytestmark = pytest.mark.tf


SHAPE = (len(PASSES), len(loss_columns()))


class Work:
    """Stub of the compiled steps: records its calls, returns ones."""

    def __init__(self):
        self.blocks, self.loss = [], 1.0
        self.others = np.zeros(len(STOP_REASONS), np.int32)

    def __call__(self, _iterator, steps, votes):
        self.blocks.append(int(steps))
        return np.full(SHAPE, self.loss * int(steps)), np.asarray(votes) + self.others


def train_loop(
    work,
    *,
    step=0,
    steps_per_loop=4,
    save_due=lambda _: False,
    saved=None,
    liveness=None,
    **training,
):
    saved = [] if saved is None else saved
    return TrainLoop(
        work,
        EpochSampler((10, 10), 1, 2),  # ten steps an epoch
        TrainingConfig(**({"epochs": 3} | training)),
        flag=StopFlag(),
        progress=Silent(),
        step=step,
        train_seconds=0.0,
        steps_per_loop=steps_per_loop,
        save=lambda done: saved.append(done.step) or 0.5,
        save_due=save_due,
        liveness=liveness,
    )


def run_epoch(one):
    one.begin_epoch()
    while one.steps_left_in_epoch:
        one.advance(None)


def test_the_liveness_file_has_the_step(tmp_path):
    liveness = LivenessFile(tmp_path / "liveness.json")
    train_loop(Work(), liveness=liveness).advance(None)
    assert liveness.read()[:2] == (4, 0)


def test_a_block_never_passes_the_end_of_an_epoch():
    one = train_loop(work := Work())
    run_epoch(one)
    assert work.blocks == [4, 4, 2]
    assert (one.step, one.epoch, one.blocks_per_epoch) == (10, 1, 3)


def test_a_resumed_session_finishes_the_epoch_that_it_is_in():
    one = train_loop(work := Work(), step=13)
    run_epoch(one)
    assert work.blocks == [4, 3]
    assert (one.start_epoch, one.epoch) == (1, 2)


def test_a_block_past_the_end_runs_nothing():
    one = train_loop(work := Work())
    run_epoch(one)
    one.advance(None)
    assert sum(work.blocks) == 10


def test_losses_are_means_over_the_steps_of_this_epoch():
    one = train_loop(work := Work())
    run_epoch(one)
    one.begin_epoch()
    work.loss = 3.0
    one.advance(None)
    assert one.losses()["generator"]["total"] == 3.0


def test_it_stops_at_the_asked_step_exactly():
    one = train_loop(work := Work(), max_steps=7)
    with pytest.raises(StopTraining) as stop:
        run_epoch(one)
    assert (one.step, stop.value.reason, work.blocks) == (7, "max_steps", [4, 3])


def test_it_stops_when_its_time_is_over():
    one = train_loop(Work(), max_seconds=1e-9)
    one.begin_epoch()
    one.advance(None)
    with pytest.raises(StopTraining) as stop:
        one.advance(None)
    assert stop.value.reason == "max_seconds"


def test_one_worker_that_asks_stops_all_after_the_same_step():
    one = train_loop(work := Work())
    one.begin_epoch()
    work.others[STOP_REASONS.index("terminated")] = 1  # another worker got SIGTERM
    with pytest.raises(StopTraining) as stop:
        one.advance(None)
    assert (stop.value.reason, one.step) == ("terminated", 4)


def test_after_an_epoch_all_stop_before_the_next_step_where_one_asks():
    one = train_loop(work := Work())
    run_epoch(one)
    one.stop_if_requested()
    work.others[STOP_REASONS.index("reached")] = 1  # the chief looked at the generator
    with pytest.raises(StopTraining) as stop:
        one.stop_if_requested()
    assert (stop.value.reason, one.step, work.blocks[3:]) == ("reached", 10, [0, 0])


def test_a_loss_that_is_no_number_ends_the_run_and_names_the_step():
    one = train_loop(work := Work())
    one.begin_epoch()
    work.loss = float("nan")
    with pytest.raises(CloudganError, match="a loss is NaN or infinite up to step 4"):
        one.advance(None)


def test_it_saves_when_that_is_due_and_counts_the_seconds_apart():
    saved = []
    one = train_loop(Work(), save_due=lambda done: done.step >= 8, saved=saved)
    run_epoch(one)
    assert saved == [8, 10]
    assert one.checkpoint_seconds == 1.0
    assert one.epoch_seconds < 0.5


def test_throughput_leaves_the_first_call_out():
    one = train_loop(Work())
    one.begin_epoch()
    assert one.samples_per_second() == 0.0
    one.advance(None)
    assert one.samples_per_second() == 0.0
    one.advance(None)
    wanted = 4 * 2 / (one.epoch_seconds - one.trace_seconds)
    assert one.samples_per_second() == pytest.approx(wanted)


SHAPE_PRECOMPILE = (2, 2, 3)


class Count:
    """A step that notes each tracing, and returns the mean energy of its batch as losses."""

    loss_dtype = "float32"

    def __init__(self):
        self.traced = []

    def __call__(self, batch):
        self.traced.append(threading.current_thread().name)
        return tf.fill((len(PASSES), len(loss_columns())), tf.reduce_mean(batch["energy"]))


def ones(strategy):
    blank = dummy_batches(4, SHAPE_PRECOMPILE)
    full = blank.map(lambda batch: batch | {name: batch[name] + 1 for name in FLOATS})
    return strategy.distribute_datasets_from_function(lambda _: full)


@pytest.fixture(params=["one", "mirrored"])
def strategy(request, two_replicas):
    return tf.distribute.OneDeviceStrategy("CPU:0") if request.param == "one" else two_replicas


def test_steps_are_traced_once_in_the_thread_and_no_step_is_lost(strategy):
    step = Count()
    dataset = strategy.distribute_datasets_from_function(
        lambda _: dummy_batches(4, SHAPE_PRECOMPILE)
    )
    run = precompiled(Precompiler(strategy), compile_steps(strategy, step), dataset)
    with strategy.scope():
        losses, _ = run(iter(ones(strategy)), tf.constant(3, tf.int32), no_votes())
    replicas = strategy.num_replicas_in_sync
    np.testing.assert_array_equal(losses, np.full(losses.shape, 3.0 * replicas))
    assert len(step.traced) == replicas
    assert threading.current_thread().name not in step.traced


def test_what_fails_while_warming_is_raised_where_it_is_called(strategy):
    def fails(*_):
        raise ValueError("no such operation")

    run = precompiled(Precompiler(strategy), fails, [])
    with pytest.raises(ValueError, match="no such operation"):
        run(None, None, None)


def test_first_calls_happen_one_after_the_other(strategy):
    precompiler, sampler, go = Precompiler(strategy), [], threading.Event()
    first = precompiler.submit(lambda: (go.wait(10), sampler.append("first")))
    second = precompiler.submit(lambda: sampler.append("second"))
    assert not second.done()
    go.set()
    first.result(10)
    second.result(10)
    assert sampler == ["first", "second"]
