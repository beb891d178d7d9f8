"""The store of showers: bits, random reads, damage, manifests."""

from __future__ import annotations

import contextlib
import json
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudgan.core.errors import DataError
from cloudgan.data import store as store_module
from cloudgan.data.showers import Cells, central, measured_angle
from cloudgan.data.sources import open_source
from cloudgan.data.store import Store
from data.conftest import flip, make_ecal, make_hdf5, make_store, reseal

SHAPE = (13, 13, 25)


@pytest.fixture
def hdf5(tmp_path):
    return make_hdf5(tmp_path / "public.h5", shape=SHAPE)


@pytest.fixture
def folder(tmp_path, hdf5):
    return make_store(tmp_path / "set", hdf5)


def raw(folder, source=0):
    blocks = list(Store(folder).files()[source].raw_blocks(4))
    columns = {name: join([b.columns[name] for b in blocks]) for name in blocks[0].columns}
    return join([block.ecal for block in blocks]), columns


def join(arrays):
    return np.concatenate(arrays, dtype=arrays[0].dtype)


def test_any_showers_come_back_in_the_order_asked(folder, hdf5):
    whole = next(open_source(str(hdf5)).blocks(20))
    asked = np.array([19, 0, 7, 7, 13, 6, 5])
    store = Store(folder)
    np.testing.assert_array_equal(store.take(asked).dense(), whole.ecal_gev[asked])
    assert len(store.take(asked[:0])) == 0
    energy, theta, mtheta = store.primaries()
    np.testing.assert_array_equal(energy, whole.energy_gev)
    np.testing.assert_array_equal(theta, whole.theta_rad)
    np.testing.assert_array_equal(mtheta, whole.mtheta_rad)


def test_every_bit_survives(tmp_path):
    path = make_hdf5(
        tmp_path / "odd.h5", shape=SHAPE, é=np.arange(20), cells=np.ones((20, 1, 2), "?")
    )
    with h5py.File(path, "r+") as file:
        ecal = file["ECAL"][:]
        ecal[3, 0, 0, :4] = [-0.0, 1e-45, 5e-39, np.nextafter(np.float32(0.1), 1)]
        file["ECAL"][:] = ecal
    images, columns = raw(make_store(tmp_path / "set", path))
    with h5py.File(path) as file:
        assert images.tobytes() == ecal.tobytes()
        assert set(columns) == set(file) - {"ECAL"}
        for name, column in columns.items():
            assert column.dtype == file[name].dtype
            assert column.tobytes() == file[name][:].tobytes()


@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<f2"])
def test_other_float_types_survive_too(tmp_path, dtype):
    ecal = (make_ecal(20, SHAPE) * 50).astype(dtype)
    images, _ = raw(make_store(tmp_path / "set", make_hdf5(tmp_path / "a.h5", ECAL=ecal)))
    assert images.dtype.str == dtype
    assert images.tobytes() == ecal.tobytes()


def test_images_of_more_than_65536_cells_fit(tmp_path):
    ecal = np.zeros((4, 52, 52, 25), np.float32)
    ecal[:, -1, -1, -1] = 50
    path = make_hdf5(tmp_path / "a.h5", 4, ECAL=ecal, energy=np.full(4, 50, "f4"))
    cells = Store(make_store(tmp_path / "set", path)).take(np.arange(4))
    np.testing.assert_array_equal(cells.dense() * 50, ecal)


def test_sources_keep_their_units_and_types_and_are_read_in_gev(tmp_path):
    double = make_ecal(20, SHAPE).astype(">f8")
    paths = [
        make_hdf5(tmp_path / "a.h5", shape=SHAPE),
        make_hdf5(tmp_path / "b.h5", ECAL=double, theta=None),
    ]
    store = Store(make_store(tmp_path / "set", *paths))
    assert [part.records for part in store.manifest.parts] == [6, 6, 6, 2, 6, 6, 6, 2]
    assert store.manifest.block_counts() == (20, 20)
    order = np.random.default_rng(0).permutation(40)
    both = np.zeros((40, *SHAPE), "f4")
    both[order] = store.take(order).dense()
    np.testing.assert_allclose(both[:20], both[20:], rtol=1e-6)
    assert [file.info.ecal_per_gev for file in store.files()] == [50, 1]
    assert store.primaries()[1] is None  # the second file has no theta
    assert raw(store.folder, 1)[0].tobytes() == double.tobytes()


def test_threads_read_the_same(folder):
    store = Store(folder)
    asked = [np.random.default_rng(i).integers(0, 20, 8) for i in range(40)]
    alone = [Store(folder).take(rows).value for rows in asked]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(store.take, asked))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other.value)


