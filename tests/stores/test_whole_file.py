from __future__ import annotations

from pathlib import Path

import pytest

from cloudgan.stores import StoreError
from cloudgan.stores.folder import FolderStore
from cloudgan.stores.whole_file import whole_file


def test_a_file_is_not_seen_before_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with whole_file(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_a_block_that_raises_leaves_the_old_file_and_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), whole_file(path) as file:
        file.writelines([b"half", "no bytes"])  # type: ignore[list-item]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_one_file_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with whole_file(path) as one, whole_file(path) as two:
        one.write(b"1" * 10)
        two.write(b"2" * 5)
    assert path.read_bytes() == b"1" * 10


def test_what_a_killed_writer_left_is_no_object(tmp_path: Path) -> None:
    (tmp_path / "a.123-abcd.tmp").write_bytes(b"half")
    (tmp_path / "b").write_bytes(b"whole")
    assert FolderStore(tmp_path).list() == ("b",)


def test_a_file_is_readable_by_whom_the_umask_allows(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    with whole_file(tmp_path / "a"):
        pass
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_disk_that_is_full_is_told_and_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    full = Path("/dev/full")
    with pytest.raises(StoreError, match="No space left"), whole_file(path):
        full.write_bytes(b"x")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
