from __future__ import annotations

import gc
import threading
import time

import h5py
import numpy as np
import pytest

from cloudgan.core.errors import DataError
from cloudgan.data.batches import ImageBuffers, ReadingTime, TrainingSet
from cloudgan.data.manifest import read_manifest
from cloudgan.data.showers import Cells, central, measured_angle
from cloudgan.data.sources import open_source
from cloudgan.schema.config import DataConfig
from cloudgan.schema.presets import find_preset
from data.conftest import flip, make_hdf5, make_store

FULL = find_preset("paper")
MINI = FULL.model_copy(update={"image_shape": (17, 17, 25)})


@pytest.fixture
def whole(public_hdf5):
    return next(open_source(str(public_hdf5)).blocks(20))


@pytest.fixture
def store(tmp_path, public_hdf5):
    return make_store(tmp_path / "set", public_hdf5)


def test_every_fourth_shower_is_held_out_and_the_others_are_numbered(store, whole):
    data = TrainingSet.open(store, FULL, DataConfig(held_out_fraction=0.25))
    held = np.arange(20) % 4 == 3
    assert data.count == 15
    assert data.held_out_count == 5
    assert data.train_counts == (15,)  # one block
    energy = data.train_rows(np.arange(15)).energy[:, 0]
    np.testing.assert_allclose(energy, whole.energy_gev[~held] / 100)
    back = data.held_out()
    np.testing.assert_array_equal(back.ecal_gev, whole.ecal_gev[held])
    np.testing.assert_array_equal(back.theta_rad, whole.theta_rad[held])
    np.testing.assert_array_equal(data.held_out(2).energy_gev, whole.energy_gev[held][:2])
    np.testing.assert_allclose(
        data.held_out_batch(3).energy[:, 0] * 100, whole.energy_gev[held][:3]
    )
    assert any("15 showers to train on, 5 held out: every 4th" in x for x in data.describe())


@pytest.mark.parametrize("view", [FULL, MINI], ids=["full", "mini"])
def test_images_are_those_of_the_dense_recipe(store, whole, view):
    data = TrainingSet.open(store, view, DataConfig(held_out_fraction=0.5))
    rows = np.array([9, 0, 4, 4])
    batch = data.train_rows(rows)
    showers = whole[rows * 2]
    cut = central(showers.ecal_gev, view.image_shape)
    scaled = cut * np.float32(50)
    np.testing.assert_array_equal(batch.image, scaled ** np.float32(0.85))
    np.testing.assert_allclose(batch.ecal[:, 0], scaled.sum((1, 2, 3)), rtol=1e-5)
    np.testing.assert_array_equal(batch.energy[:, 0], showers.energy_gev / np.float32(100))
    angle = showers.mtheta_rad if view is FULL else measured_angle(cut)
    np.testing.assert_array_equal(batch.angle[:, 0], angle)
    assert {array.dtype for array in batch} == {np.dtype("f4")}
    assert {array.shape for array in batch[1:]} == {(4, 1)}


def test_a_second_reading_gives_the_same_bits(store):
    """Angles and sums are computed at the first one and kept."""
    data = TrainingSet.open(store, MINI)
    rows = np.array([3, 0, 11, 3])
    for _ in range(2):
        one = data.train_rows(rows)
    whole = TrainingSet.open(store, MINI).train_rows(np.arange(data.count))
    for mine, other in zip(one, whole, strict=True):
        assert mine.tobytes() == other[rows].tobytes()


def test_showers_too_small_for_the_view_are_refused(tmp_path):
    path = make_hdf5(tmp_path / "a.h5", shape=(25, 25, 25))
    store = make_store(tmp_path / "set", path)
    with pytest.raises(DataError, match="have 25x25x25 cells, the preset needs 51x51x25"):
        TrainingSet.open(store, FULL)
    assert TrainingSet.open(store, MINI).model == MINI


def test_few_showers_still_leave_one_to_hold_back_and_one_alone_none(tmp_path):
    few = make_store(tmp_path / "few", make_hdf5(tmp_path / "few.h5", 4))
    data = TrainingSet.open(few, MINI, DataConfig(held_out_fraction=0.01))
    assert (data.count, data.held_out_count) == (3, 1)
    one = make_store(tmp_path / "set", make_hdf5(tmp_path / "a.h5", 1))
    with pytest.raises(DataError, match="holds one shower"):
        TrainingSet.open(one, MINI)


def test_the_summary_is_that_of_the_dense_images(store, whole):
    data = TrainingSet.open(store, MINI, DataConfig(held_out_fraction=0.5))
    summary = data.summary
    showers = whole[::2]
    cut = central(showers.ecal_gev, MINI.image_shape)
    fraction = (cut.sum((1, 2)) / showers.energy_gev[:, None]).mean(0)
    np.testing.assert_allclose(summary.layer_fraction, fraction, rtol=1e-4)
    image = (cut * 50) ** 0.85
    unit = image.sum((1, 2, 3)) / (showers.energy_gev / 100) ** 0.85
    assert summary.mean_image_sum_per_unit == pytest.approx(unit.mean(), rel=1e-4)
    contained = cut.sum((1, 2, 3)) / showers.ecal_gev.sum((1, 2, 3))
    assert summary.contained_fraction == pytest.approx(contained.mean(), rel=1e-4)
    assert summary.count == summary.sampled == 10
    assert summary.energy_range_gev == (showers.energy_gev.min(), showers.energy_gev.max())


