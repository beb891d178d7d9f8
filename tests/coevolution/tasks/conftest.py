"""Shared fixtures of the tasks."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def shower_shards(made_once):
    """A folder of shards with 90 parametric showers of 9 x 9 x 25 cells."""

    def make(folder):
        from cloudgan.data.convert import convert
        from cloudgan.data.hdf5_writer import write_hdf5
        from cloudgan.simulation.gflash import simulate

        write_hdf5(folder / "showers.h5", simulate(90, seed=5, cells=(9, 9), block=50))
        convert(str(folder / "showers.h5"), folder / "shards")

    return made_once("coevolution-showers", make) / "shards"


def leading_arrays(layout, buffer):
    """The weights of a network, without the slots of its optimizer."""
    return list(layout.views(buffer).values())[: layout.leading]
