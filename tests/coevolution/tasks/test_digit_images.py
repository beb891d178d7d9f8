import gzip
import shutil
import struct

import numpy as np
import pytest

from cloudgan.cli.options.failure import explain
from cloudgan.coevolution.tasks.digit_images import read_digits, scaled
from cloudgan.core.errors import ConfigError, DataError


def idx(array):
    header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def images_of(count, side=28):
    return np.random.default_rng(count).integers(0, 256, (count, side, side)).astype(np.uint8)


def labels_of(count):
    return np.arange(count, dtype=np.uint8) % 10


@pytest.fixture
def folder(tmp_path):
    for part, count in (("train", 12), ("t10k", 5)):
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(idx(images_of(count)))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels_of(count)))
    return tmp_path


def test_a_folder_with_the_files_of_mnist_holds_training_and_held_out_digits(folder):
    found = read_digits(str(folder))
    assert found.side == 28
    np.testing.assert_array_equal(found.training.images, images_of(12).reshape(12, 784))
    np.testing.assert_array_equal(found.training.labels, labels_of(12))
    np.testing.assert_array_equal(found.held_out.images, images_of(5).reshape(5, 784))


def test_files_may_be_compressed_and_their_names_may_have_a_dot(folder):
    packed = folder / "train-images.idx3-ubyte.gz"
    packed.write_bytes(gzip.compress((folder / "train-images-idx3-ubyte").read_bytes()))
    (folder / "train-images-idx3-ubyte").unlink()
    shutil.move(folder / "t10k-labels-idx1-ubyte", folder / "t10k-labels.idx1-ubyte")
    assert len(read_digits(str(folder)).training) == 12


def test_a_missing_file_is_named_with_where_to_get_it(folder):
    (folder / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match=r"no file train-labels-idx1-ubyte or .*\.gz; .*npm pack"):
        read_digits(str(folder))


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("train-labels-idx1-ubyte", labels_of(11), "has 11 labels, and train-images.* has 12"),
        ("t10k-images-idx3-ubyte", images_of(5, side=27), "27 x 27 pixels; valid are 28 x 28"),
    ],
)
def test_files_that_do_not_fit_each_other_are_refused(folder, name, array, message):
    (folder / name).write_bytes(idx(array))
    with pytest.raises(DataError, match=message):
        read_digits(str(folder))


def test_one_held_out_digit_is_too_few(folder):
    (folder / "t10k-images-idx3-ubyte").write_bytes(idx(images_of(1)))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx(labels_of(1)))
    with pytest.raises(DataError, match="two or more"):
        read_digits(str(folder))


def test_data_that_is_no_folder_or_a_url_is_refused(folder):
    with pytest.raises(DataError, match="not a folder with the idx files of MNIST"):
        read_digits(str(folder / "train-images-idx3-ubyte"))
    with pytest.raises(ConfigError, match="is a URL"):
        read_digits("gs://bucket/mnist")


def test_without_a_folder_every_fourth_digit_of_scikit_learn_is_held_out():
    found = read_digits(None)
    assert found.side == 8
    assert (len(found.training), len(found.held_out)) == (1348, 449)
    assert found.training.images.shape == (1348, 64)
    assert found.training.images.max() == 255
    # Rows 0 to 3 of scikit-learn's digits show 0, 1, 2, 3.
    assert found.training.labels[:3].tolist() == [0, 1, 2]
    assert found.held_out.labels[0] == 3
    assert set(found.held_out.labels) == set(range(10))


def test_without_scikit_learn_the_message_has_the_install_command(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.datasets", None)
    with pytest.raises(ModuleNotFoundError) as raised:
        read_digits(None)
    assert explain(raised.value).exit_code == 2
    assert "pip install '.[physics]'" in explain(raised.value).message


def test_pixels_are_scaled_from_minus_one_to_one():
    values = scaled(np.array([0, 255], np.uint8).astype(np.float32))
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, [-1, 1], atol=1e-6)
