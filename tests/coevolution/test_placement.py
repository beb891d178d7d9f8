"""Which ranks get the cells of a grid."""

from __future__ import annotations

import pytest

from cloudgan.coevolution.grid import Grid
from cloudgan.coevolution.placement import place_cells
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import Accelerator, Hardware


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
