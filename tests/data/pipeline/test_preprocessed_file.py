from __future__ import annotations

import resource
from dataclasses import replace

import numpy as np
import pytest

from cloudgan.core.errors import DataError
from cloudgan.core.progress import Silent
from cloudgan.data.pipeline import preprocessed_cache
from cloudgan.data.pipeline.preprocessed_cache import (
    HEAD_BYTES,
    NoCacheError,
    open_preprocessed,
    preprocessed_writer,
)
from cloudgan.data.pipeline.preprocessing import Preprocessing, join_preprocessed
from cloudgan.data.shards.reader import ShardReader
from cloudgan.data.sparse_showers import SparseCells

VIEW = Preprocessing((17, 17, 25))


@pytest.fixture
def blocks(tmp_path, public_hdf5, write_shards):
    """Twenty prepared showers in three blocks."""
    reader = ShardReader(write_shards(tmp_path / "set", public_hdf5))
    rows = np.arange(20)
    return [VIEW.prepare(reader.read(rows[at : at + 8], ["energy"])) for at in (0, 8, 16)]


def write(path, blocks):
    with preprocessed_writer(path, VIEW.shape) as writer:
        for block in blocks:
            writer.append(block)
    return path


@pytest.fixture
def written(tmp_path, blocks):
    return write(tmp_path / "a.cells", blocks)


def arrays(prepared):
    image = prepared.image
    return (image.value, image.cell, image.first, prepared.energy, prepared.angle, prepared.ecal)


def test_every_bit_comes_back(written, blocks):
    found, whole = open_preprocessed(written, Silent()), join_preprocessed(blocks)
    for one, other in zip(arrays(found), arrays(whole), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()
    assert found.image.shape == VIEW.shape


def test_nothing_but_the_file_is_left(written):
    assert [path.name for path in written.parent.glob("*.cells*")] == ["a.cells"]


@pytest.mark.parametrize("chunk", [1 << 20, 1000])
def test_one_wrong_bit_anywhere_is_found(written, monkeypatch, tmp_path, blocks, chunk):
    monkeypatch.setattr(preprocessed_cache, "CHECKED_BYTES", chunk)
    path = write(tmp_path / "b.cells", blocks)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for at in (
        0,
        9,
        50,
        HEAD_BYTES - 2,
        HEAD_BYTES,
        len(whole) - 1,
        *rng.integers(0, len(whole), 20),
    ):
        wrong = bytearray(whole)
        wrong[at] ^= 1 << rng.integers(8)
        path.write_bytes(wrong)
        with pytest.raises(DataError, match=r"b\.cells is damaged"):
            open_preprocessed(path, Silent())


@pytest.mark.parametrize("size", [0, 5, HEAD_BYTES, HEAD_BYTES + 100, -1])
def test_a_file_that_is_cut_off_is_found(written, size):
    written.write_bytes(written.read_bytes()[:size])
    with pytest.raises(DataError, match=r"a\.cells is damaged"):
        open_preprocessed(written, Silent())


def test_a_disk_that_is_full_leaves_the_old_file_and_nothing_else(written, blocks):
    before = written.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(NoCacheError, match="too large"):
            write(written, blocks)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert written.read_bytes() == before
    assert list(written.parent.glob("*.tmp")) == []


def test_a_failure_while_it_is_written_leaves_nothing(tmp_path, blocks):
    with pytest.raises(AttributeError):
        write(tmp_path / "c.cells", [blocks[0], None])
    assert list(tmp_path.glob("c.cells*")) == []


def test_a_set_without_one_cell_of_energy_comes_back(tmp_path, blocks):
    empty = blocks[0].take(np.zeros(3, np.int64))
    none = empty.image.cell[:0], empty.image.value[:0], np.zeros(4, np.int64)
    image = SparseCells(*none, VIEW.shape)
    write(tmp_path / "d.cells", [replace(empty, image=image)])
    found = open_preprocessed(tmp_path / "d.cells", Silent())
    assert len(found) == 3
    assert not found.batch().image.any()
