from __future__ import annotations

import h5py
import numpy as np
import pytest

from cloudgan.core.errors import DataError
from cloudgan.data.pipeline.preprocessing import Preprocessing
from cloudgan.data.pipeline.training_set import TrainingSet
from cloudgan.data.shards.manifest import read_manifest
from cloudgan.data.showers import central, measured_angle
from cloudgan.data.sources.hdf5 import Hdf5File

FULL = Preprocessing((51, 51, 25))
MINI = Preprocessing((17, 17, 25))


@pytest.fixture
def whole(public_hdf5):
    return next(Hdf5File(public_hdf5).blocks(20))


@pytest.fixture
def shards(tmp_path, public_hdf5, write_shards):
    return write_shards(tmp_path / "set", public_hdf5)


def test_every_fourth_shower_is_held_out_and_the_others_are_numbered(shards, whole):
    data = TrainingSet.open(shards, FULL, held_out_fraction=0.25)
    held = np.arange(20) % 4 == 3
    assert data.count == 15
    assert data.held_out_count == 5
    assert data.train_counts == (5, 4, 5, 1)  # shards of 6, 6, 6 and 2
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


@pytest.mark.parametrize("cache", ["none", "memory", "disk", "auto"])
@pytest.mark.parametrize("view", [FULL, MINI], ids=["full", "mini"])
def test_images_are_those_of_the_dense_recipe(shards, whole, view, cache):
    data = TrainingSet.open(shards, view, held_out_fraction=0.5, cache=cache)
    rows = np.array([9, 0, 4, 4])
    batch = data.train_rows(rows)
    showers = whole[rows * 2]
    cut = central(showers.ecal_gev, view.shape)
    scaled = cut * np.float32(50)
    np.testing.assert_array_equal(batch.image, scaled ** np.float32(0.85))
    np.testing.assert_allclose(batch.ecal[:, 0], scaled.sum((1, 2, 3)), rtol=1e-5)
    np.testing.assert_array_equal(batch.energy[:, 0], showers.energy_gev / np.float32(100))
    angle = showers.mtheta_rad if view is FULL else measured_angle(cut)
    np.testing.assert_array_equal(batch.angle[:, 0], angle)
    assert {array.dtype for array in batch} == {np.dtype("f4")}
    assert {array.shape for array in batch[1:]} == {(4, 1)}


def test_the_description_names_the_cache(shards):
    assert "decoded on demand" in TrainingSet.open(shards, MINI, cache="none").describe()[-1]
    assert "in memory" in TrainingSet.open(shards, MINI, cache="auto").describe()[-1]


def test_showers_too_small_for_the_view_are_refused(tmp_path, write_hdf5_file, write_shards):
    path = write_hdf5_file(tmp_path / "a.h5", shape=(25, 25, 25))
    shards = write_shards(tmp_path / "set", path)
    with pytest.raises(DataError, match="have 25x25x25 cells, the preset needs 51x51x25"):
        TrainingSet.open(shards, FULL)
    assert TrainingSet.open(shards, MINI).view == MINI


def test_one_shower_leaves_none_to_hold_back(tmp_path, write_hdf5_file, write_shards):
    shards = write_shards(tmp_path / "set", write_hdf5_file(tmp_path / "a.h5", 1))
    with pytest.raises(DataError, match="holds one shower"):
        TrainingSet.open(shards, MINI)


def test_few_showers_still_leave_one_to_hold_back(tmp_path, write_hdf5_file, write_shards):
    shards = write_shards(tmp_path / "set", write_hdf5_file(tmp_path / "a.h5", 4))
    data = TrainingSet.open(shards, MINI, held_out_fraction=0.01)
    assert (data.count, data.held_out_count) == (3, 1)


def test_the_summary_is_that_of_the_dense_images(shards, whole):
    data = TrainingSet.open(shards, MINI, held_out_fraction=0.5)
    summary = data.summary
    showers = whole[::2]
    cut = central(showers.ecal_gev, MINI.shape)
    fraction = (cut.sum((1, 2)) / showers.energy_gev[:, None]).mean(0)
    np.testing.assert_allclose(summary.layer_fraction, fraction, rtol=1e-4)
    image = (cut * 50) ** 0.85
    unit = image.sum((1, 2, 3)) / (showers.energy_gev / 100) ** 0.85
    assert summary.mean_image_sum_per_unit == pytest.approx(unit.mean(), rel=1e-4)
    contained = cut.sum((1, 2, 3)) / showers.ecal_gev.sum((1, 2, 3))
    assert summary.contained_fraction == pytest.approx(contained.mean(), rel=1e-4)
    assert summary.count == summary.sampled == 10
    assert summary.energy_range_gev == (showers.energy_gev.min(), showers.energy_gev.max())


