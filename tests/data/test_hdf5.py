from __future__ import annotations

import re
import subprocess
import sys

import h5py
import numpy as np
import pytest

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.data.hdf5 import open_hdf5
from cloudgan.data.hdf5_writer import GENERATED, write_hdf5
from cloudgan.data.showers import Showers, measured_angle
from cloudgan.data.sources import open_source
from cloudgan.data.units import DECLARED
from data.conftest import make_ecal, make_hdf5


def read_all(path, size=7):
    blocks = list(open_source(str(path)).blocks(size))
    assert all(len(block) <= size for block in blocks)
    return np.concatenate([block.ecal_gev for block in blocks]), blocks


def test_a_declared_unit_overrides_the_detected_one(tmp_path):
    faint = np.full((4, 17, 17, 25), 1e-5, np.float32)
    energy = np.full(4, 50, np.float32)
    path = tmp_path / "generated.h5"
    write_hdf5(path, [Showers(faint, energy, None, energy * 0)])
    ecal, _ = read_all(path)
    np.testing.assert_allclose(ecal, faint, rtol=1e-6)
    assert "declared in the file" in open_hdf5(path).describe()[1]


@pytest.mark.parametrize(
    ("declared", "factor", "message"),
    [
        (np.nan, 1, "is nan; valid: a number from 0.001"),
        (np.inf, 1, "is inf; valid"),
        (-50, 1, "is -50; valid"),
        ("50", 1, "is '50'; valid"),
        ([50, 50], 1, "valid"),
        (h5py.Empty("f4"), 1, "valid"),
        (50, 0, "near 1; it is 0"),
        (50, 1e-30, "near 1; it is 1e-30"),
        (50, 1e5, r"near 1; it is 1e\+05"),
        (50, 2, r"near 1; it is 2, the ratio of GeV\*100"),
        (1, 1, r"near 0\.02; it is 1, the ratio of GeV\*50"),
        (50, 1e30, r"event 0: ECAL has too large cells \(from 0 to 1\.\d+e\+30\)"),
    ],
)
def test_a_declared_unit_that_is_none_or_contradicts_the_cells_is_refused(
    tmp_path, declared, factor, message
):
    path = make_hdf5(tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        file["ECAL"][...] = file["ECAL"][...] * np.float32(factor)
        file["ECAL"].attrs[DECLARED] = declared
    with pytest.raises(DataError, match=message):
        open_hdf5(path)


def test_showers_of_a_poor_generator_may_have_the_ratio_of_another_unit(tmp_path):
    path = make_hdf5(tmp_path / "a.h5", per_gev=100)
    with h5py.File(path, "r+") as file:
        file["ECAL"].attrs[DECLARED] = 50
        file.attrs["source"] = f"{GENERATED}, step 0"
    assert open_hdf5(path).info.ecal_per_gev == 50


def _virtual(file):
    layout = h5py.VirtualLayout((20, 51, 51, 25), "f4")
    layout[...] = h5py.VirtualSource("nowhere.h5", "ECAL", shape=layout.shape)
    del file["ECAL"]
    file.create_virtual_dataset("ECAL", layout)


def _stored_elsewhere(file):
    del file["energy"]
    file.create_dataset("energy", (20,), "f4", external=[("/etc/passwd", 0, 80)])


def _of_type(kind):
    def change(file):
        del file["energy"]
        h5py.h5d.create(file.id, b"energy", kind, h5py.h5s.create_simple((20,)))

    return change


def _linked(link, name="energy"):
    def change(file):
        del file[name]
        file[name] = link

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_virtual, "ECAL is in another file"),
        (_stored_elsewhere, "energy is in another file"),
        (_linked(h5py.ExternalLink("other.h5", "/energy")), "energy is in another file"),
        (_linked(h5py.SoftLink("/nowhere")), "energy is no dataset"),
        (_linked(h5py.SoftLink("/nowhere"), "ECAL"), "ECAL is no dataset"),
        (_linked(h5py.SoftLink("/energy")), "is damaged or holds a type"),
        (_of_type(h5py.h5t.UNIX_D32LE), "is damaged or holds a type"),
        (lambda file: file.create_dataset(b"\xff\xfe", (20,), "f4"), "is damaged or holds a type"),
        (lambda file: file.create_dataset("wide", (20, 10**6), "f4"), "exceed 1048576 bytes"),
    ],
)
def test_what_an_hdf5_file_may_hold_but_a_reader_cannot_use_is_refused(tmp_path, change, message):
    path = make_hdf5(tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(DataError, match=rf"a\.h5.* {message}"):
        open_hdf5(path)


def test_attributes_of_odd_types_are_left_out(tmp_path):
    path = make_hdf5(tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        file.attrs["kept"] = 3
        file.attrs["reference"] = file["energy"].ref
        file.attrs["empty"] = h5py.Empty("f4")
        file.attrs["compound"] = np.zeros(2, [("a", "f4")])
        file.attrs["complex"] = 1j
        file.attrs.create("no UTF-8", b"\xff", dtype=h5py.string_dtype("utf-8"))
        time = h5py.h5t.UNIX_D32LE
        h5py.h5a.create(file.id, b"time", time, h5py.h5s.create(h5py.h5s.SCALAR))
    assert set(open_hdf5(path).info.attributes[""]) == {"kept"}


def test_an_attribute_that_hdf5_cannot_hold_is_refused_before_the_first_shower(tmp_path):
    def blocks():
        yield pytest.fail("the showers were computed")

    for value in (2**200, np.zeros(10_000)):
        with pytest.raises(ConfigError, match="the attribute 'seed' cannot be written"):
            write_hdf5(tmp_path / "a.h5", blocks(), attrs={"seed": value})
    assert list(tmp_path.iterdir()) == []


def test_scalars_reach_the_showers(public_hdf5):
    shower = next(open_source(str(public_hdf5)).blocks(20))
    with h5py.File(public_hdf5) as file:
        np.testing.assert_array_equal(shower.energy_gev, file["energy"][:])
        np.testing.assert_array_equal(shower.theta_rad, file["theta"][:])
        np.testing.assert_array_equal(shower.mtheta_rad, file["mtheta"][:])


def test_a_missing_mtheta_is_measured_and_a_missing_theta_unknown(tmp_path):
    path = make_hdf5(tmp_path / "a.h5", mtheta=None, theta=None)
    file = open_source(str(path), "GeV*50")
    shower = next(file.blocks(20))
    assert shower.theta_rad is None
    np.testing.assert_array_equal(shower.mtheta_rad, measured_angle(shower.ecal_gev))
    assert any("no mtheta" in line for line in file.describe())


def test_other_datasets_with_one_value_per_shower_travel_along(tmp_path):
    path = make_hdf5(tmp_path / "a.h5", entry=np.ones((20, 2), "i2"), note=np.ones(3))
    block = next(open_hdf5(path).raw_blocks(20))
    assert block.columns["entry"].dtype == np.int16
    assert "note" not in block.columns
    assert any("left out: note" in line for line in open_hdf5(path).describe())


@pytest.mark.parametrize(
    ("name", "at", "values", "said"),
    [
        ("ECAL", (13, 3, 3, 3), (np.nan,), r"event 13: ECAL has 1 NaN cell;"),
        ("ECAL", (13, 3, 3, 3), (np.inf,), "event 13: ECAL has 1 infinite cell;"),
        ("ECAL", (13, 3, 3, 3), (-1e-3,), "event 13: ECAL has negative cells"),
        ("energy", 17, (0, -5, np.nan, np.inf, 1e-30, 1e30), "event 17: the primary energy is"),
        ("mtheta", 4, (np.nan,), "event 4: mtheta is nan"),
        ("theta", 4, (90,), "event 4: theta is 90, not an angle in rad$"),
        ("theta", ..., (np.linspace(60, 120, 20),), r"event 0: .*write np.radians\(theta\)"),
    ],
)
def test_a_number_that_no_shower_has_is_refused_with_its_event(*, tmp_path, name, at, values, said):
    path = make_hdf5(tmp_path / "a.h5")
    for value in values:
        with h5py.File(path, "r+") as file:
            file[name][at] = value
        with pytest.raises(DataError, match=rf"a\.h5, {said}"):
            list(open_source(str(path)).blocks(5))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ECAL": None}, "no dataset ECAL"),
        ({"energy": None}, "no dataset energy.*cloudgan init dataset .*a.h5` drafts dataset.yaml"),
        ({"ECAL": np.zeros((20, 65025), "f4")}, r"ECAL is \[20, 65025\], showers without a grid"),
        ({"ECAL": np.zeros((20, 5, 5, 5), "i4")}, "ECAL is int32"),
        ({"ECAL": np.zeros((0, 51, 51, 25), "f4")}, "holds no showers"),
        ({"energy": np.ones(19, "f4")}, r"energy is \[19\] and ECAL holds 20 events"),
        ({"mtheta": np.ones(21, "f4")}, r"mtheta is \[21\] and ECAL holds 20 events"),
        ({"energy": np.ones((20, 2), "f4")}, r"energy is \[20, 2\]; expected \[20\]"),
        ({"energy": None, "target": np.ones(20)}, r"target is \[20\]; expected \[20, 2\]"),
    ],
)
def test_a_wrong_layout_is_named(tmp_path, changes, message):
    path = make_hdf5(tmp_path / "a.h5", **changes)
    with pytest.raises(DataError, match=rf"a\.h5.*{message}"):
        open_hdf5(path)


