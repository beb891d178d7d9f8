from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest

from cloudgan.core.errors import DataError
from cloudgan.data.shards.reader import ShardReader
from cloudgan.data.sources.hdf5 import Hdf5File


@pytest.fixture
def shards(tmp_path, public_hdf5, write_shards):
    return write_shards(tmp_path / "set", public_hdf5)


def test_any_records_come_back_in_the_order_asked(shards, public_hdf5):
    whole = next(Hdf5File(public_hdf5).blocks(20))
    asked = np.array([19, 0, 7, 7, 13, 6, 5])
    read = ShardReader(shards).read(asked, ["energy", "bins"])
    np.testing.assert_array_equal(read.cells.dense(), whole.ecal_gev[asked])
    np.testing.assert_array_equal(read.columns["energy"], whole.energy_gev[asked])
    assert read.columns["bins"].shape == (7, 6)


def test_every_bit_survives(tmp_path, write_hdf5_file, write_shards):
    path = write_hdf5_file(tmp_path / "odd.h5")
    with h5py.File(path, "r+") as file:
        ecal = file["ECAL"][:]
        ecal[3, 0, 0, :4] = [-0.0, 1e-45, 5e-39, np.nextafter(np.float32(0.1), 1)]
        file["ECAL"][:] = ecal
    raw = list(ShardReader(write_shards(tmp_path / "set", path)).files()[0].raw_blocks(4))
    with h5py.File(path) as file:
        assert np.concatenate([block.ecal for block in raw]).tobytes() == ecal.tobytes()
        for name in ("energy", "theta", "mtheta", "eta", "sum", "bins"):
            column = np.concatenate([block.columns[name] for block in raw])
            assert column.dtype == file[name].dtype
            assert column.tobytes() == file[name][:].tobytes()


@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<f2"])
def test_other_float_types_survive_too(
    tmp_path, write_hdf5_file, write_shards, dtype, showers_in_gev
):
    ecal = (showers_in_gev(20) * 50).astype(dtype)
    path = write_hdf5_file(tmp_path / "a.h5", ECAL=ecal)
    (file,) = ShardReader(write_shards(tmp_path / "set", path)).files()
    back = [block.ecal for block in file.raw_blocks(20)]
    assert {ecal.dtype.str for ecal in back} == {dtype}
    assert b"".join(ecal.tobytes() for ecal in back) == ecal.tobytes()


def test_images_of_more_than_65536_cells_fit(tmp_path, write_hdf5_file, write_shards):
    ecal = np.zeros((4, 52, 52, 25), np.float32)
    ecal[:, -1, -1, -1] = 50
    path = write_hdf5_file(tmp_path / "a.h5", 4, ECAL=ecal, energy=np.full(4, 50, "f4"))
    read = ShardReader(write_shards(tmp_path / "set", path)).read(np.arange(4), [])
    np.testing.assert_array_equal(read.cells.dense() * 50, ecal)


def test_sources_in_different_units_are_read_in_gev(tmp_path, write_hdf5_file, write_shards):
    paths = [write_hdf5_file(tmp_path / f"{unit}.h5", per_gev=unit) for unit in (50, 1)]
    reader = ShardReader(write_shards(tmp_path / "set", *paths))
    assert reader.counts == (6, 6, 6, 2, 6, 6, 6, 2)
    both = reader.read(np.arange(40), []).cells.dense()
    np.testing.assert_allclose(both[:20], both[20:], rtol=1e-6)
    assert [file.info.ecal_per_gev for file in reader.files()] == [50, 1]
    for file, per_gev in zip(reader.files(), (50, 1), strict=True):
        raw = np.concatenate([block.ecal for block in file.raw_blocks(5)])
        np.testing.assert_allclose(raw / per_gev, both[:20], rtol=1e-6)


def test_threads_read_the_same(shards):
    reader = ShardReader(shards)
    asked = [np.random.default_rng(i).integers(0, 20, 8) for i in range(40)]
    alone = [ShardReader(shards).read(rows, ["energy"]).columns["energy"] for rows in asked]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda rows: reader.read(rows, ["energy"]), asked))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other.columns["energy"])


def test_an_unfinished_conversion_is_recognised(shards):
    (shards / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"set is incomplete: it has no manifest\.json"):
        ShardReader(shards)


def test_missing_truncated_and_longer_shards_are_named(shards):
    path = shards / "showers-00001.tfrecord"
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    with pytest.raises(DataError, match=r"showers-00001\.tfrecord is truncated"):
        ShardReader(shards)
    path.write_bytes(content + b"1")
    with pytest.raises(DataError, match=r"showers-00001\.tfrecord is not the original file"):
        ShardReader(shards)
    path.unlink()
    with pytest.raises(DataError, match=r"showers-00001\.tfrecord is missing"):
        ShardReader(shards)


def test_a_damaged_record_is_named(shards):
    path = shards / "showers-00001.tfrecord"
    content = bytearray(path.read_bytes())
    at = content.find(b"values", len(content) // 2)
    content[at : at + 6] = b"volues"
    path.write_bytes(content)
    reader = ShardReader(shards)
    with pytest.raises(
        DataError, match=r"showers-00001\.tfrecord, record \d: damaged \(no feature"
    ):
        reader.read(np.arange(20), [])
    with pytest.raises(DataError, match=r"showers-00001\.tfrecord is damaged: its SHA-256"):
        reader.verify()


def test_a_value_that_is_no_energy_is_named_by_its_record(shards):
    path = shards / "showers-00002.tfrecord"
    content = bytearray(path.read_bytes())
    at = content.rfind(b"values", 0, len(content) // 2)
    content[at + 20 : at + 24] = np.float32(np.nan).tobytes()
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"00002\.tfrecord, record [0-5]: damaged \(NaN, infinite"):
        ShardReader(shards).read(np.arange(12, 18), [])


def test_whole_shards_pass_the_check(shards):
    ShardReader(shards).verify()


def test_a_wrong_length_inside_a_shard_is_named_by_record(shards):
    path = shards / "showers-00000.tfrecord"
    content = bytearray(path.read_bytes())
    content[5] = 9
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"showers-00000\.tfrecord, record 0: truncated or damaged"):
        ShardReader(shards).read(np.arange(3), [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"records": 21}, "the shards hold 20 records, not 21"),
        ({"colour": 1}, "colour"),
        ({"schema_version": 2}, "schema_version"),
        ({"shape": [9, 9, 9]}, "the sources differ in shape"),
    ],
)
def test_a_manifest_that_does_not_add_up_is_refused(shards, change, message):
    path = shards / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match=rf"manifest\.json is not a manifest we know: .*{message}"):
        ShardReader(shards)
