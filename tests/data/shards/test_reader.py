from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudgan.core.errors import DataError
from cloudgan.data.shards.reader import ShardReader
from cloudgan.data.sources.hdf5 import Hdf5File
from data.conftest import make_hdf5, make_shards, replace_record


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


def test_a_record_without_a_feature_is_named(shards):
    replace_record(shards, 1, 4, lambda record: record.replace(b"values", b"volues"))
    with pytest.raises(DataError, match=r"00001\.tfrecord, record 4: damaged \(no feature values"):
        ShardReader(shards).read(np.arange(20), [])


def test_a_value_that_is_no_energy_is_named_by_its_record(shards):
    nan = np.float32(np.nan).tobytes()
    replace_record(shards, 2, 3, lambda record: record[:-4] + nan)
    with pytest.raises(DataError, match=r"00002\.tfrecord, record 3: damaged \(NaN, infinite"):
        ShardReader(shards).read(np.arange(12, 18), [])


def test_whole_shards_pass_the_check(shards):
    ShardReader(shards).verify()


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


@pytest.mark.parametrize(
    "read",
    [
        lambda reader: reader.read(np.arange(20), ["energy"]),
        lambda reader: [list(file.raw_blocks(8)) for file in reader.files()],
        lambda reader: reader.verify(),
    ],
    ids=["at random", "in order", "verify"],
)
def test_one_flipped_bit_in_an_energy_is_found_in_every_way_of_reading(shards, read):
    flip(shards / "showers-00001.tfrecord", byte=-5, bit=0)
    with pytest.raises(
        DataError, match=r"showers-00001\.tfrecord, record 5: damaged: its checksum"
    ):
        read(ShardReader(shards))


def test_a_shard_that_changes_while_it_is_read_is_noticed(shards):
    reader = ShardReader(shards)
    reader.verify()
    reader.read(np.arange(20), [])
    path = shards / "showers-00002.tfrecord"
    before = path.stat()
    flip(path, byte=-100)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    reader.read(np.arange(6), [])
    with pytest.raises(DataError, match=r"showers-00002\.tfrecord, record 5: damaged"):
        reader.read(np.arange(20), [])


def test_a_shard_of_another_set_is_refused(shards, tmp_path, write_hdf5_file, write_shards):
    twin = write_shards(tmp_path / "twin", write_hdf5_file(tmp_path / "twin.h5", eta=np.ones(20)))
    shutil.copy(twin / "showers-00001.tfrecord", shards)
    with pytest.raises(
        DataError, match=r"00001\.tfrecord is not the file that manifest\.json lists"
    ):
        ShardReader(shards).read(np.arange(20), [])
    shutil.copy(twin / "showers-00001.tfrecord", shards / "showers-00009.tfrecord")
    with pytest.raises(DataError, match=r"holds showers-00009\.tfrecord, which its manifest\.json"):
        ShardReader(shards)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_any_flipped_bit_of_a_set_is_found_or_changes_nothing(small_shards, data):
    folder, whole = small_shards
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    kept = path.read_bytes()
    place = data.draw(st.integers(0, len(kept) - 1))
    flip(path, byte=place, bit=data.draw(st.integers(0, 7)))
    try:
        with contextlib.suppress(DataError):
            assert contents(folder) == whole
            return
        with pytest.raises(DataError, match=rf"{path.name}(, record \d| )"):
            contents(folder)
    finally:
        path.write_bytes(kept)


def contents(folder):
    return [pickle.dumps(list(file.raw_blocks(8))) for file in ShardReader(folder).files()]


@pytest.fixture(scope="module")
def small_shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    ecal = np.zeros((9, 5, 5, 4), "f4")
    ecal[:, 2, 2] = np.arange(1, 10)[:, None]
    path = make_hdf5(folder / "a.h5", 9, shape=(5, 5, 4), ECAL=ecal, energy=ecal.sum((1, 2, 3)))
    shards = make_shards(folder / "set", path, per_shard=4)
    return shards, contents(shards)


def flip(path, byte, bit=3):
    content = bytearray(path.read_bytes())
    content[byte] ^= 1 << bit
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "../a.tfrecord"}, "pattern"),
        ({"sha256": "no"}, "pattern"),
        ({"records": 10**30}, "less than or equal"),
        ({"records": -1}, "greater than 0"),
        ({"bytes": [1]}, "valid integer"),
    ],
)
def test_a_shard_with_an_impossible_entry_is_refused(shards, change, message):
    path = shards / "manifest.json"
    fields = json.loads(path.read_text())
    fields["shards"][0] |= change
    path.write_text(json.dumps(fields))
    with pytest.raises(
        DataError, match=rf"not a manifest we know: shards\.0\.{next(iter(change))}.*{message}"
    ):
        ShardReader(shards)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ecal_per_gev": float("inf")}, "finite"),
        ({"ecal_dtype": "|O"}, "pattern"),
        ({"shape": [10**6, 10**6, 10**6]}, "at most|differ|cells"),
        ({"shape": [0, 5, 5]}, "greater than 0"),
        ({"columns": []}, "no column energy or target"),
        ({"columns": [{"name": "energy", "dtype": "O"}]}, "pattern"),
        ({"columns": [{"name": "energy", "dtype": "<f4"}] * 2}, "two columns have one name"),
        ({"columns": [{"name": "energy", "dtype": "<f4", "shape": [2]}]}, "energy has 2 values"),
        (
            {"attributes": {"": {"a": {"dtype": "<f4", "shape": [3], "base64": "AAAA"}}}},
            "attributes",
        ),
        ({"attributes": {"": {"a": {"dtype": "<f4", "shape": [3], "base64": "?"}}}}, "attributes"),
        ({"attributes": {"": {"a": {"dtype": "O", "shape": [], "base64": ""}}}}, "attributes"),
        ({"records": 19}, "has 19 records, its shards 20"),
        ({"bytes": 10**400}, "less than or equal"),
    ],
)
def test_a_source_with_an_impossible_entry_is_refused(shards, change, message):
    path = shards / "manifest.json"
    fields = json.loads(path.read_text())
    fields["sources"][0] |= change
    path.write_text(json.dumps(fields))
    with pytest.raises(DataError, match=rf"not a manifest we know: .*({message})"):
        ShardReader(shards)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"\xff\xfe", b"[" * 5000, b"null", b'{"a": 1e999}']
)
def test_what_is_no_manifest_is_refused(shards, content):
    (shards / "manifest.json").write_bytes(content)
    with pytest.raises(DataError, match=r"manifest\.json is not a manifest we know"):
        ShardReader(shards)


def test_an_edited_manifest_is_refused(shards):
    path = shards / "manifest.json"
    path.write_text(path.read_text().replace('"ecal_per_gev": 50.0', '"ecal_per_gev": 51.0'))
    with pytest.raises(DataError, match=r"manifest\.json is damaged or was edited"):
        ShardReader(shards)
