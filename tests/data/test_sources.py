from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cloudgan.core.errors import DataError
from cloudgan.data.sources import open_source
from cloudgan.data.units import (
    KNOWN_UNITS,
    check_ecal,
    decide_units,
)
from data.conftest import make_ecal, make_hdf5, make_store


@pytest.fixture
def folder(tmp_path):
    for number, per_gev in enumerate((50, 1, 50)):
        make_hdf5(tmp_path / f"part{number}.h5", 5, per_gev=per_gev, seed=number)
    return tmp_path


def test_globs_lists_and_folders_are_the_files_in_them(folder):
    whole = open_source(str(folder))
    assert whole.count == 15
    assert whole.shape == (51, 51, 25)
    assert open_source(f"{folder}/part[01].h5").count == 10
    assert open_source(f"{folder}/part0.h5, {folder}/part2.h5").count == 10


def test_each_file_is_read_in_its_own_unit(folder):
    source = open_source(str(folder))
    ecal = np.concatenate([block.ecal_gev for block in source.blocks(4)])
    expected = np.concatenate([make_ecal(5, seed=seed) for seed in range(3)])
    np.testing.assert_allclose(ecal, expected, rtol=1e-6)
    lines = source.describe()
    assert sum("ECAL is GeV*50" in line for line in lines) == 2
    assert sum("ECAL is GeV:" in line for line in lines) == 1


def test_a_store_is_known_by_folder_and_by_manifest(tmp_path, public_hdf5):
    store = make_store(tmp_path / "set", public_hdf5)
    for path in (store, store / "manifest.json"):
        assert open_source(str(path)).count == 20
    with pytest.raises(DataError, match="is one file of a store: give its folder"):
        open_source(str(store / "part-00000-cells.npy"))
    (store / "manifest.json").unlink()
    with pytest.raises(DataError, match="incomplete"):
        open_source(str(store))


def test_content_counts_not_the_name(tmp_path, public_hdf5):
    renamed = tmp_path / "showers.dat"
    public_hdf5.rename(renamed)
    assert open_source(str(renamed)).count == 20


def test_files_of_different_shapes_are_refused(folder):
    make_hdf5(folder / "small.h5", 5, shape=(25, 25, 25))
    with pytest.raises(DataError, match=r"\(25, 25, 25\) cells .* \(51, 51, 25\)"):
        open_source(str(folder))


def test_an_unknown_file_is_refused(tmp_path):
    text, empty, packed = tmp_path / "a.txt", tmp_path / "b.bin", tmp_path / "c.tfrecord"
    text.write_text("energy,theta\n" * 20)
    empty.touch()
    packed.write_bytes(gzip.compress(b"a record"))
    pipe = tmp_path / "pipe.h5"
    os.mkfifo(pipe)
    for path, message in [
        (text, r"a\.txt has an unknown layout; valid: HDF5"),
        (empty, r"b\.bin is empty"),
        (packed, r"c\.tfrecord is compressed with gzip"),
        (
            tmp_path / "none.h5",
            r"none\.h5 does not exist; `cloudgan simulate \S+none\.h5` makes showers",
        ),
        (tmp_path / "pipes.h5", r"pipes\.h5 does not exist\. Did you mean 'pipe\.h5'\?"),
        (tmp_path / ("a" * 300 + ".h5"), r"a\.h5 does not exist"),
        (Path("/dev/zero"), "/dev/zero: is a device; give a regular file"),
        (pipe, r"pipe\.h5: is a pipe; give a regular file"),
        (tmp_path / "*.root", r"\*\.root matches no file"),
        (" , ", "no data given; valid: HDF5"),
    ]:
        with pytest.raises(DataError, match=message):
            open_source(str(path))
    packed.unlink()
    pipe.unlink()
    with pytest.raises(DataError, match="holds no showers; valid:"):
        open_source(str(tmp_path))


ENERGIES = np.array([10.0, 100.0])


@pytest.mark.parametrize("fraction", [0.0218, 0.0203, 0.0175, 0.0235])
@pytest.mark.parametrize("name", ["GeV*50", "GeV", "GeV*100", "MeV"])
def test_every_unit_is_found_at_all_energies_of_the_public_data(name, fraction):
    units = decide_units(fraction * KNOWN_UNITS[name], ENERGIES, "a.h5", has_deposits=True)
    assert (units.ecal_per_gev, units.energy_per_gev) == (KNOWN_UNITS[name], 1)
    assert f"ECAL is {name}:" in units.decided


@pytest.mark.parametrize("ratio", [0.0, 0.1, 1.41, 200, float("nan")])
def test_other_numbers_are_refused(ratio):
    with pytest.raises(DataError, match=r"a\.h5: the unit of ECAL is unknown"):
        decide_units(ratio, ENERGIES, "a.h5", has_deposits=True)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_cells_of_every_type_are_checked(dtype):
    check_ecal(np.full((2, 1, 1, 1), 60_000, dtype), "a.h5", 0)
    with pytest.raises(DataError, match=r"a\.h5, event 4: ECAL has 1 infinite cell;"):
        check_ecal(np.array([1, np.inf], dtype).reshape(2, 1, 1, 1), "a.h5", 3)


PROGRAM = """
import sys
import cloudgan.data.convert, cloudgan.data.epoch_sampler, cloudgan.data.sources, cloudgan.data.batches
sys.exit("tensorflow" in sys.modules)
"""


def test_showers_are_read_and_ordered_without_tensorflow():
    assert subprocess.run([sys.executable, "-c", PROGRAM], check=False).returncode == 0
