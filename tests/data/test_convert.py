from __future__ import annotations

import os
import resource
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import h5py
import numpy as np
import pytest

from cloudgan.core.errors import CloudganError, ConfigError, DataError
from cloudgan.core.progress import Silent
from cloudgan.data.convert import convert, is_current
from cloudgan.data.sources import open_source
from cloudgan.data.store import Store
from data.conftest import make_ecal, make_hdf5, make_store


@pytest.fixture
def odd_hdf5(tmp_path):
    """A public file with every bit pattern and attribute that could be lost."""
    path = make_hdf5(tmp_path / "odd.h5", mass=np.array([5.1e-4] * 20, ">f8"))
    with h5py.File(path, "r+") as file:
        ecal = file["ECAL"][:]
        ecal[3, 0, 0, :4] = [-0.0, 1e-45, 5e-39, np.nextafter(np.float32(0.1), 1)]
        ecal[7] = 0
        ecal[7, 25, 25, 9] = file["energy"][7]  # a shower of one cell
        file["ECAL"][:] = ecal
        eta = file["eta"][:]
        eta[:3] = np.array([0x7FF4DEADBEEF0001, 1 << 63, 1], "u8").view("f8")  # a NaN with payload
        file["eta"][:] = eta
        file.attrs.update({"seed": np.int64(7), "source": "Geant4", "empty": "", "x": [0.1, 0.2]})
        file["ECAL"].attrs["unit"] = np.bytes_(b"GeV*50")
        file["energy"].attrs["names"] = np.array(["a", "b"], h5py.string_dtype())
    return path


def contents(path):
    with h5py.File(path) as file:
        return {
            "attributes": {k: repr(v) for k, v in file.attrs.items()},
            **{
                name: (
                    d.dtype.str,
                    d.shape,
                    d[:].tobytes(),
                    {k: repr(v) for k, v in d.attrs.items()},
                )
                for name, d in file.items()
            },
        }


