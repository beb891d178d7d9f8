"""The state file of a local run and the lock of its supervisor."""

import fcntl
import os
import threading
import time

import pytest

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.launch.backends.local.supervisor import StateFile


def test_a_run_that_was_never_started_has_no_state_and_no_supervisor(tmp_path):
    file = StateFile(tmp_path)
    assert file.read() is file.supervisor() is None
    assert list(tmp_path.iterdir()) == [], "reading creates no files"


def test_an_invalid_state_file_is_refused_with_its_path(tmp_path):
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "state.json").write_text('{"phase": "dancing"}')
    with pytest.raises(DataError, match=r"state\.json: not a SavedState"):
        StateFile(tmp_path).read()


def test_a_supervisor_is_found_while_it_holds_the_lock(tmp_path):
    file = StateFile(tmp_path)
    with file.lock():
        assert StateFile(tmp_path).supervisor() == os.getpid()
        with pytest.raises(ConfigError, match="already has a supervisor process"), file.lock():
            pass
    assert file.supervisor() is None, "the lock ends with its process, the file stays"
    with file.lock():
        assert file.supervisor() == os.getpid()


def test_a_short_shared_lock_does_not_prevent_a_supervisor(tmp_path):
    file = StateFile(tmp_path)
    with file.lock():
        pass
    with (tmp_path / "pods" / ".lock").open() as looked:
        fcntl.flock(looked, fcntl.LOCK_SH)
        threading.Timer(0.1, lambda: fcntl.flock(looked, fcntl.LOCK_UN)).start()
        with file.lock():
            assert file.supervisor() == os.getpid()


def test_the_process_id_of_a_starting_supervisor_is_awaited(tmp_path):
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
