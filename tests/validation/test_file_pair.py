"""Files that are validated: how they are opened, compared and described."""

import shutil

import numpy as np
import pytest

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.progress import Silent
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.data.sources import open_source
from cloudgan.simulation.gflash import simulate
from cloudgan.validation.file_pair import open_pair, provenance_table


def a_file(path, *, seed=1, count=30, cells=(9, 9), particle=None):
    path.parent.mkdir(exist_ok=True)
    attrs = {"particle": particle} if particle else {}
    write_hdf5(path, simulate(count, seed=seed, cells=cells), attrs=attrs)
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    return a_file(folder / "a.h5"), a_file(folder / "b.h5", seed=2, count=45)


class Recorded(Silent):
    def __init__(self):
        self.tasks, self.done = [], 0

    def start(self, task, total=None, unit=""):
        self.tasks.append((task, total, unit))

    def advance(self, amount=1, note=""):
        self.done += amount


def test_both_files_are_measured_with_progress_at_most_so_many_showers_of_each(files):
    progress = Recorded()
    pair = open_pair(*files)
    generated, reference = pair.measure(31, progress)
    assert (len(generated), len(reference)) == (30, 31)
    assert progress.tasks == [("reading b.h5", 45, "showers"), ("reading a.h5", 30, "showers")]
    assert progress.done == 75
    assert [table.caption for table in pair.provenance()] == ["Generated: a.h5", "Reference: b.h5"]


def test_the_same_file_twice_is_refused_for_any_spelling_of_its_path(files, tmp_path):
    link = tmp_path / "link.h5"
    link.symlink_to(files[0])
    same = ((files[0], files[0]), (files[0], str(link)), (str(link), ",".join(files)))
    for generated, reference in same:
        with pytest.raises(ConfigError, match=r"a\.h5 is both --generated and --reference"):
            open_pair(generated, reference)


def test_a_copy_of_the_reference_is_refused(files, tmp_path):
    copy = shutil.copy(files[0], tmp_path / "copy.h5")
    pair = open_pair(str(copy), files[0])
    with pytest.raises(DataError, match=r"copy\.h5 and a\.h5 hold the same showers"):
        pair.measure(1000, Silent())


def test_files_with_the_same_name_are_named_with_their_folders(files, tmp_path):
    other = a_file(tmp_path / "inner" / "a.h5", seed=5)
    pair = open_pair(other, files[0])
    assert (pair.generated_name, pair.reference_name) == (other, files[0])


def test_different_shapes_are_refused_with_the_command_to_run(files, tmp_path):
    wide = a_file(tmp_path / "wide.h5", cells=(11, 11))
    with pytest.raises(DataError, match=r"9x9x25 cells and wide\.h5 of 11x11x25.*validate RUN"):
        open_pair(files[0], wide)


@pytest.fixture(scope="module")
def small():
    return list(simulate(20, seed=1, cells=(9, 9)))


def test_provenance_lists_size_unit_and_attributes_of_a_file(tmp_path, small):
    path = tmp_path / "mc.h5"
    attributes = {
        "source": "Geant4", "seed": 7, "cut_mm": np.array([0.7]), "versions": ["a 1", "b 2"],
        "recipe": "x" * 500, "seeds": np.arange(20), "host": np.bytes_(b"n\xff1"),
    }  # fmt: skip
    write_hdf5(path, small, attrs=attributes)
    table = provenance_table("Reference: mc.h5", open_source(str(path)))
    shown = dict(table.rows)
    assert table.caption == "Reference: mc.h5"
    assert shown["file"] == f"{path} ({path.stat().st_size:,} bytes)"
    assert shown["showers"] == "20 of 9x9x25 cells, HDF5 in the public 3DGAN layout"
    assert "GeV*50" in shown["unit"]
    assert shown.items() >= {
        "source": "Geant4", "seed": "7", "cut_mm": "0.7", "versions": "a 1, b 2",
        "recipe": "x" * 200 + "...", "seeds": "0, 1, 2, 3, 4, 5, 6, 7, ...",
        "host": "n\N{REPLACEMENT CHARACTER}1", "ECAL: unit": "GeV*50",
    }.items()  # fmt: skip


def test_provenance_lists_the_first_files_and_counts_the_rest(tmp_path, small):
    for number in range(23):
        write_hdf5(tmp_path / f"{number:02}.h5", small)
    table = provenance_table("many", open_source(str(tmp_path)))
    names = [value for what, value in table.rows if what == "file"]
    assert len(names) == 20
    assert table.rows[-1] == ("and further files", "3")


@pytest.mark.parametrize("particle", [None, "photon"])
def test_a_file_that_states_no_particle_is_compared_with_any(tmp_path, particle):
    one = a_file(tmp_path / "one.h5", particle="photon")
    other = a_file(tmp_path / "other.h5", particle=particle, seed=2)
    assert len(open_pair(one, other).reference.particles) <= 1
