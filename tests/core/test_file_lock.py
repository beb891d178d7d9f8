"""One process at a time writes a target."""

from __future__ import annotations

import errno
import fcntl
import os
import threading

import pytest

from cloudgan.core import file_lock
from cloudgan.core.errors import ConfigError
from cloudgan.core.file_lock import awaited_target, locked_target


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


def test_a_process_that_writes_is_awaited_for_some_time_only(tmp_path):
    target, order = tmp_path / "target", []

    def write():
        with locked_target(target):
            order.append("first")
            begun.set()
            released.wait()

    begun, released = threading.Event(), threading.Event()
    first = threading.Thread(target=write)
    first.start()
    begun.wait()
    with (
        pytest.raises(ConfigError, match=f"being written by process {os.getpid()}"),
        awaited_target(target, 0.02),
    ):
        pass
    threading.Timer(0.05, released.set).start()
    with awaited_target(target):
        order.append("second")
    first.join()
    assert order == ["first", "second"]
    (tmp_path / "file").touch()
    with (
        pytest.raises(ConfigError, match=r"file/target: cannot be written"),
        awaited_target(tmp_path / "file" / "target"),
    ):
        pass


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(ConfigError, match=r"file/target: cannot be written"),
        locked_target(tmp_path / "file" / "target"),
    ):
        pass