def test_the_summary_fits_mtheta_against_theta(shards, tmp_path, write_hdf5_file, write_shards):
    fit = TrainingSet.open(shards, FULL).summary.angle_fit
    assert fit.offset_rad == pytest.approx(0.2, abs=1e-4)
    assert fit.slope == pytest.approx(0.87, abs=1e-4)
    np.testing.assert_allclose(fit.mtheta_rad(np.float32([1.5])), 0.2 + 0.87 * 1.5, rtol=1e-4)
    path = write_hdf5_file(tmp_path / "no.h5", theta=None)
    summary = TrainingSet.open(write_shards(tmp_path / "set2", path), FULL).summary
    assert summary.angle_fit is None
    assert summary.theta_range_rad is None
    one = write_hdf5_file(tmp_path / "one.h5", theta=np.full(20, 1.5, "f4"))
    assert TrainingSet.open(write_shards(tmp_path / "set3", one), FULL).summary.angle_fit is None


@pytest.mark.parametrize("cache", ["none", "memory", "disk"])
def test_one_flipped_bit_is_found_before_the_first_step(shards, cache):
    TrainingSet.open(shards, MINI, cache=cache)
    path = shards / "showers-00001.tfrecord"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"showers-00001\.tfrecord, record \d: damaged"):
        TrainingSet.open(shards, MINI, cache=cache)


@pytest.fixture
def of_particle(tmp_path, write_hdf5_file):
    def write(name, particle):
        path = write_hdf5_file(tmp_path / name)
        with h5py.File(path, "a") as file:
            file.attrs["particle"] = particle
        return path

    return write


def test_the_particle_of_the_file_reaches_notes_and_summary(tmp_path, of_particle, write_shards):
    folder = write_shards(tmp_path / "set", of_particle("a.h5", "photon"))
    data = TrainingSet.open(folder, MINI)
    assert "Primary particle: photon." in data.describe()
    assert data.summary.particle == "photon"
    assert read_manifest(folder).sources[0].particle == "photon"


def test_a_file_without_a_particle_has_none(shards):
    data = TrainingSet.open(shards, MINI)
    assert data.summary.particle is None
    assert not any("Primary particle" in line for line in data.describe())


def test_showers_of_two_particles_are_refused(tmp_path, of_particle, write_shards):
    sources = of_particle("a.h5", "photon"), of_particle("b.h5", "electron")
    folder = write_shards(tmp_path / "set", *sources)
    with pytest.raises(DataError, match=r"mixes primary particles: .*b.h5 \(electron\), .*photon"):
        TrainingSet.open(folder, MINI)


def test_the_folds_hold_out_each_shower_once_and_train_on_the_others(shards, whole):
    held = []
    for fold in range(4):
        data = TrainingSet.open(shards, FULL, held_out_fraction=0.25, fold=fold)
        is_held = np.arange(20) % 4 == fold
        energy = data.train_rows(np.arange(data.count)).energy[:, 0]
        np.testing.assert_allclose(energy, whole.energy_gev[~is_held] / 100)
        np.testing.assert_array_equal(data.held_out().energy_gev, whole.energy_gev[is_held])
        assert sum(data.train_counts) == data.count == 15
        held += data.held_out().energy_gev.tolist()
    assert sorted(held) == sorted(whole.energy_gev.tolist())
    usual = TrainingSet.open(shards, FULL, held_out_fraction=0.25)
    np.testing.assert_array_equal(
        usual.held_out().energy_gev, whole.energy_gev[np.arange(20) % 4 == 3]
    )


@pytest.mark.parametrize("fold", [0, 2])
def test_an_incomplete_last_group_belongs_to_the_folds_that_it_reaches(shards, whole, fold):
    data = TrainingSet.open(shards, FULL, held_out_fraction=1 / 3, fold=fold)
    is_held = np.arange(20) % 3 == fold
    assert data.held_out_count == is_held.sum()
    assert data.train_counts == tuple(
        int((~is_held[start : start + 6]).sum()) for start in range(0, 20, 6)
    )
    energy = data.train_rows(np.arange(data.count)).energy[:, 0]
    np.testing.assert_allclose(energy, whole.energy_gev[~is_held] / 100)
