"""On real processes that simulate showers, which needs no TensorFlow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from bench.processes import is_gone
from cloudgan.bench import processes
from cloudgan.bench.processes import Child, Process
from cloudgan.core.errors import CloudganError, ConfigError

WORK = "cloudgan.bench.generate:parametric_rows"
SMALL = {"cells": (5, 5), "energy_gev": (10.0, 100.0)}
PARENT = """
from cloudgan.bench.processes import Child
with Child("orphan", "works:endless") as child:
    print(child.process_id, flush=True)
    child.facts()
"""
WORKS = """
import os, time
from cloudgan.core.errors import ConfigError
def endless():
    time.sleep(1000)
def refusing():
    yield {}
    raise ConfigError("0 showers requested")
def broken():
    yield {}
    raise RuntimeError("a fault")
def lacking():
    raise ModuleNotFoundError("no", name="numpy")
    yield
def speaking():
    os.write(1, b"I am a library\\n"); print("so am I", flush=True)
    yield {"cells": 1}
"""


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Starts works of a module of its own."""
    (tmp_path / "works.py").write_text(WORKS)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    monkeypatch.setenv("PYTHONPATH", path)
    return lambda name: Child("a source", f"works:{name}")


def test_each_call_measures_a_row_and_two_processes_build_at_once():
    with Child("one", WORK, **SMALL) as one, Child("other", WORK, **SMALL) as other:
        assert one.facts() == other.facts() == {}
        rows = [one(), other(), one()]
    assert all(row["seconds_per_shower"] > 0 and row["cpu_seconds_per_shower"] > 0 for row in rows)


def test_an_error_of_ours_comes_back_as_what_it_is(started):
    with started("refusing") as child:
        assert child.facts() == {}
        with pytest.raises(ConfigError, match="a source: 0 showers requested"):
            child()


def test_a_missing_package_is_named_so_that_the_command_line_can_tell_the_extra(started):
    with started("lacking") as child, pytest.raises(ModuleNotFoundError) as error:
        child.facts()
    assert error.value.name == "numpy"


def test_a_fault_ends_it_and_the_error_has_its_last_lines(started):
    with started("broken") as child:
        child.facts()
        with pytest.raises(CloudganError) as error:
            child()
    assert "measures a source" in str(error.value)
    assert "exit code 1; its last lines" in str(error.value)
    assert "RuntimeError: a fault" in str(error.value)


def test_the_error_of_a_killed_process_names_the_signal(started):
    with started("endless") as child:
        os.kill(child.process_id, 9)
        with pytest.raises(CloudganError, match="died with SIGKILL"):
            child.facts()


def test_leaving_ends_it_in_the_middle_of_its_work(started):
    with started("endless") as child:
        pass
    assert is_gone(child.process_id)


def test_it_ends_when_its_parent_is_killed(started):
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        child = int(parent.stdout.readline())
        assert not is_gone(child, seconds=0.3)
        parent.kill()
    assert is_gone(child)


def test_what_libraries_print_is_no_answer(started):
    with started("speaking") as child:
        assert child.facts() == {"cells": 1}


SLEEPS = (sys.executable, "-c", "import time; time.sleep(1000)")


def test_a_program_that_takes_too_long_is_named_and_ended():
    with (
        pytest.raises(CloudganError, match="2 ranks did not end within 0 s"),
        Process("2 ranks", SLEEPS) as process,
    ):
        process.wait(0.1)
    assert is_gone(process.process_id)


def test_ctrl_c_while_a_program_starts_ends_it(monkeypatch):
    start, started = subprocess.Popen, []

    def interrupted(*words, **options):
        started.append(start(*words, **options))
        os.kill(os.getpid(), signal.SIGINT)
        return started[0]

    monkeypatch.setattr(processes.subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt), Process("a program", SLEEPS):
        pytest.fail("it started")
    assert started[0].poll() is not None
