from __future__ import annotations

import gc

import numpy as np
import pytest

from cloudgan.data.pipeline.image_buffers import ImageBuffers
from cloudgan.data.sparse_showers import SparseCells

SHAPE = (3, 4, 5)


@pytest.fixture
def images():
    """Makes two images with `cells` each, elsewhere for each seed."""

    def make(seed, cells=7):
        rng = np.random.default_rng(seed)
        cell = np.concatenate([rng.choice(60, cells, replace=False) for _ in range(2)])
        value = rng.uniform(1, 2, 2 * cells).astype(np.float32)
        return SparseCells(cell.astype("<u2"), value, np.array([0, cells, 2 * cells]), SHAPE)

    return make


def test_what_is_lent_is_the_dense_images(images):
    buffers = ImageBuffers(2, SHAPE)
    for seed in range(5):
        found = buffers.dense(images(seed, cells=7 - seed))
        np.testing.assert_array_equal(found, images(seed, cells=7 - seed).dense())
        assert found.dtype == np.float32


def test_memory_without_references_is_used_again(images):
    buffers = ImageBuffers(2, SHAPE)
    for seed in range(5):
        buffers.dense(images(seed))
    assert buffers.made == 1


def test_memory_with_a_reference_or_a_view_is_not_used_again(images):
    buffers = ImageBuffers(2, SHAPE)
    held = [buffers.dense(images(seed)) for seed in range(3)]
    part = buffers.dense(images(3))[..., np.newaxis][1, 1:]
    gc.collect()
    for seed in range(4, 8):
        buffers.dense(images(seed))
    for seed, one in enumerate(held):
        np.testing.assert_array_equal(one, images(seed).dense())
    np.testing.assert_array_equal(part[..., 0], images(3).dense()[1, 1:])
    assert buffers.made == 5


def test_memory_begins_where_tensorflow_need_not_copy_it(images):
    buffers = ImageBuffers(2, SHAPE)
    held = [buffers.dense(images(seed)) for seed in range(8)]
    assert {one.ctypes.data % 64 for one in held} == {0}
