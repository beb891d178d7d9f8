"""Neighbours on the torus, against lists written by hand, and which ranks get the cells."""

from __future__ import annotations

import pytest

from cloudgan.coevolution.grid import Grid, check_grid, place_cells
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import Accelerator, Hardware
from cloudgan.schema.coevolution import CoevolutionConfig, parse_grid

# Cells row by row; of each cell west, north, east, south, each once.
VON_NEUMANN = {
    (2, 2): [(1, 2), (0, 3), (3, 0), (2, 1)],
    (2, 3): [(2, 3, 1), (0, 4, 2), (1, 5, 0), (5, 0, 4), (3, 1, 5), (4, 2, 3)],
    (3, 4): [
        *((3, 8, 1, 4), (0, 9, 2, 5), (1, 10, 3, 6), (2, 11, 0, 7)),
        *((7, 0, 5, 8), (4, 1, 6, 9), (5, 2, 7, 10), (6, 3, 4, 11)),
        *((11, 4, 9, 0), (8, 5, 10, 1), (9, 6, 11, 2), (10, 7, 8, 3)),
    ],
}


@pytest.mark.parametrize("size", VON_NEUMANN, ids=str)
def test_each_cell_has_its_neighbours_in_the_west_north_east_and_south(size):
    grid = Grid(*size)
    found = [grid.neighbours(cell, "von_neumann") for cell in range(grid.cells)]
    assert found == VON_NEUMANN[size]


def test_the_eight_cells_around_are_moores_neighbours():
    grid = Grid(4, 5)
    assert set(grid.neighbours(6, "moore")) == {0, 1, 2, 5, 7, 10, 11, 12}
    assert set(grid.neighbours(0, "moore")) == {1, 4, 5, 6, 9, 15, 16, 19}
    assert len(grid.neighbours(0, "moore")) == 8


def test_a_ring_joins_each_cell_with_the_one_before_and_after_row_by_row():
    assert Grid(2, 3).neighbours(0, "ring") == (5, 1)
    assert Grid(2, 3).neighbours(3, "ring") == (2, 4)


def test_all_and_none_are_neighbourhoods():
    assert Grid(2, 3).neighbours(4, "all") == (0, 1, 2, 3, 5)
    assert Grid(2, 3).neighbours(4, "none") == ()


@pytest.mark.parametrize("neighbourhood", ["von_neumann", "moore", "ring", "all"])
@pytest.mark.parametrize("size", [(1, 2), (1, 5), (2, 2), (2, 3), (3, 4)])
def test_a_cell_is_read_by_the_cells_that_have_it_as_a_neighbour(size, neighbourhood):
    grid = Grid(*size)
    for cell in range(grid.cells):
        around = grid.neighbours(cell, neighbourhood)
        assert cell not in around
        assert len(set(around)) == len(around)
        for other in around:
            assert cell in grid.readers(other, neighbourhood)


@pytest.mark.parametrize("text", ["2", "2y3", "0x2", "2x", "2x-3", f"{'9' * 5000}x2"])
def test_what_is_no_grid_is_refused(text):
    assert parse_grid("--grid", "2X03") == (2, 3)
    with pytest.raises(ConfigError, match="expected ROWSxCOLUMNS, such as --grid=2x3"):
        parse_grid("--grid", text)


def test_one_cell_with_a_neighbourhood_is_refused():
    with pytest.raises(ConfigError, match="--neighbourhood=none"):
        check_grid(CoevolutionConfig(rows=1, columns=1))
    config = CoevolutionConfig(rows=1, columns=1, neighbourhood="none", tournament=1)
    assert check_grid(config).cells == 1


def test_a_tournament_larger_than_the_smallest_scheduled_sub_population_is_refused():
    config = CoevolutionConfig(
        rows=3, columns=3, neighbourhood="moore", tournament=9, schedule=((4, "ring"),)
    )
    with pytest.raises(ConfigError, match=r"3 individuals .* 2 neighbours \(ring\)"):
        check_grid(config)
    assert check_grid(config.model_copy(update={"schedule": ()})).cells == 9


def machines(*cores):
    gpus = (Accelerator(name="H100", count=1, memory_gib=80.0),)
    return [Hardware(processor="x", cores=n, memory_gib=8.0, accelerators=gpus) for n in cores]


def test_machines_get_cells_in_proportion_to_their_cores_and_the_others_stay_inactive():
    hosts = ["small"] * 5 + ["large"] * 8
    found = place_cells(hosts, machines(*[2] * 5, *[6] * 8), 6)
    assert len(found.ranks) == 6
    assert [len(found.cells_on(host)) for host in ("small", "large")] == [1, 5]
    assert list(found.ranks) == sorted(found.ranks)  # a cell's number is its place among the cells
    assert 0 not in found.ranks  # the master
    assert found.cell_of(found.ranks[4]) == 4
    assert found.cell_of(0) is None
    assert found.warnings() == ()
    nodes = found.nodes(Grid(2, 3), None)
    assert [(node.host, node.ranks, node.threads) for node in nodes] == [
        ("small", 5, 2),
        ("large", 8, 1),
    ]
    assert nodes[0].cells == ("0-0",)
    assert nodes[0].gpus == ("H100",)
    assert [node.threads for node in found.nodes(Grid(2, 3), 3)] == [3, 3]


def test_more_cells_than_cores_are_a_warning():
    found = place_cells(["here"] * 5, machines(*[2] * 5), 4)
    assert found.ranks == (1, 2, 3, 4)
    (warning,) = found.warnings()
    assert warning.startswith("here has 4 cells and 2 cores: an iteration takes about 2.0 times")
    assert found.threads_on("here") == 1


def test_a_world_needs_a_rank_for_each_cell_and_one_for_the_master():
    with pytest.raises(ConfigError, match=r"4 cells, which need 5 ranks .* MPI world has 4; start"):
        place_cells(["here"] * 4, machines(*[8] * 4), 4)