def test_hdf5_to_a_store_and_back_changes_not_one_bit_and_the_manifest_says_of_what(
    tmp_path, odd_hdf5
):
    assert convert(str(odd_hdf5), tmp_path / "set").count == 20
    reader = Store(tmp_path / "set")
    reader.verify()
    (source,) = reader.manifest.sources
    assert (reader.count, source.name, source.ecal_per_gev) == (20, str(odd_hdf5), 50)
    assert "the median of sum(ECAL)/energy is 1" in source.ecal_decided
    assert convert(str(tmp_path / "set"), tmp_path / "back.h5").count == 20
    assert contents(tmp_path / "back.h5") == contents(odd_hdf5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back.h5", "odd.h5", "set"]


def test_files_in_different_units_are_kept_apart_and_written_together_as_gev_50(tmp_path):
    for number, unit in enumerate((50, 1)):
        make_hdf5(tmp_path / f"{number}.h5", 5, per_gev=unit, seed=number)
    convert(f"{tmp_path}/*.h5", tmp_path / "set")
    assert [s.ecal_per_gev for s in Store(tmp_path / "set").manifest.sources] == [50, 1]
    made = convert(str(tmp_path / "set"), tmp_path / "both" / "all.h5")
    assert "written as GeV*50" in made.notes[-1]
    with h5py.File(tmp_path / "both" / "all.h5") as file:
        expected = np.concatenate([make_ecal(5), make_ecal(5, seed=1)]) * 50
        np.testing.assert_allclose(file["ECAL"][:], expected, rtol=1e-6)


def test_a_finished_target_is_replaced_only_when_asked(tmp_path, public_hdf5):
    other = make_hdf5(tmp_path / "other.h5", 7)
    for target in (tmp_path / "set", tmp_path / "copy.h5"):
        convert(str(public_hdf5), target)
        with pytest.raises(ConfigError, match="exists; pass --overwrite to replace it"):
            convert(str(other), target)
        assert open_source(str(target)).count == 20
        convert(str(other), target, overwrite=True)
        assert open_source(str(target)).count == 7


def test_a_damaged_source_leaves_the_target_as_it_was(tmp_path, public_hdf5):
    bad = make_hdf5(tmp_path / "bad.h5", 400)
    with h5py.File(bad, "r+") as file:
        file["ECAL"][45, 0, 0, 0] = np.nan  # between the events that the unit is decided on
    for target in (tmp_path / "set", tmp_path / "copy.h5"):
        convert(str(public_hdf5), target)
        with pytest.raises(DataError, match="event 45"):
            convert(str(bad), target, overwrite=True)
        assert open_source(str(target)).count == 20
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.h5", "copy.h5", "public.h5", "set"]


def test_a_full_disk_leaves_the_target_as_it_was(tmp_path, public_hdf5):
    big = make_hdf5(tmp_path / "big.h5", 60)
    convert(str(public_hdf5), tmp_path / "set")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(
            CloudganError, match=r"/set: cannot be written \(File too large\); free"
        ):
            convert(str(big), tmp_path / "set", overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert open_source(str(tmp_path / "set")).count == 20
    assert sorted(path.name for path in tmp_path.iterdir()) == ["big.h5", "public.h5", "set"]


def test_an_interrupted_conversion_is_done_again(tmp_path, public_hdf5):
    unfinished = make_store(tmp_path / "set", public_hdf5)
    (unfinished / "manifest.json").unlink()
    killed = tmp_path / "set.123-0123abcd.tmp"
    killed.mkdir()
    (killed / "part-00000-cells.npy").touch()
    convert(str(public_hdf5), unfinished)
    assert Store(unfinished).count == 20
    assert not killed.exists()


def test_targets_that_would_harm_are_refused(tmp_path, public_hdf5):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    cases = [
        (tmp_path / "mine", {"overwrite": True}, r"holds other files \(thesis\.tex"),
        (tmp_path / "a.root", {}, "unknown target layout"),
        (tmp_path / "mine", {"to": "hdf5"}, "is a folder; name a file"),
        (public_hdf5, {"to": "store", "overwrite": True}, "is a file; a store needs a folder"),
        (public_hdf5, {"overwrite": True}, "is both source and target"),
    ]
    for target, options, message in cases:
        with pytest.raises(ConfigError, match=message):
            convert(str(public_hdf5), target, **options)
    assert open_source(str(public_hdf5)).count == 20
    convert(str(public_hdf5), tmp_path / "set")
    with pytest.raises(ConfigError, match="is both source and target"):
        convert(str(tmp_path / "set"), tmp_path / "set", overwrite=True)


@pytest.mark.parametrize("name", ["set.tmp", "set.123-0123abcd.tmp"])
def test_a_folder_of_the_users_beside_the_target_is_not_touched(tmp_path, public_hdf5, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "thesis.tex").touch()
    convert(str(public_hdf5), tmp_path / "set")
    assert (tmp_path / name / "thesis.tex").exists()


@pytest.mark.parametrize("name", ["set", "copy.h5"])
def test_of_two_conversions_into_one_target_one_is_refused(tmp_path, public_hdf5, name):
    class SecondBeside(Silent):
        def advance(self, amount=1, note=""):
            again = partial(convert, str(public_hdf5), tmp_path / name, overwrite=True)
            said = rf"{name} is being written by process {os.getpid()}"
            with ThreadPoolExecutor(1) as other, pytest.raises(ConfigError, match=said):
                other.submit(again).result()

    convert(str(public_hdf5), tmp_path / name, progress=SecondBeside())
    assert open_source(str(tmp_path / name)).count == 20
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "public.h5"])


def test_a_changed_source_is_noticed(tmp_path, public_hdf5):
    target = tmp_path / "set"
    assert not is_current(target, open_source(str(public_hdf5)))
    convert(str(public_hdf5), target)
    assert is_current(target, open_source(str(public_hdf5)))
    make_hdf5(public_hdf5, 20, seed=4)
    assert not is_current(target, open_source(str(public_hdf5)))
