"""Which pictures of a cell's samples are saved, and their reading."""

from types import SimpleNamespace

import numpy as np
import pytest

from cloudgan.coevolution.cell_files import CellFiles
from cloudgan.coevolution.pictures import is_pictured, keep_pictures, pictured, read_pictures
from cloudgan.core.errors import DataError


def cell(iteration, images):
    return SimpleNamespace(state=SimpleNamespace(iteration=iteration), pictures=images)


def test_pictures_are_kept_in_a_series_that_grows_with_the_logarithm():
    kept = [number for number in range(1, 10_001) if is_pictured(number, last=10_001)]
    assert kept == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000]
    assert is_pictured(7, last=7)


def test_images_come_back_as_bytes_and_at_most_sixteen_of_them(tmp_path):
    files = CellFiles(tmp_path / "0-1")
    images = np.zeros((40, 8, 6), np.float32)
    images[0, 0, :3] = 1.0, 0.5, 7.0
    keep_pictures(files, cell(5, images), last=30)
    found = read_pictures(files, 5)
    assert found.shape == (16, 8, 6)
    assert found.dtype == np.uint8
    assert found[0, 0, :4].tolist() == [255, 128, 255, 0]


def test_a_run_that_continues_replaces_its_last_pictures(tmp_path):
    files = CellFiles(tmp_path / "0-0")
    images = np.ones((1, 4, 4), np.float32)
    for iteration, last in ((1, 7), (3, 7), (5, 7), (7, 7), (10, 12), (12, 12)):
        keep_pictures(files, cell(iteration, images), last)
    keep_pictures(files, cell(20, None), last=20)
    assert pictured(files) == [1, 5, 10, 12]


def test_a_damaged_file_is_named(tmp_path):
    files = CellFiles(tmp_path)
    np.savez(tmp_path / "samples-000000002.npz", other=np.zeros(3))
    with pytest.raises(DataError, match=r"samples-000000002\.npz: damaged"):
        read_pictures(files, 2)
