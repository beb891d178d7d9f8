"""Draws depend on seed, stream, step and row of the global batch, and on nothing else."""

from __future__ import annotations

import contextlib
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from cloudgan.training import tensorflow_backend
from cloudgan.training.rng import Call, Rng
from forking_server import ForkedProgram
from training import draws_program

pytestmark = pytest.mark.tf
ROWS = 12


def drawn(first_row, rows, *, step=3, seed=7, call=Call.REAL):
    rng = Rng(seed)
    with rng.at(tf.constant(step, tf.int64), tf.constant(first_row, tf.int64), call):
        return (
            rng.normal(rows, 254).numpy(),
            rng.dropout_mask((rows, 5, 7, 3), 0.2, 1).numpy(),
            rng.bernoulli(0.3, rows).numpy(),
        )


@pytest.mark.parametrize("parts", [2, 3, 12])
def test_rows_drawn_in_parts_are_bit_equal_to_rows_drawn_at_once(parts):
    size = ROWS // parts
    split = [drawn(number * size, size) for number in range(parts)]
    for whole, pieces in zip(drawn(0, ROWS), zip(*split, strict=True), strict=True):
        np.testing.assert_array_equal(whole, np.concatenate(pieces))


@pytest.mark.parametrize("changed", [{"step": 4}, {"seed": 8}, {"call": Call.FAKE}])
def test_another_step_seed_or_call_draws_something_else(changed):
    for one, other in zip(drawn(0, ROWS), drawn(0, ROWS, **changed), strict=True):
        assert not np.array_equal(one, other)


def test_rows_and_dropout_layers_do_not_share_their_draws():
    normal, keep, _ = drawn(0, ROWS)
    assert len(np.unique(normal, axis=0)) == ROWS
    assert len(np.unique(keep, axis=0)) == ROWS
    rng = Rng(7)
    with rng.at(tf.zeros((), tf.int64), tf.zeros((), tf.int64), Call.REAL):
        assert not np.array_equal(
            rng.dropout_mask((2, 64), 0.5, 0), rng.dropout_mask((2, 64), 0.5, 1)
        )


def test_jax_draws_the_numbers_of_tensorflow_for_rows_beyond_32_bits_of_blocks():
    """60,000 rows of 2**17 blocks of four words: in 32 bits they would repeat those of other rows."""
    pytest.importorskip("jax")
    from cloudgan.training import jax_backend

    given = 7, (2 << 8) + 5, (3, 60_000), 1, 2**19
    words, theirs = (backend.words(*given) for backend in (jax_backend, tensorflow_backend))
    np.testing.assert_array_equal(words, theirs)
    np.testing.assert_array_equal(jax_backend.halves(words), tensorflow_backend.halves(theirs))
    np.testing.assert_allclose(
        jax_backend.normals(*given), tensorflow_backend.normals(*given), atol=3e-6
    )


def test_draws_have_the_frequencies_that_were_asked_for():
    rng = Rng(1)
    with rng.at(tf.zeros((), tf.int64), tf.zeros((), tf.int64), Call.REAL):
        kept = rng.dropout_mask((1000, 100), 0.2, 0).numpy().mean()
        flipped = rng.bernoulli(0.05, 100_000).numpy().mean()
        normal = rng.normal(1000, 100).numpy()
    assert kept == pytest.approx(0.8, abs=4 * np.sqrt(0.2 * 0.8 / 1e5))
    assert flipped == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 1e5))
    assert normal.mean() == pytest.approx(0, abs=4e-2 / np.sqrt(10))
    assert normal.std() == pytest.approx(1, abs=4 / np.sqrt(2e5))


def worker(cluster):
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CONFIG": json.dumps(cluster)}
    return ForkedProgram([], environment, program=draws_program.__file__)


def finished(process):
    with contextlib.closing(process):
        out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return json.loads(next(line for line in out.splitlines() if line.startswith("{")))


def test_draws_of_1_and_2_replicas_and_of_2_workers_are_bit_equal(free_ports, two_replicas):
    peers = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    workers = [
        worker({"cluster": peers, "task": {"type": "worker", "index": index}}) for index in range(2)
    ]
    one = draws_program.draws(tf.distribute.OneDeviceStrategy("CPU:0"))
    two = draws_program.draws(two_replicas)
    first, second = map(finished, workers)
    for name in ("normals", "keep", "flips"):
        assert one[name] == two[name], name
        assert one[name] == first[name] + second[name], name
