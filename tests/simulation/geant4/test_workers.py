"""Worker processes: the same showers for any number of workers, and every way in which a process ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from bench.processes import is_gone
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.simulation.geant4.events import PrimaryRequest
from cloudgan.simulation.geant4.tables import Tables
from cloudgan.simulation.geant4.workers import WorkerPool, WorkerProcess, prepare_geant4

REQUEST = PrimaryRequest(3, (2.0, 4.0), (60.0, 120.0))


@pytest.fixture(scope="module")
def alone(installation):
    with WorkerPool(REQUEST, installation.tables, 1) as pool:
        return {event.number: event.cells for event in pool.events(range(8))}


def test_every_number_is_simulated_once(alone):
    assert sorted(alone) == list(range(8))
    assert all(len(cells.flat_index) > 20 for cells in alone.values())
    assert all(np.all(np.diff(cells.flat_index) > 0) for cells in alone.values())
    assert all(np.all(cells.energy_gev > 0) for cells in alone.values())


def test_two_workers_and_another_order_give_the_same_bits(alone, installation):
    with WorkerPool(REQUEST, installation.tables, 2) as pool:
        for number, cells in pool.events([7, 2, 5, 0]):
            np.testing.assert_array_equal(cells.flat_index, alone[number].flat_index)
            assert cells.energy_gev.tobytes() == alone[number].energy_gev.tobytes()


def test_another_cut_gives_other_showers(alone, installation):
    coarse = PrimaryRequest(3, (2.0, 4.0), (60.0, 120.0), cut_mm=3.0)
    with WorkerPool(coarse, installation.tables, 1) as pool:
        (event,) = pool.events([0])
    assert event.cells.energy_gev.tobytes() != alone[0].energy_gev.tobytes()


def test_a_shower_is_tilted_along_y_by_its_angle(installation):
    """At 60 degrees y grows with depth, at 120 it falls."""
    means = []
    for degrees in (60.0, 120.0):
        requested = PrimaryRequest(1, (4.0, 4.0), (degrees, degrees))
        with WorkerPool(requested, installation.tables, 1) as pool:
            found = [event.cells for event in pool.events(range(3))]
        image = np.zeros((51, 51, 25))
        for cells in found:
            image.reshape(-1)[cells.flat_index] += cells.energy_gev
        layers = image.sum(0)
        y_mean = np.arange(51) @ layers / layers.sum(0).clip(1e-12)
        means.append(y_mean[12] - y_mean[3])
    assert means[0] > 3
    assert means[1] < -3


LONG = PrimaryRequest(1, (1000.0, 1000.0), (90.0, 90.0))
PARENT = """
import json, sys
from cloudgan.simulation.geant4.workers import WorkerPool
from cloudgan.simulation.geant4.events import PrimaryRequest
from cloudgan.simulation.geant4.tables import Tables
requested = PrimaryRequest(1, (1000.0, 1000.0), (90.0, 90.0), cut_mm=0.01)
with WorkerPool(requested, Tables.from_json(json.loads(sys.argv[1])), 1) as pool:
    print(*pool.process_ids, flush=True)
    list(pool.events([0]))
"""


def test_a_killed_worker_is_reported_with_its_last_lines(installation):
    with WorkerPool(LONG, installation.tables, 1) as pool:
        for process_id in pool.process_ids:
            os.kill(process_id, signal.SIGKILL)
        with pytest.raises(CloudganError) as caught:
            list(pool.events([0, 1, 2]))
    assert "died with SIGKILL" in str(caught.value)


def test_the_last_output_of_geant4_is_shown(tmp_path):
    """Without tables Geant4 aborts and names the missing files."""
    tables = Tables(tmp_path, tmp_path / "nothing", "none", "")
    with (
        WorkerPool(PrimaryRequest(1, (5.0, 5.0), (90.0, 90.0)), tables, 1) as pool,
        pytest.raises(CloudganError) as caught,
    ):
        list(pool.events([0]))
    assert "its last lines" in str(caught.value)
    assert "G4Exception" in str(caught.value) or "ENSDFSTATE" in str(caught.value)


def test_exit_kills_a_worker_in_the_middle_of_a_shower(installation):
    with WorkerPool(LONG, installation.tables, 1) as pool:
        numbers = pool.process_ids
        events = pool.events([0])
        del events
    assert all(map(is_gone, numbers))


@pytest.mark.parametrize("seconds", [0, 1.5], ids=["at its start", "in the middle of a shower"])
def test_a_worker_dies_with_its_parent(installation, seconds):
    words = [sys.executable, "-c", PARENT, json.dumps(installation.tables.as_json())]
    parent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    (worker,) = map(int, parent.stdout.readline().split())
    time.sleep(seconds)  # a shower takes more than a minute
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert is_gone(worker, seconds=30)


def test_a_cloudgan_error_in_a_worker_keeps_its_type(tmp_path, installation):
    with pytest.raises(ConfigError, match="has no G4EMLOW"):
        prepare_geant4(tmp_path, tmp_path / "empty")


def test_a_missing_package_is_named_for_the_command_line(tmp_path):
    (tmp_path / "geant4_pybind.py").write_text(
        "raise ModuleNotFoundError('no', name='geant4_pybind')"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
        with pytest.raises(ModuleNotFoundError) as caught:
            prepare_geant4(tmp_path / "tables", None)
    assert caught.value.name == "geant4_pybind"


def test_a_library_that_is_missing_is_named_with_its_package(tmp_path):
    """The loader's message, raised by a stub module."""
    said = "libGL.so.1: cannot open shared object file: No such file or directory"
    (tmp_path / "geant4_pybind.py").write_text(f"raise ImportError({said!r})")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
        with pytest.raises(ConfigError, match="install the package libgl1") as caught:
            prepare_geant4(tmp_path / "tables", None)
    assert "apt-get install libgl1 libice6 libsm6 libx11-6 libxext6" in str(caught.value)


def test_writing_to_a_dead_worker_fails_at_the_next_read(installation):
    task = {"request": LONG.as_json(), "tables": installation.tables.as_json()}
    with WorkerProcess(task) as worker:
        os.kill(worker.process_id, signal.SIGKILL)
        assert is_gone(worker.process_id)
        worker.send("0")
        with pytest.raises(CloudganError, match="died with SIGKILL"):
            worker.read()
