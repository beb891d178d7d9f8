"""On real processes that simulate showers, which needs no TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bench.processes import is_gone
from cloudgan.bench.measuring_process import MeasuringProcess
from cloudgan.core.errors import CloudganError, ConfigError

PARENT = """
import time
from cloudgan.bench.measuring_process import MeasuringProcess
with MeasuringProcess("orphan") as process:
    process.ask("begin", work="simulate", cells=(9, 9))
    print(process.process_id, flush=True)
    process.ask("round", count=1_000_000, seed=0)
"""


@pytest.fixture(scope="module")
def process():
    with MeasuringProcess("a source") as started:
        started.ask("begin", work="simulate", cells=(5, 5))
        yield started


def test_it_measures_as_often_as_it_is_asked(process):
    found = [process.ask("round", count=50, seed=seed) for seed in (0, 1)]
    assert all(one["seconds"] > 0 and one["cpu_seconds"] > 0 for one in found)


def test_two_are_asked_at_once_and_answer_each_for_itself(process):
    with MeasuringProcess("another") as other:
        other.send("begin", work="simulate", cells=(5, 5))
        process.send("round", count=50, seed=0)
        assert other.receive() == {}
        assert process.receive()["seconds"] > 0


def test_an_error_of_ours_comes_back_as_what_it_is(process):
    with pytest.raises(ConfigError, match="a source: 0 showers requested"):
        process.ask("round", count=0, seed=0)
    assert process.ask("round", count=50, seed=0)["seconds"] > 0


def test_a_missing_package_is_named_so_that_the_command_line_can_tell_the_extra(tmp_path):
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('no', name='numpy')")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    process = MeasuringProcess("a source", {"PYTHONPATH": path})
    with process, pytest.raises(ModuleNotFoundError) as error:
        process.ask("begin", work="simulate", cells=(5, 5))
    assert error.value.name == "numpy"


def test_a_fault_ends_it_and_the_error_has_its_last_lines():
    process = MeasuringProcess("a source")
    with process, pytest.raises(CloudganError) as error:
        process.ask("round", count=50, seed=0)
    assert "measures a source" in str(error.value)
    assert "exit code 1; its last lines" in str(error.value)
    assert "RuntimeError: request before `begin`" in str(error.value)


def test_the_error_of_a_killed_process_names_the_signal():
    with MeasuringProcess("a source") as process:
        os.kill(process.process_id, 9)
        with pytest.raises(CloudganError, match="died with SIGKILL"):
            process.ask("begin", work="simulate", cells=(5, 5))


def test_leaving_ends_it_in_the_middle_of_its_work():
    with MeasuringProcess("a source") as process:
        process.ask("begin", work="simulate", cells=(51, 51))
        process.send("round", count=1_000_000, seed=0)
    assert is_gone(process.process_id)


def test_it_ends_when_its_parent_is_killed():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        child = int(parent.stdout.readline())
        assert not is_gone(child, seconds=0.3)
        parent.kill()
    assert is_gone(child)


def test_what_libraries_print_is_no_answer(tmp_path):
    """Modules that the work imports print to standard output, by Python and by its file descriptor."""
    (tmp_path / "sitecustomize.py").write_text(
        "import builtins, os\n"
        "real = builtins.__import__\n"
        "def speaking(name, *rest, **named):\n"
        "    if name == 'cloudgan.bench.measurement':\n"
        "        os.write(1, b'I am a library\\n'); print('so am I', flush=True)\n"
        "    return real(name, *rest, **named)\n"
        "builtins.__import__ = speaking\n"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    with MeasuringProcess("a source", {"PYTHONPATH": path}) as process:
        assert process.ask("begin", work="simulate", cells=(5, 5)) == {}
        assert process.ask("round", count=50, seed=0)["seconds"] > 0
