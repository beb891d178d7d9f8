from __future__ import annotations

import shutil

import pytest

from cloudgan.cli.file_pair import open_pair
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.progress import Silent
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.simulation.gflash import simulate


def a_file(path, *, seed=1, count=30, cells=(9, 9)):
    path.parent.mkdir(exist_ok=True)
    write_hdf5(path, simulate(count, seed=seed, cells=cells))
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    return a_file(folder / "a.h5"), a_file(folder / "b.h5", seed=2, count=45)


class Told(Silent):
    def __init__(self):
        self.tasks, self.done = [], 0

    def start(self, task, total=None, unit=""):
        self.tasks.append((task, total, unit))

    def advance(self, amount=1, note=""):
        self.done += amount


def test_both_are_read_and_measured_and_the_bars_tell_how_far(files):
    progress = Told()
    pair = open_pair(*files, least=30)
    generated, reference = pair.measure(1000, progress)
    assert (len(generated), len(reference)) == (30, 45)
    assert progress.tasks == [("reading b.h5", 45, "showers"), ("reading a.h5", 30, "showers")]
    assert progress.done == 75
    assert [table.caption for table in pair.origins()] == ["Generated: a.h5", "Reference: b.h5"]


def test_no_more_than_asked_is_measured(files):
    generated, reference = open_pair(*files, least=30).measure(31, Silent())
    assert (len(generated), len(reference)) == (30, 31)


def test_the_same_file_twice_is_refused_however_it_is_written(files, tmp_path):
    link = tmp_path / "link.h5"
    link.symlink_to(files[0])
    same = ((files[0], files[0]), (files[0], str(link)), (str(link), ",".join(files)))
    for generated, reference in same:
        with pytest.raises(ConfigError, match=r"a\.h5 is both --generated and --reference"):
            open_pair(generated, reference, least=30)


def test_a_copy_of_the_reference_is_refused(files, tmp_path):
    copy = shutil.copy(files[0], tmp_path / "copy.h5")
    pair = open_pair(str(copy), files[0], least=30)
    with pytest.raises(DataError, match=r"copy\.h5 and a\.h5 hold the same showers"):
        pair.measure(1000, Silent())


def test_files_of_one_name_are_told_apart_by_their_folders(files, tmp_path):
    other = a_file(tmp_path / "inner" / "a.h5", seed=5)
    pair = open_pair(other, files[0], least=30)
    assert (pair.generated_name, pair.reference_name) == (other, files[0])


def test_other_shapes_are_refused_with_what_to_type(files, tmp_path):
    wide = a_file(tmp_path / "wide.h5", cells=(11, 11))
    with pytest.raises(DataError, match=r"9x9x25 cells and wide\.h5 of 11x11x25.*validate RUN"):
        open_pair(files[0], wide, least=30)


def test_too_few_showers_are_refused_before_anything_is_read(files):
    with pytest.raises(DataError, match=r"a\.h5 holds 30 showers; at least 31 are needed"):
        open_pair(*files, least=31)


def test_a_file_that_is_missing_is_named(files):
    with pytest.raises(DataError, match=r"nowhere\.h5 does not exist"):
        open_pair(files[0], "nowhere.h5", least=30)