def test_numpy_alone_reads_the_files(folder, hdf5):
    with h5py.File(hdf5) as file:
        image, energy = file["ECAL"][6].reshape(-1), file["energy"][6:12]
    first, last = np.load(folder / "part-00001-offsets.npy")[:2]
    cells = np.load(folder / "part-00001-cells.npy")[first:last]
    np.testing.assert_array_equal(cells, np.flatnonzero(image))
    np.testing.assert_array_equal(
        np.load(folder / "part-00001-values.npy")[first:last], image[cells]
    )
    np.testing.assert_array_equal(np.load(folder / "part-00001-energy.npy"), energy)


READERS = {
    "at random": lambda store: store.take(np.arange(20)),
    "in order": lambda store: [list(file.raw_blocks(8)) for file in store.files()],
    "verify": lambda store: store.verify(),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("name", ["values", "cells", "offsets", "theta"])
def test_one_flipped_bit_is_found_in_every_way_of_reading(folder, read, name):
    flip(folder / f"part-00001-{name}.npy", byte=-5, bit=0)
    with pytest.raises(DataError, match=rf"part-00001-{name}\.npy is damaged: its SHA-256 differs"):
        read(Store(folder))


def at(row, value):
    return lambda a: np.where(np.arange(len(a)) == row % len(a), value, a)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("values", at(7, np.nan), "shower 0: NaN, infinite"),
        ("values", at(-1, -1), "shower 5: NaN"),
        ("cells", at(7, 65_300), "has cell 65300 of an image"),
        ("offsets", lambda a: a[::-1].copy(), "the offsets do not fit the cells"),
        ("offsets", lambda a: a + 1, "the offsets do not fit the cells"),
        ("energy", lambda a: a.astype("f8"), r"holds <f8\[6\], the manifest says <f4"),
        ("energy", lambda a: a[:3], r"holds <f4\[3\]"),
    ],
)
def test_numbers_that_are_no_showers_are_named_by_file(folder, name, change, message):
    file = f"part-00001-{name}.npy"
    before = np.load(folder / file)
    after = change(before)
    reseal(folder, file, after if name == "energy" else after.astype(before.dtype))
    with pytest.raises(DataError, match=rf"{file}.*{message}"):
        Store(folder).primaries()


def test_missing_truncated_and_longer_files_are_named_at_once(folder):
    path = folder / "part-00001-values.npy"
    content = path.read_bytes()
    for changed, message in [
        (content[:-9], "values.npy is truncated"),
        (content + b"1", "values.npy is not the original file"),
        (None, "values.npy is missing"),
    ]:
        path.unlink() if changed is None else path.write_bytes(changed)
        with pytest.raises(DataError, match=rf"part-00001-{message}"):
            Store(folder)


def test_a_file_that_changes_while_it_is_read_is_noticed(folder, monkeypatch):
    monkeypatch.setattr(store_module, "_LOOK_SECONDS", 0)
    store = Store(folder)
    store.verify()
    store.take(np.arange(20))
    flip(folder / "part-00002-values.npy", byte=-100)
    store.take(np.arange(6))
    with pytest.raises(DataError, match=r"part-00002-values\.npy is damaged"):
        store.take(np.arange(20))


def test_two_readers_that_notice_the_same_change_both_name_the_file(folder, monkeypatch):
    monkeypatch.setattr(store_module, "_LOOK_SECONDS", 0)
    store = Store(folder)
    rows = np.arange(store.count)
    store.take(rows)
    flip(folder / "part-00000-values.npy", -1)
    identity_of = store_module.identity_of

    def after_the_other_reader(path):
        monkeypatch.setattr(store_module, "identity_of", identity_of)
        with pytest.raises(DataError, match=r"part-00000-values\.npy is damaged"):
            store.take(rows)
        return identity_of(path)

    monkeypatch.setattr(store_module, "identity_of", after_the_other_reader)
    with pytest.raises(DataError, match=r"part-00000-values\.npy is damaged"):
        store.take(rows)


def test_a_part_of_another_store_is_refused(folder, tmp_path):
    twin = make_store(
        tmp_path / "twin", make_hdf5(tmp_path / "twin.h5", shape=SHAPE, eta=np.ones(20))
    )
    shutil.copy(twin / "part-00001-eta.npy", folder / "part-00009-eta.npy")
    with pytest.raises(DataError, match=r"holds part-00009-eta\.npy, which its manifest\.json"):
        Store(folder)
    (folder / "part-00009-eta.npy").unlink()
    shutil.copy(twin / "part-00001-eta.npy", folder)
    with pytest.raises(DataError, match=r"part-00001-eta\.npy is damaged: .* in manifest\.json"):
        Store(folder).take(np.arange(20))


