from __future__ import annotations

import numpy as np
import pytest

from cloudgan.cli.origin import origin_table
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.data.source import open_source
from cloudgan.simulation.gflash import simulate


@pytest.fixture(scope="module")
def showers():
    return list(simulate(20, seed=1, cells=(9, 9)))


def test_a_file_tells_its_size_its_unit_and_its_own_attributes(tmp_path, showers):
    path = tmp_path / "mc.h5"
    attributes = {
        "source": "Geant4", "seed": 7, "cut_mm": np.array([0.7]), "versions": ["a 1", "b 2"],
        "recipe": "x" * 500, "seeds": np.arange(20), "host": np.bytes_(b"n\xff1"),
    }  # fmt: skip
    write_hdf5(path, showers, attrs=attributes)
    table = origin_table("Reference: mc.h5", open_source(str(path)))
    told = dict(table.rows)
    assert table.caption == "Reference: mc.h5"
    assert told["file"] == f"{path} ({path.stat().st_size:,} bytes)"
    assert told["showers"] == "20 of 9x9x25 cells, HDF5 in the public 3DGAN layout"
    assert "GeV*50" in told["unit"]
    assert told["source"] == "Geant4"
    assert told["seed"] == "7"
    assert told["cut_mm"] == "0.7"
    assert told["versions"] == "a 1, b 2"
    assert told["recipe"] == "x" * 200 + "..."
    assert told["seeds"] == "0, 1, 2, 3, 4, 5, 6, 7, ..."
    assert told["host"] == "n\N{REPLACEMENT CHARACTER}1"
    assert told["ECAL: unit"] == "GeV*50"


def test_of_many_files_the_first_are_told_and_the_rest_counted(tmp_path, showers):
    for number in range(23):
        write_hdf5(tmp_path / f"{number:02}.h5", showers)
    table = origin_table("many", open_source(str(tmp_path)))
    names = [value for what, value in table.rows if what == "file"]
    assert len(names) == 20
    assert table.rows[-1] == ("and further files", "3")
