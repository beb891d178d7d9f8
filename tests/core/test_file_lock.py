"""One process at a time writes a target."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from cloudgan.core import file_lock
from cloudgan.core.errors import ConfigError
from cloudgan.core.file_lock import locked_target

_HOLD = """
import sys
from pathlib import Path
from cloudgan.core.file_lock import locked_target
with locked_target(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of `target`."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path / "target")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_with_the_id_of_the_first(tmp_path, holder):
    message = rf"target is being written by process {holder.pid}; wait for it"
    with pytest.raises(ConfigError, match=message), locked_target(tmp_path / "target"):
        pass
    with locked_target(tmp_path / "other") as is_locked:
        assert is_locked


def test_the_lock_of_a_killed_process_blocks_no_one(tmp_path, holder):
    holder.kill()
    holder.wait()
    assert (tmp_path / ".target.lock").exists()
    with locked_target(tmp_path / "target") as is_locked:
        assert is_locked
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_was_deleted_while_it_was_awaited_is_taken_again(tmp_path, monkeypatch):
    path, real, tries = tmp_path / ".target.lock", fcntl.flock, []

    def deleted_once(file, how):
        real(file, how)
        tries.append(os.fstat(file.fileno()).st_ino)
        if len(tries) == 1:
            path.unlink()

    monkeypatch.setattr(file_lock.fcntl, "flock", deleted_once)
    with locked_target(tmp_path / "target"):
        assert len(tries) == 2
        assert path.stat().st_ino == tries[-1]


def test_a_file_system_without_locks_is_reported(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(file_lock.fcntl, "flock", unsupported)
    with locked_target(tmp_path / "target") as is_locked:
        assert not is_locked


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(ConfigError, match=r"file/target: cannot be written"),
        locked_target(tmp_path / "file" / "target"),
    ):
        pass