def test_files_that_are_no_hdf5_are_named(tmp_path, public_hdf5):
    empty, text, cut = tmp_path / "empty.h5", tmp_path / "text.h5", tmp_path / "cut.h5"
    empty.touch()
    text.write_text("ECAL")
    cut.write_bytes(public_hdf5.read_bytes()[:100_000])
    for path, message in [
        (tmp_path / "no.h5", "does not exist"),
        (empty, r"is empty \(0 bytes\)"),
        (text, "is not an HDF5 file"),
        (cut, "is truncated"),
        (tmp_path, "is not an HDF5 file"),
    ]:
        with pytest.raises(DataError, match=f"{path.name} {message}"):
            open_hdf5(path)


def test_a_damaged_chunk_is_named_by_its_first_event(tmp_path):
    path = tmp_path / "written.h5"
    energy = np.full(600, 50, np.float32)
    ecal = np.full((600, 17, 17, 25), 1.0 / 17 / 17 / 25, np.float32)
    write_hdf5(path, [Showers(ecal, energy, None, energy * 0)])
    with h5py.File(path) as file:
        chunk = file["ECAL"].id.get_chunk_info_by_coord((48, 0, 0, 0))
    content = bytearray(path.read_bytes())
    content[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"written\.h5, event 48: ECAL cannot be read"):
        list(open_source(str(path)).blocks(40))


