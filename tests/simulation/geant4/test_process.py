"""Workers that die, and workers whose parent does: with the real Geant4."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from bench.processes import is_gone
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.simulation.geant4.farm import Farm, prepare
from cloudgan.simulation.geant4.primaries import Asked
from cloudgan.simulation.geant4.process import WorkerProcess
from cloudgan.simulation.geant4.tables import Tables

LONG = Asked(1, (1000.0, 1000.0), (90.0, 90.0))
PARENT = """
import json, sys
from cloudgan.simulation.geant4.farm import Farm
from cloudgan.simulation.geant4.primaries import Asked
from cloudgan.simulation.geant4.tables import Tables
asked = Asked(1, (1000.0, 1000.0), (90.0, 90.0))
with Farm(asked, Tables.from_json(json.loads(sys.argv[1])), 1) as farm:
    print(*farm.process_ids, flush=True)
    list(farm.events([0]))
"""


def test_a_worker_that_is_killed_is_told_with_what_it_said_last(installation):
    with Farm(LONG, installation.tables, 1) as farm:
        for process_id in farm.process_ids:
            os.kill(process_id, signal.SIGKILL)
        with pytest.raises(CloudganError) as told:
            list(farm.events([0, 1, 2]))
    assert "died with SIGKILL" in str(told.value)


def test_what_geant4_says_before_it_gives_up_is_shown(tmp_path):
    """Without tables it aborts by itself, and names what it misses."""
    tables = Tables(tmp_path, tmp_path / "nothing", "none", "")
    with (
        Farm(Asked(1, (5.0, 5.0), (90.0, 90.0)), tables, 1) as farm,
        pytest.raises(CloudganError) as told,
    ):
        list(farm.events([0]))
    assert "its last lines" in str(told.value)
    assert "G4Exception" in str(told.value) or "ENSDFSTATE" in str(told.value)


def test_leaving_ends_a_worker_in_the_middle_of_a_shower(installation):
    with Farm(LONG, installation.tables, 1) as farm:
        numbers = farm.process_ids
        events = farm.events([0])
        del events
    assert all(map(is_gone, numbers))


def test_a_worker_dies_with_its_parent_in_the_middle_of_a_shower(installation):
    words = [sys.executable, "-c", PARENT, json.dumps(installation.tables.as_json())]
    parent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    (worker,) = map(int, parent.stdout.readline().split())
    time.sleep(1.5)  # it has begun a shower of ten seconds
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert is_gone(worker, seconds=3)


def test_an_error_of_ours_comes_back_as_what_it_is(tmp_path, installation):
    with pytest.raises(ConfigError, match="holds no G4EMLOW"):
        prepare(tmp_path, tmp_path / "empty")


def test_a_package_that_is_missing_is_named_so_that_the_command_line_can_tell_the_extra(tmp_path):
    (tmp_path / "geant4_pybind.py").write_text(
        "raise ModuleNotFoundError('no', name='geant4_pybind')"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
        with pytest.raises(ModuleNotFoundError) as told:
            prepare(tmp_path / "tables", None)
    assert told.value.name == "geant4_pybind"


def test_a_library_that_is_missing_is_named_with_its_package(tmp_path):
    """What the system's loader says, from a module that cannot be loaded."""
    said = "libGL.so.1: cannot open shared object file: No such file or directory"
    (tmp_path / "geant4_pybind.py").write_text(f"raise ImportError({said!r})")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
        with pytest.raises(ConfigError, match="install the package libgl1") as told:
            prepare(tmp_path / "tables", None)
    assert "apt-get install libgl1 libice6 libsm6 libx11-6 libxext6" in str(told.value)


def test_a_line_to_one_that_is_gone_is_met_where_its_answer_is_missing(installation):
    task = {"asked": LONG.as_json(), "tables": installation.tables.as_json()}
    with WorkerProcess(task) as worker:
        os.kill(worker.process_id, signal.SIGKILL)
        assert is_gone(worker.process_id)
        worker.send("0")
        with pytest.raises(CloudganError, match="died with SIGKILL"):
            worker.read()
