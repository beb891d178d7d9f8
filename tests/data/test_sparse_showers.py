from __future__ import annotations

import numpy as np
import pytest

from cloudgan.data.showers import central
from cloudgan.data.sparse_showers import SparseCells, join


def sparse(images):
    rows = [np.flatnonzero(image) for image in images]
    first = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    values = [image.reshape(-1)[row] for image, row in zip(images, rows, strict=True)]
    cells = np.concatenate(rows).astype(np.uint16)
    return SparseCells(cells, np.concatenate(values), first, images.shape[1:])


@pytest.fixture
def images():
    rng = np.random.default_rng(0)
    images = rng.random((6, 9, 8, 4), dtype=np.float32)
    images[2] = 0
    images[5, ::2] = 0
    return images


def test_sparse_and_dense_are_the_same(images):
    cells = sparse(images)
    np.testing.assert_array_equal(cells.dense(), images)
    np.testing.assert_allclose(cells.sums(), images.sum((1, 2, 3)), rtol=1e-6)


@pytest.mark.parametrize("shape", [(9, 8, 4), (3, 4, 4), (4, 3, 4), (1, 8, 4)])
def test_the_centre_is_that_of_the_dense_images(images, shape):
    np.testing.assert_array_equal(sparse(images).central(shape).dense(), central(images, shape))


def test_rows_are_taken_in_any_order_and_more_than_once(images):
    rows = np.array([5, 2, 2, 0])
    np.testing.assert_array_equal(sparse(images).take(rows).dense(), images[rows])
    assert len(sparse(images).take(rows[:0])) == 0


def test_parts_are_joined_in_order(images):
    parts = [sparse(images[2:]), sparse(images[:2])]
    expected = np.concatenate([images[2:], images[:2]])
    np.testing.assert_array_equal(join(parts).dense(), expected)