def test_written_files_are_in_the_public_layout(tmp_path):
    ecal = make_ecal(10)
    energy, theta = np.linspace(10, 99, 10, dtype="f4"), np.linspace(1.1, 2, 10, dtype="f4")
    parts = [Showers(ecal, energy, theta, theta * 2)[rows] for rows in (slice(4), slice(4, 10))]
    assert write_hdf5(tmp_path / "new" / "a.h5", parts, attrs={"seed": 3}) == 10
    with h5py.File(tmp_path / "new" / "a.h5") as file:
        assert file["ECAL"].chunks == (8, 51, 51, 25)
        np.testing.assert_array_equal(file["ECAL"][:], ecal * np.float32(50))
        np.testing.assert_array_equal(file["mtheta"][:], theta * 2)
        np.testing.assert_allclose(file["eta"][:], -np.log(np.tan(theta / 2)), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(file["sum"][:], (ecal * 50).sum((1, 2, 3)), rtol=1e-5)
        assert file.attrs["seed"] == 3
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a.h5"]


def test_a_failed_write_leaves_what_was_there(tmp_path, public_hdf5):
    before = public_hdf5.read_bytes()

    def broken():
        ecal = make_ecal(2)
        yield Showers(ecal, np.ones(2, "f4"), None, np.ones(2, "f4"))
        raise DataError("the source is damaged")

    with pytest.raises(DataError, match="the source is damaged"):
        write_hdf5(public_hdf5, broken())
    assert public_hdf5.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["public.h5"]


_WRITE = """
import resource, sys
from pathlib import Path
import numpy as np
from cloudgan.core.errors import CloudganError
from cloudgan.data.showers import Showers
from cloudgan.data.hdf5_writer import write_hdf5

def blocks():
    one, noise = np.ones(8, "f4"), np.random.default_rng(0)
    for _ in range(20):
        yield Showers(noise.random((8, 3, 3, 5), dtype="f4"), one, one, one)

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    write_hdf5(Path(sys.argv[1]), blocks())
except CloudganError as error:
    print(error.exit_code, error)
"""


def test_a_full_disk_leaves_what_was_there_and_hdf5_does_not_crash_the_process(tmp_path):
    (tmp_path / "a.h5").write_bytes(b"old")
    for most in (700, 5000, 30_000):
        done = subprocess.run(
            [sys.executable, "-B", "-c", _WRITE, str(tmp_path / "a.h5"), str(most)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert re.match(r"1 \S+a\.h5 could not be written after \d+ showers: File too", done.stdout)
        assert [one.read_bytes() for one in tmp_path.iterdir()] == [b"old"]
