"""Held-out losses count every shower once, for any number of workers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cloudgan.data.pipeline.preprocessing import Batch
from cloudgan.schema.losses import PASSES, loss_columns
from cloudgan.training import evaluation

pytestmark = pytest.mark.tf


def held_out(count):
    numbers = np.arange(count, dtype=np.float32)[:, None]
    image = np.zeros((count, 3, 3, 4), np.float32) + numbers[:, :, None, None]
    return Batch(image, numbers, numbers, numbers)


def feed(count, own, *, batch=4, replicas=2):
    return evaluation.held_out_pipeline(
        held_out(count), global_batch_size=batch, replicas=replicas, own=own
    )


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


def test_traced_before_it_has_a_batch_the_test_step_is_not_traced_again(two_replicas):
    batches = two_replicas.distribute_datasets_from_function(lambda _: feed(8, range(2)))

    class Step:
        def evaluate(self, batch):
            return tf.reduce_sum(batch["energy"]) * tf.ones((len(PASSES), len(loss_columns())))

    compiled = evaluation.compile_held_out_losses(two_replicas, Step())
    compiled.get_concrete_function(batches.element_spec)
    table = evaluation.held_out_losses(compiled, batches, 2)
    assert table["generator"]["total"] == (0 + 1 + 2 + 3 + 4 + 5 + 6 + 7) / 2
    assert compiled.experimental_get_tracing_count() == 1


def test_losses_are_means_over_batches_and_none_without_any():
    answers = iter([1.0, 3.0])

    def run(_batch):
        return np.full((len(PASSES), len(loss_columns())), next(answers))

    table = evaluation.held_out_losses(run, [0, 1], 2)
    assert table["generator"]["total"] == 2.0
    assert evaluation.held_out_losses(run, [], 0) is None
