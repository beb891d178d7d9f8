"""The folder of a grid: what a start that failed or a kill in a line leaves, and which pictures are kept."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from cloudgan.coevolution.files import CellFiles, GridFolder, keep_pictures, pictured, read_pictures
from cloudgan.coevolution.grid import Grid
from cloudgan.coevolution.record import is_pictured
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.schema.coevolution import CoevolutionConfig
from coevolution.quadratic_game import line


def test_half_a_last_line_of_a_cell_is_cut_off_before_the_next_one(tmp_path):
    cell = CellFiles(tmp_path)
    cell.append(line(1))
    cell.append(line(2))
    cell.record_file.write_bytes(cell.record_file.read_bytes()[:-40])
    cell.append(line(3))
    assert [one.iteration for one in cell.lines()] == [1, 3]


def test_a_grid_that_failed_before_its_first_iteration_does_not_bind_the_next_one(tmp_path):
    folder = GridFolder(tmp_path, Grid(2, 2))
    folder.write_config(CoevolutionConfig(task="ring", batches=7))
    folder.write_config(CoevolutionConfig(task="ring", batches=8))
    assert folder.read_config().batches == 8
    folder.cell(0).append(line(1))
    with pytest.raises(ConfigError, match="other values of batches"):
        folder.write_config(CoevolutionConfig(task="ring", batches=9))


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
