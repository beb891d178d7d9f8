"""What the supervisor leaves for whoever looks, and the lock that says it lives."""

from __future__ import annotations

import fcntl
import os
import threading
import time

import pytest

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.providers.local.state_file import StateFile, StateNote, WorkerNote


def test_nothing_started_is_no_note_and_no_supervisor(tmp_path):
    file = StateFile(tmp_path)
    assert file.read() is file.supervisor() is None
    assert list(tmp_path.iterdir()) == [], "to look leaves nothing"


def test_a_note_comes_back(tmp_path):
    worker = WorkerNote(
        index=0, phase="failed", pid=7, mark="x", replaced=2, why="y", cause="image"
    )
    note = StateNote(
        phase="failed", workers=(worker,), why="z", cause="image", began="a", ended="b"
    )
    StateFile(tmp_path).write(note)
    assert StateFile(tmp_path).read() == note


def test_a_note_of_another_kind_is_refused_by_name(tmp_path):
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "state.json").write_text('{"phase": "dancing"}')
    with pytest.raises(DataError, match=r"state\.json: not a StateNote"):
        StateFile(tmp_path).read()


def test_a_supervisor_is_known_while_it_lives(tmp_path):
    file = StateFile(tmp_path)
    with file.held():
        assert StateFile(tmp_path).supervisor() == os.getpid()
        with pytest.raises(ConfigError, match="kept by another process"), file.held():
            pass
    assert file.supervisor() is None, "the lock goes with its process, the file stays"
    with file.held():
        assert file.supervisor() == os.getpid()


def test_a_look_at_the_wrong_moment_keeps_no_supervisor_from_starting(tmp_path):
    file = StateFile(tmp_path)
    with file.held():
        pass
    with (tmp_path / "pods" / ".lock").open() as looked:
        fcntl.flock(looked, fcntl.LOCK_SH)
        threading.Timer(0.1, lambda: fcntl.flock(looked, fcntl.LOCK_UN)).start()
        with file.held():
            assert file.supervisor() == os.getpid()


def test_a_supervisor_that_has_not_yet_written_its_number_is_waited_for(tmp_path):
    (tmp_path / "pods").mkdir()
    lock = tmp_path / "pods" / ".lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        def write():
            time.sleep(0.1)
            held.write("4711")
            held.flush()

        writer = threading.Thread(target=write)
        writer.start()
        assert StateFile(tmp_path).supervisor() == 4711
        writer.join()