def test_the_summary_fits_mtheta_against_theta(store, tmp_path):
    fit = TrainingSet.open(store, FULL).summary.angle_fit
    assert fit.offset_rad == pytest.approx(0.2, abs=1e-4)
    assert fit.slope == pytest.approx(0.87, abs=1e-4)
    np.testing.assert_allclose(fit.mtheta_rad(np.float32([1.5])), 0.2 + 0.87 * 1.5, rtol=1e-4)
    path = make_hdf5(tmp_path / "no.h5", theta=None)
    summary = TrainingSet.open(make_store(tmp_path / "set2", path), FULL).summary
    assert summary.angle_fit is None
    assert summary.theta_range_rad is None
    one = make_hdf5(tmp_path / "one.h5", theta=np.full(20, 1.5, "f4"))
    assert TrainingSet.open(make_store(tmp_path / "set3", one), FULL).summary.angle_fit is None


def test_one_flipped_bit_is_found_before_the_first_step(store):
    TrainingSet.open(store, MINI)
    flip(store / "part-00001-values.npy", -5)
    with pytest.raises(DataError, match=r"part-00001-values\.npy is damaged"):
        TrainingSet.open(store, MINI)


@pytest.fixture
def of_particle(tmp_path):
    def write(name, particle):
        path = make_hdf5(tmp_path / name)
        with h5py.File(path, "a") as file:
            file.attrs["particle"] = particle
        return path

    return write


def test_the_particle_of_the_file_reaches_notes_and_summary_and_two_are_refused(
    tmp_path, of_particle, store
):
    one, other = of_particle("a.h5", "photon"), of_particle("b.h5", "electron")
    folder = make_store(tmp_path / "photons", one)
    data = TrainingSet.open(folder, MINI)
    assert "Primary particle: photon." in data.describe()
    assert data.summary.particle == read_manifest(folder).sources[0].particle == "photon"
    unknown = TrainingSet.open(store, MINI)
    assert unknown.summary.particle is None
    assert not any("Primary particle" in line for line in unknown.describe())
    with pytest.raises(DataError, match=r"mixes primary particles: .*b.h5 \(electron\), .*photon"):
        TrainingSet.open(make_store(tmp_path / "both", one, other), MINI)


@pytest.mark.parametrize("every", [3, 4])
def test_the_folds_hold_out_each_shower_once_and_train_on_the_others(store, whole, every):
    """Of 20 showers a group of three is incomplete: it belongs to the folds that it reaches."""
    held = []
    for fold in range(every):
        data = TrainingSet.open(store, FULL, DataConfig(held_out_fraction=1 / every, fold=fold))
        is_held = np.arange(20) % every == fold
        energy = data.train_rows(np.arange(data.count)).energy[:, 0]
        np.testing.assert_allclose(energy, whole.energy_gev[~is_held] / 100)
        np.testing.assert_array_equal(data.held_out().energy_gev, whole.energy_gev[is_held])
        assert data.train_counts == (data.count,) == ((~is_held).sum(),)
        assert data.held_out_count == is_held.sum()
        held += data.held_out().energy_gev.tolist()
    assert sorted(held) == sorted(whole.energy_gev.tolist())


SMALL = (3, 4, 5)


def images(seed, cells=7):
    """Two images with `cells` each, elsewhere for each seed."""
    rng = np.random.default_rng(seed)
    cell = np.concatenate([rng.choice(60, cells, replace=False) for _ in range(2)])
    value = rng.uniform(1, 2, 2 * cells).astype(np.float32)
    return Cells(cell.astype("<u2"), value, np.array([0, cells, 2 * cells]), SMALL)


def test_buffers_lend_the_dense_images_and_are_used_again():
    buffers = ImageBuffers(2, SMALL)
    for seed in range(5):
        found = buffers.dense(images(seed, cells=7 - seed))
        np.testing.assert_array_equal(found, images(seed, cells=7 - seed).dense())
        assert found.dtype == np.float32
        assert found.ctypes.data % 64 == 0  # TensorFlow would copy it
        del found
    assert buffers.made == 1


def test_memory_with_a_reference_or_a_view_is_not_used_again():
    buffers = ImageBuffers(2, SMALL)
    held = [buffers.dense(images(seed)) for seed in range(3)]
    part = buffers.dense(images(3))[..., np.newaxis][1, 1:]
    gc.collect()
    for seed in range(4, 8):
        buffers.dense(images(seed))
    for seed, one in enumerate(held):
        np.testing.assert_array_equal(one, images(seed).dense())
    np.testing.assert_array_equal(part[..., 0], images(3).dense()[1, 1:])
    assert buffers.made == 5


def test_the_time_of_all_readers_adds_up_also_where_one_fails():
    reading = ReadingTime()

    def read():
        with reading.measured():
            time.sleep(0.05)

    threads = [threading.Thread(target=read) for _ in range(4)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    assert 4 * 0.05 <= reading.seconds <= 4 * took
    before = reading.seconds
    with pytest.raises(OSError, match="gone"), reading.measured():
        raise OSError("gone")
    assert reading.seconds > before
