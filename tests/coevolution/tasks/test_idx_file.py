import gzip
import math
import os
import struct
import tracemalloc

import numpy as np
import pytest

from cloudgan.coevolution.tasks.idx_file import MAX_BYTES, read_images, read_labels
from cloudgan.core.errors import DataError

IMAGES = np.arange(3 * 2 * 4, dtype=np.uint8).reshape(3, 2, 4)
LABELS = np.array([9, 0, 4], np.uint8)


def idx(array, shape=None, kind=8):
    shape = array.shape if shape is None else shape
    header = bytes((0, 0, kind, len(shape))) + struct.pack(f">{len(shape)}I", *shape)
    return header + array.tobytes()


@pytest.fixture
def written(tmp_path):
    def write(content):
        path = tmp_path / "digits-ubyte"
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_images_and_labels_are_read_from_plain_and_from_compressed_files(written, pack):
    np.testing.assert_array_equal(read_images(written(pack(idx(IMAGES)))), IMAGES)
    np.testing.assert_array_equal(read_labels(written(pack(idx(LABELS)))), LABELS)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with nothing; expected 00 00 08 03"),
        (b"<html>", "begins with 3c 68 74 6d; expected 00 00 08 03"),
        (idx(LABELS), "not an idx file of images: it begins with 00 00 08 01"),
        (idx(IMAGES, kind=13), "begins with 00 00 0d 03"),
        (idx(IMAGES)[:11], "ends within its header"),
        (idx(IMAGES)[:-1], r"names 3 x 2 x 4 bytes \(images, rows, columns\), and fewer follow"),
        (idx(IMAGES) + b"x", "and more follow"),
        (idx(IMAGES, (0, 28, 28)), "has no images"),
        (idx(IMAGES, (3, 28, 0)), "has no columns"),
        (idx(IMAGES, (2**32 - 1,) * 3), f"valid are at most {MAX_BYTES}"),
    ],
)
def test_a_file_that_is_no_file_of_images_is_refused_with_the_reason(
    written, pack, content, message
):
    path = written(pack(content))
    with pytest.raises(DataError, match=message) as raised:
        read_images(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_no_memory_is_allocated_for_images_that_a_short_file_cannot_hold(written, pack):
    path = written(pack(idx(IMAGES, (MAX_BYTES // 784, 28, 28))))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="and fewer follow"):
            read_images(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_black_images_may_be_compressed_as_far_as_gzip_can(written):
    black = np.zeros((2000, 28, 28), np.uint8)
    packed = gzip.compress(idx(black))
    assert len(packed) < black.nbytes / 950
    assert read_images(written(packed)).shape == black.shape


def test_of_a_compressed_file_no_more_is_unpacked_than_its_header_names(written, monkeypatch):
    unpacked = []
    read = gzip.GzipFile.read

    def counting(self, size):
        found = read(self, size)
        unpacked.append(len(found))
        return found

    monkeypatch.setattr(gzip.GzipFile, "read", counting)
    with pytest.raises(DataError, match="and more follow"):
        read_images(written(gzip.compress(idx(IMAGES) + bytes(10**7))))
    assert sum(unpacked) == 16 + math.prod(IMAGES.shape) + 1


@pytest.mark.parametrize("at", [12, 30, -5, -1], ids=["deflate", "content", "checksum", "size"])
def test_a_damaged_gzip_file_is_refused(written, at):
    content = bytearray(gzip.compress(idx(IMAGES)))
    content[at] ^= 0xFF
    with pytest.raises(DataError, match="damaged"):
        read_images(written(bytes(content)))


def test_a_gzip_file_that_ends_early_is_refused(written):
    with pytest.raises(DataError, match="damaged"):
        read_images(written(gzip.compress(idx(IMAGES))[:-9]))


def test_a_label_above_nine_is_named_with_its_place(written):
    labels = np.array([3, 9, 10, 47], np.uint8)
    with pytest.raises(DataError, match="label 2 is 10; valid labels are 0 to 9"):
        read_labels(written(idx(labels)))


def test_a_pipe_and_a_missing_file_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="is a pipe"):
        read_images(tmp_path / "pipe")
    with pytest.raises(DataError, match="cannot be read"):
        read_labels(tmp_path / "none")
