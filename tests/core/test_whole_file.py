"""Readers see the old file or the new one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cloudgan.core.errors import DataError
from cloudgan.core.whole_file import write_whole

# A limit on the size of files makes the kernel refuse the write, as a full disk does.
_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from cloudgan.core.errors import DataError
from cloudgan.core.whole_file import write_whole
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_whole(Path(sys.argv[1]), b"n" * 5000)
except DataError as error:
    print(error)
"""


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside(tmp_path):
    path = tmp_path / "file"
    write_whole(path, b"old")
    done = subprocess.run(
        [sys.executable, "-c", _FULL_DISK, str(path)], capture_output=True, text=True, check=True
    )
    assert "cannot be written" in done.stdout
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_is_missing_is_made(tmp_path):
    write_whole(tmp_path / "new" / "file", b"x")
    assert (tmp_path / "new" / "file").read_bytes() == b"x"


def test_a_place_where_nothing_can_be_written_is_a_data_error(tmp_path):
    (tmp_path / "file").write_bytes(b"in the way")
    with pytest.raises(DataError, match="cannot be written"):
        write_whole(tmp_path / "file" / "below", b"x")