@pytest.fixture(scope="module")
def small_store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    ecal = np.zeros((9, 5, 5, 4), "f4")
    ecal[:, 2, 2] = np.arange(1, 10)[:, None]
    path = make_hdf5(folder / "a.h5", 9, shape=(5, 5, 4), ECAL=ecal, energy=ecal.sum((1, 2, 3)))
    store = make_store(folder / "set", path, part=4)
    return store, pickle.dumps(raw(store))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_any_flipped_bit_of_a_store_is_found_or_changes_nothing(small_store, data):
    folder, whole = small_store
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    kept = path.read_bytes()
    flip(path, data.draw(st.integers(0, len(kept) - 1)), data.draw(st.integers(0, 7)))
    try:
        with contextlib.suppress(DataError):
            assert pickle.dumps(raw(folder)) == whole
            return
        with pytest.raises(DataError, match=rf"{path.name} "):
            raw(folder)
    finally:
        path.write_bytes(kept)


def test_an_unfinished_conversion_is_recognised(folder):
    (folder / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"set is incomplete: it has no manifest\.json"):
        Store(folder)


SOURCE, PART = ("sources", 0), ("parts", 0)
ENERGY, ARRAY_KEYS = {"name": "energy", "dtype": "<f4"}, ("dtype", "shape", "base64")


@pytest.mark.parametrize(
    ("where", "change", "message"),
    [
        ((), {"records": 21}, "the parts hold 20 records, not 21"),
        ((), {"colour": 1}, "colour"),
        ((), {"schema_version": 2}, "schema_version"),
        ((), {"shape": [9, 9, 9]}, "the sources differ in shape"),
        (PART, {"source": 1}, "a part names a source that is not listed"),
        (PART, {"records": 10**30}, "less than or equal"),
        (PART, {"records": -1}, "greater than 0"),
        (PART, {"files": []}, "lacks a file"),
        ((*PART, "files", 0), {"name": "../a.npy"}, "pattern"),
        ((*PART, "files", 0), {"name": "part-00000-cells.npy"}, "a file is listed twice"),
        ((*PART, "files", 0), {"sha256": "no"}, "pattern"),
        ((*PART, "files", 0), {"bytes": [1]}, "valid integer"),
        (SOURCE, {"ecal_per_gev": float("inf")}, "finite"),
        (SOURCE, {"ecal_dtype": "|O"}, "pattern"),
        (SOURCE, {"shape": [10**6, 10**6, 10**6]}, "at most|differ|cells"),
        (SOURCE, {"shape": [0, 5, 5]}, "greater than 0"),
        (SOURCE, {"columns": []}, "no column energy or target"),
        (SOURCE, {"columns": [ENERGY | {"dtype": "O"}]}, "pattern"),
        (SOURCE, {"columns": [ENERGY] * 2}, "two columns have one name"),
        (SOURCE, {"columns": [ENERGY | {"shape": [2]}]}, "has 2 values"),
        *[
            (SOURCE, {"attributes": {"": {"a": dict(zip(ARRAY_KEYS, value, strict=True))}}}, "a")
            for value in (("<f4", [3], "AAAA"), ("<f4", [3], "?"), ("O", [], ""))
        ],
        (SOURCE, {"records": 19}, "has 19 records, its parts 20"),
        (SOURCE, {"bytes": 10**400}, "less than or equal"),
    ],
)
def test_an_impossible_manifest_is_refused(folder, where, change, message):
    path = folder / "manifest.json"
    fields = entry = json.loads(path.read_text())
    for key in where:
        entry = entry[key]
    entry |= change
    path.write_text(json.dumps(fields))
    with pytest.raises(
        DataError, match=rf"manifest\.json is not a manifest we know: .*({message})"
    ):
        Store(folder)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"\xff\xfe", b"[" * 5000, b"null", b'{"a": 1e999}']
)
def test_what_is_no_manifest_is_refused(folder, content):
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(DataError, match=r"manifest\.json is not a manifest we know"):
        Store(folder)


def test_an_edited_manifest_is_refused(folder):
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"ecal_per_gev": 50.0', '"ecal_per_gev": 51.0'))
    with pytest.raises(DataError, match=r"manifest\.json is damaged or was edited"):
        Store(folder)


@pytest.fixture
def images():
    rng = np.random.default_rng(0)
    images = rng.random((6, 9, 8, 4), dtype=np.float32)
    images[2] = 0
    images[5, ::2] = 0
    return images


def test_cells_are_the_dense_images(images):
    cells = Cells.of(images)
    np.testing.assert_array_equal(cells.dense(), images)
    np.testing.assert_allclose(cells.sums(), images.sum((1, 2, 3)), rtol=1e-6)
    np.testing.assert_array_equal(cells.measured_angle(), measured_angle(images))


@pytest.mark.parametrize("shape", [(9, 8, 4), (3, 4, 4), (4, 3, 4), (1, 8, 4)])
def test_the_centre_is_that_of_the_dense_images(images, shape):
    np.testing.assert_array_equal(Cells.of(images).central(shape).dense(), central(images, shape))
