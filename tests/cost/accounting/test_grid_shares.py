"""What the cells of a grid cost, by routine; the parts add up to the machines' time."""

import math

import pytest

from cloudgan.cost.accounting.grid_shares import World, grid_shares
from cloudgan.cost.prices.catalog import load_catalog
from cloudgan.schema.cell_line import CellLine

ROW = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/on_demand")


def line(iteration, **seconds):
    return CellLine(
        iteration=iteration,
        generator_fitness=1.0,
        discriminator_fitness=1.0,
        rates=(0.1, 0.1),
        losses=("bce",),
        selected=("a", "b"),
        entered=0,
        best=("a", ""),
        members={0: 1.0},
        score=1.0,
        seconds=seconds,
    )


CELLS = {
    "0-0": [line(1, train=6.0, gather=1.0, wait=0.0), line(2, train=2.0, gather=1.0)],
    "0-1": [line(1, train=3.0, gather=1.0, wait=3.0), line(2, train=1.0, wait=1.0)],
}


def seconds(shares):
    return {share.name: share.node_seconds for share in shares}


def test_each_rank_has_an_equal_share_of_the_machines_and_idle_ranks_are_named():
    # Ten seconds of five ranks on two machines: four node seconds each.
    found = grid_shares(CELLS, World(ranks=5, machines=2), ROW)
    assert seconds(found) == pytest.approx(
        {
            "cell 0-0: gather": 0.8,
            "cell 0-0: train": 3.2,
            "cell 0-1: gather": 0.4,
            "cell 0-1: train": 1.6,
            "cell 0-1: wait": 1.6,
            "cell 0-1: other": 0.4,
            "master": 4.0,
            "ranks without a cell": 8.0,
        }
    )
    assert math.fsum(share.usd for share in found) == pytest.approx(ROW.cost_usd(20))


def test_cells_of_one_process_follow_each_other():
    found = grid_shares(CELLS, None, None)
    assert seconds(found)["cell 0-1: wait"] == 4.0
    assert math.fsum(seconds(found).values()) == pytest.approx(10 + 9)
    assert {share.usd for share in found} == {None}
