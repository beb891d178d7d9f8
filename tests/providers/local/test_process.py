"""One worker as a process of its own session."""

from __future__ import annotations

import os
import signal
import time

import pytest

from cloudgan.providers.local.process import Process, process_mark


@pytest.fixture
def begin(tmp_path):
    """Starts shell words; whatever is left of them ends with the test."""
    begun = []

    def run(script, **environment):
        process = Process(
            ["sh", "-c", script],
            {"PATH": os.environ["PATH"], **environment},
            tmp_path / "logs" / "worker-0.log",
            tmp_path / "work",
        )
        begun.append(process)
        return process

    yield run
    for process in begun:
        process.kill()


def ends(process):
    until = time.monotonic() + 20
    while process.exit_code() is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    return process.exit_code()


def wait_for(condition):
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 75", 75), ("kill -9 $$", 137), ("kill -TERM $$", 143)],
)
def test_an_exit_code_is_what_a_shell_would_say(begin, script, code):
    assert ends(begin(script)) == code


def test_what_it_prints_is_appended_to_its_log(begin, tmp_path):
    ends(begin("echo one; echo two >&2"))
    ends(begin("echo three"))
    assert (tmp_path / "logs" / "worker-0.log").read_text() == "one\ntwo\nthree\n"


def test_it_gets_the_environment_that_is_given_and_no_other(begin, tmp_path, monkeypatch):
    monkeypatch.setenv("OTHER", "no")
    ends(begin('echo "$MINE-$OTHER"', MINE="yes"))
    assert (tmp_path / "logs" / "worker-0.log").read_text() == "yes-\n"


def test_kill_ends_a_frozen_worker_and_all_that_it_started(begin, tmp_path):
    process = begin(f"sleep 60 & echo $! > {tmp_path}/child; kill -STOP $$")
    wait_for(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip())
    child = int((tmp_path / "child").read_text())
    assert process_mark(child)
    process.kill()
    assert process.exit_code() == 137
    wait_for(lambda: not process_mark(child))


def test_a_signal_to_one_that_is_gone_is_no_error(begin):
    process = begin("exit 0")
    ends(process)
    process.signal(signal.SIGTERM)
    process.kill()


def test_a_process_has_a_mark_of_its_own_and_a_dead_one_has_none(begin):
    process = begin("sleep 60")
    assert process.mark == process_mark(process.pid) != ""
    assert process.mark != process_mark(os.getpid())
    process.kill()
    assert process_mark(process.pid) == ""


def test_a_dead_process_that_nobody_has_waited_for_has_no_mark(begin):
    process = begin("exit 0")
    wait_for(lambda: process_mark(process.pid) == "")  # a zombie until its exit code is asked for
    assert process.exit_code() == 0
