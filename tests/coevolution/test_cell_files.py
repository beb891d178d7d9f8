"""The folder of a grid: what a start that failed, or a kill in the middle of a line, leaves."""

from __future__ import annotations

import pytest

from cloudgan.coevolution.cell_files import CellFiles, GridFolder
from cloudgan.coevolution.grid import Grid
from cloudgan.core.errors import ConfigError
from cloudgan.schema.cell_line import CellLine
from cloudgan.schema.coevolution import CoevolutionConfig


def line(iteration):
    return CellLine(
        iteration=iteration, generator_fitness=1.0, discriminator_fitness=1.0, rates=(1e-4, 1e-4),
        losses=("bce",), selected=(), entered=0, best=("a", "b"), members={0: 1.0}, score=1.0, seconds={},
    )  # fmt: skip


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
