"""Held-back losses see every shower once, whoever shares the work."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.data.image_view import Batch
from cloudgan.training import evaluation
from cloudgan.training.step import COLUMNS, PASSES

pytestmark = pytest.mark.tf


def held_back(count):
    numbers = np.arange(count, dtype=np.float32)[:, None]
    image = np.zeros((count, 3, 3, 4), np.float32) + numbers[:, :, None, None]
    return Batch(image, numbers, numbers, numbers)


def shares(count, own, *, batch=4, replicas=2):
    feed = evaluation.held_back_feed(
        held_back(count), global_batch_size=batch, replicas=replicas, own=own
    )
    return list(feed.as_numpy_iterator())


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


def test_showers_that_fill_no_batch_are_left_out():
    assert len(shares(10, range(2))) == 4


def test_losses_are_means_over_batches_and_none_without_any():
    answers = iter([1.0, 3.0])

    def run(_batch):
        return np.full((len(PASSES), len(COLUMNS)), next(answers))

    table = evaluation.test_losses(run, [0, 1], 2)
    assert table["generator"]["total"] == 2.0
    assert evaluation.test_losses(run, [], 0) is None
