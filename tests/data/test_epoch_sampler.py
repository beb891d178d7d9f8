from __future__ import annotations

import numpy as np
import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.data.epoch_sampler import EpochSampler

CASES = [
    ([7], 3),
    ([5, 5, 5, 5, 5, 2], 4),
    ([10, 1, 8, 3], 8),
    ([4, 4], 8),
    ([6, 5], 32),  # a batch of several epochs
    ([1] * 9, 1),
    ([3, 0, 4], 5),
]


def stream(order, steps, first=0):
    return np.concatenate([order.rows(s, 0, order.global_batch_size) for s in range(first, steps)])


@pytest.mark.parametrize(("counts", "batch"), CASES)
@pytest.mark.parametrize("seed", [0, 3])
def test_carry_gives_every_shower_once_per_epoch_of_the_stream(counts, batch, seed):
    order = EpochSampler(counts, seed, batch, blocks_per_group=2)
    total = sum(counts)
    rows = stream(order, order.steps_through(4))
    for epoch in range(5):
        part = rows[epoch * total : (epoch + 1) * total]
        assert sorted(part) == list(range(total))


@pytest.mark.parametrize(("counts", "batch"), CASES)
@pytest.mark.parametrize("last_batch", ["carry", "drop"])
def test_workers_share_the_global_steps_of_every_epoch(counts, batch, last_batch):
    if last_batch == "drop" and sum(counts) < batch:
        pytest.skip("no batch")
    alone = EpochSampler(counts, 3, batch, last_batch=last_batch)
    own = [
        EpochSampler(counts, 3, batch, last_batch=last_batch, worker=k, workers=3) for k in range(3)
    ]
    for epoch in range(4):
        steps = [
            worker.global_step(step)
            for worker in own
            for step in range(worker.steps_through(epoch - 1), worker.steps_through(epoch))
        ]
        assert sorted(steps) == list(
            range(alone.steps_through(epoch - 1), alone.steps_through(epoch))
        )
        for step in steps:
            worker, number = own[step % 3], step // 3
            assert worker.epoch_of(number) == alone.epoch_of(step)
            np.testing.assert_array_equal(worker.rows(number, 0, batch), alone.rows(step, 0, batch))


@pytest.mark.parametrize(("counts", "batch"), [case for case in CASES if sum(case[0]) >= case[1]])
def test_drop_gives_no_shower_twice_and_leaves_out_the_rest(counts, batch):
    order = EpochSampler(counts, 1, batch, last_batch="drop")
    total = sum(counts)
    for epoch in range(4):
        rows = stream(order, order.steps_through(epoch), order.steps_through(epoch - 1))
        assert len(set(rows)) == len(rows) == total - order.samples_dropped_per_epoch
        assert order.samples_dropped_per_epoch == total % batch
        assert order.samples_carried(epoch) == 0


@pytest.mark.parametrize(("counts", "batch"), CASES)
def test_rows_do_not_depend_on_how_a_batch_is_split(counts, batch):
    order = EpochSampler(counts, 5, batch)
    for step in range(6):
        whole = order.rows(step, 0, batch)
        for replicas in {1, 2, batch} if batch % 2 == 0 else {1, batch}:
            size = batch // replicas
            parts = [
                EpochSampler(counts, 5, batch).rows(step, r * size, size) for r in range(replicas)
            ]
            np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("last_batch", ["carry", "drop"])
def test_any_step_can_be_asked_first_and_in_any_order(last_batch):
    def new():
        return EpochSampler([9, 9, 9, 4], 2, 7, last_batch=last_batch)

    unbroken = [new_rows.tolist() for new_rows in (new().rows(s, 0, 7) for s in range(40))]
    order = new()
    asked = np.random.default_rng(0).permutation(40)
    assert [order.rows(int(s), 0, 7).tolist() for s in asked] == [unbroken[s] for s in asked]


def test_seeds_and_epochs_differ():
    order = EpochSampler([50, 50], 0, 100)
    epochs = [tuple(order.rows(step, 0, 100)) for step in range(5)]
    epochs += [tuple(EpochSampler([50, 50], seed, 100).rows(0, 0, 100)) for seed in (1, 2)]
    assert len(set(epochs)) == len(epochs)


def test_the_order_is_shuffled_within_groups_of_neighbouring_blocks():
    order = EpochSampler([10] * 8, 0, 20, blocks_per_group=2)
    blocks = [{int(row) // 10 for row in order.rows(step, 0, 20)} for step in range(4)]
    assert all(len(group) == 2 for group in blocks)
    assert set.union(*blocks) == set(range(8))
    assert sorted(order.rows(0, 0, 20)) != list(order.rows(0, 0, 20))


def test_the_order_is_pinned_because_a_resumed_run_relies_on_it():
    assert EpochSampler([4, 4, 4], 7, 12, blocks_per_group=2).rows(3, 0, 12).tolist() == PINNED


PINNED = [2, 0, 8, 10, 1, 11, 9, 3, 6, 5, 4, 7]


@pytest.mark.parametrize("last_batch", ["carry", "drop"])
@pytest.mark.parametrize(("counts", "batch"), [([10, 13], 4), ([8, 8], 4), ([5], 5)])
def test_epochs_and_steps_agree(counts, batch, last_batch):
    order = EpochSampler(counts, 0, batch, last_batch=last_batch)
    assert order.steps_through(-1) == 0
    for epoch in range(5):
        steps = range(order.steps_through(epoch - 1), order.steps_through(epoch))
        assert {order.epoch_of(step) for step in steps} == {epoch}
        assert len(steps) <= order.most_steps_per_epoch
        carried = order.steps_through(epoch) * batch - (epoch + 1) * sum(counts)
        assert order.samples_carried(epoch) == (carried if last_batch == "carry" else 0)


def test_a_batch_larger_than_the_showers_is_refused_where_the_last_is_dropped():
    with pytest.raises(ConfigError, match="global batch of 64 is larger than the 60 showers"):
        EpochSampler([30, 30], 0, 64, last_batch="drop")
    assert len(EpochSampler([30, 30], 0, 64).rows(0, 0, 64)) == 64
    with pytest.raises(ConfigError, match="no showers"):
        EpochSampler([], 0, 1)
