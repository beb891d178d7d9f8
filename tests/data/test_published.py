from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from cloudgan.core.errors import DataError
from cloudgan.data.showers import measured_angle
from cloudgan.data.sources import open_source
from data.conftest import make_ecal

pytestmark = pytest.mark.tf

COUNT = 9


def floats(values):
    values = np.ravel(values).tolist()
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def integers(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def write(path, records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for features in records:
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    return path


@pytest.fixture
def showers():
    ecal = make_ecal(COUNT)
    return ecal, (ecal.sum((1, 2, 3)) / 0.02).astype("f4")


def preprocessed(showers, *, power=1.0, angle=None):
    ecal, energy = showers
    raw = ecal.astype("f8") * 50
    angles = measured_angle(ecal) if angle is None else angle
    return [
        {
            "X": floats(image**power),
            "Y": floats(e / 100),
            "ang": floats(a),
            "ecal": floats(image.sum()),
        }
        for image, e, a in zip(raw, energy, angles, strict=True)
    ]


def whole(showers, rows=slice(None)):
    ecal, energy = (values[rows] for values in showers)
    theta = np.linspace(1.1, 2, len(energy))
    return {
        "ECAL": floats(ecal * 50),
        "ecalsize": integers(list(ecal.shape)),
        "energy": floats(energy),
        "theta": floats(theta),
        "mtheta": floats(theta / 2),
        "eta": floats(theta * 0),
        "sum": floats(ecal.sum((1, 2, 3)) * 50),
    }


def read(path, size=4):
    blocks = list(open_source(str(path)).blocks(size))
    assert max(len(block) for block in blocks) <= size
    return np.concatenate([block.ecal_gev for block in blocks]), blocks


@pytest.mark.parametrize(("power", "expected"), [(1.0, "not raised"), (0.85, "raised to 0.85")])
def test_preprocessed_files_say_themselves_whether_they_are_raised(
    tmp_path, showers, power, expected
):
    path = write(tmp_path / "a.tfrecords", preprocessed(showers, power=power))
    ecal, blocks = read(path)
    np.testing.assert_allclose(ecal, showers[0], rtol=1e-5)
    energies = np.concatenate([block.energy_gev for block in blocks])
    np.testing.assert_allclose(energies, showers[1], rtol=1e-6)
    lines = open_source(str(path)).describe()
    assert any(f"X is {expected}" in line for line in lines)
    assert any("ECAL is GeV*50" in line for line in lines)


def test_ang_is_mtheta_where_the_images_say_so_and_theta_otherwise(tmp_path, showers):
    path = write(tmp_path / "a.tfrecord", preprocessed(showers))
    _, (block, *_) = read(path)
    assert block.theta_rad is None
    theta = np.linspace(1.1, 2, COUNT, dtype="f4")
    other = write(tmp_path / "b.tfrecord", preprocessed(showers, angle=theta))
    _, (block, *_) = read(other)
    np.testing.assert_array_equal(block.theta_rad, theta[:4])
    np.testing.assert_allclose(block.mtheta_rad, measured_angle(showers[0][:4]), atol=1e-4)
    assert any("ang is theta" in line for line in open_source(str(other)).describe())


@pytest.mark.parametrize(("power", "change"), [(0.5, {}), (1.0, {"ecal": floats(0)})])
def test_a_sum_that_fits_neither_is_refused(tmp_path, showers, power, change):
    records = [features | change for features in preprocessed(showers, power=power)]
    with pytest.raises(DataError, match="ecal is neither the sum of X"):
        open_source(str(write(tmp_path / "a.tfrecord", records)))


def test_several_whole_files_in_one_are_all_read(tmp_path, showers):
    records = [whole(showers, slice(0, 5)), whole(showers, slice(5, 9))]
    path = write(tmp_path / "a.tfrecord", records)
    source = open_source(str(path))
    assert source.count == COUNT
    ecal, (first, *_) = read(path)
    np.testing.assert_allclose(ecal, showers[0], rtol=1e-6)
    np.testing.assert_allclose(first.mtheta_rad, first.theta_rad / 2, rtol=1e-6)


def test_a_truncated_file_is_named_by_record(tmp_path, showers):
    path = write(tmp_path / "a.tfrecord", preprocessed(showers))
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(DataError, match=r"a\.tfrecord, record 8: truncated or damaged"):
        open_source(str(path))


def test_a_wrong_checksum_is_named_by_record(tmp_path, showers):
    path = write(tmp_path / "a.tfrecord", preprocessed(showers))
    content = bytearray(path.read_bytes())
    content[len(content) * 7 // 9 + 1000] ^= 1  # somewhere in record 7, a value still valid
    path.write_bytes(content)
    source = open_source(str(path))
    with pytest.raises(DataError, match=r"a\.tfrecord, record 7: is damaged: its checksum"):
        list(source.blocks(3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": None}, r"record 5: it has no floats X; it has Y, ang, ecal"),
        ({"X": floats(np.ones(15625))}, r"record 5: X has 15625 values, the first record 65025"),
        ({"Y": floats([1, 2])}, r"record 5: Y has 2 values, expected 1"),
        ({"ecal": integers([3])}, r"record 5: it has no floats ecal"),
        ({"Y": floats([-1])}, r"event 5: the primary energy is -100 GeV"),
    ],
)
def test_a_wrong_feature_is_named_by_record(tmp_path, showers, change, message):
    records = preprocessed(showers)
    records[5] = {k: v for k, v in (records[5] | change).items() if v is not None}
    path = write(tmp_path / "a.tfrecord", records)
    with pytest.raises(DataError, match=rf"a\.tfrecord, {message}"):
        list(open_source(str(path)).blocks(20))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ecalsize": None}, "record 1: it lacks ECAL"),
        ({"ecalsize": integers([4, 51, 51])}, r"record 1: ECAL has \d+ values and ecalsize is"),
        ({"energy": floats([1, 2])}, "record 1: energy has 2 values for 4 showers"),
        ({"mtheta": None}, "record 1: mtheta has 0 values for 4 showers"),
        ({"energy": floats([9, 9, 0, 9])}, "record 1, event 2: the primary energy is 0"),
    ],
)
def test_a_wrong_whole_file_is_named_by_record(tmp_path, showers, change, message):
    second = whole(showers, slice(5, 9)) | change
    second = {k: v for k, v in second.items() if v is not None}
    path = write(tmp_path / "a.tfrecord", [whole(showers, slice(0, 5)), second])
    with pytest.raises(DataError, match=rf"a\.tfrecord, {message}"):
        open_source(str(path))


def test_unknown_features_are_listed(tmp_path):
    path = write(tmp_path / "a.tfrecord", [{"image": floats([1])}])
    with pytest.raises(
        DataError, match="with an unknown layout: its first record has image; known"
    ):
        open_source(str(path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ecalsize": floats([np.nan] * 4)}, r"lacks ECAL \(floats\), ecalsize \(integers\)"),
        ({"ecalsize": floats([np.inf] * 4)}, "ecalsize"),
        ({"ecalsize": integers([2**62] * 4)}, "ECAL has .* values and ecalsize is"),
        ({"energy": floats([0] * COUNT)}, "the primary energy is 0 GeV"),
        ({"ECAL": floats(np.zeros(COUNT * 51 * 51 * 25))}, r"sum\(ECAL\)/energy is 0"),
    ],
)
def test_numbers_of_a_published_file_that_cannot_be_are_refused(tmp_path, showers, change, message):
    path = write(tmp_path / "a.tfrecord", [whole(showers) | change])
    with pytest.raises(DataError, match=message):
        open_source(str(path))
