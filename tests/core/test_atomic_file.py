"""Readers see the old file or the new one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cloudgan.core.atomic_file import atomic_folder, atomic_writer, write_atomic
from cloudgan.core.errors import DataError

# A limit on the size of files makes the kernel refuse the write, as a full disk does.
_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from cloudgan.core.errors import DiskFullError
from cloudgan.core.atomic_file import write_atomic
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomic(Path(sys.argv[1]), b"n" * 5000)
except DiskFullError as error:
    print(error.exit_code, error)
"""


def test_a_failed_write_leaves_the_old_file_and_no_temporary_file(tmp_path):
    path = tmp_path / "file"
    write_atomic(path, b"old")
    done = subprocess.run(
        [sys.executable, "-B", "-c", _FULL_DISK, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"1 {path}: cannot be written (File too large); free space")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_path_that_cannot_be_written_is_a_data_error(tmp_path):
    (tmp_path / "file").write_bytes(b"in the way")
    with pytest.raises(DataError, match="cannot be written"):
        write_atomic(tmp_path / "file" / "below", b"x")


def test_a_device_or_a_pipe_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="device or pipe"):
        write_atomic(tmp_path / "pipe", b"x")
    assert (tmp_path / "pipe").is_fifo()


def test_the_new_content_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with atomic_writer(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_a_block_that_raises_leaves_the_old_file_and_no_temporary_file(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), atomic_writer(path) as file:
        file.writelines([b"half", "no bytes"])
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_replaced_as_a_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "set"
    with atomic_folder(path) as beside:
        (beside / "first").touch()
        assert not path.exists()
    with pytest.raises(DataError, match="cannot be written"), atomic_folder(path) as beside:
        (beside / "missing" / "half").touch()
    assert [each.name for each in path.iterdir()] == ["first"]
    with atomic_folder(path) as beside:
        (beside / "second").touch()
    assert [each.name for each in path.iterdir()] == ["second"]
    assert list(path.parent.iterdir()) == [path]


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    path = tmp_path / "a"
    with atomic_writer(path) as one, atomic_writer(path) as two:
        one.write(b"1" * 10)
        two.write(b"2" * 5)
    assert path.read_bytes() == b"1" * 10


def test_a_file_has_the_permissions_of_the_umask(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    with atomic_writer(tmp_path / "a"):
        pass
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode
