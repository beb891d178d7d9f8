"""Worker processes: the import of Geant4, the same showers for any number of workers, every way to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from bench.processes import is_gone
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.simulation.geant4 import workers
from cloudgan.simulation.geant4.events import PrimaryRequest
from cloudgan.simulation.geant4.production import simulate_blocks
from cloudgan.simulation.geant4.tables import Tables
from cloudgan.simulation.geant4.workers import WorkerPool, prepare_geant4

NOT_THERE = "cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("libGL.so.1", "libgl1"),
        ("libX11.so.6", "libx11-6"),
        ("libXext.so.6", "libxext6"),
        ("libSM.so.6", "libsm6"),
        ("libICE.so.6", "libice6"),
    ],
)
def test_a_missing_library_is_named_with_its_package(name, package):
    said = workers.missing_library(f"{name}: {NOT_THERE}")
    assert f"Geant4 needs {name}, which this system lacks: install the package {package}." in said
    assert "apt-get install libgl1 libice6 libsm6 libx11-6 libxext6" in said


def test_an_unlisted_library_is_named():
    said = workers.missing_library(f"libfuture.so.9: {NOT_THERE}")
    assert "libfuture.so.9" in said
    assert "the package that provides it" in said


def test_other_loader_errors_are_shown():
    said = workers.missing_library("undefined symbol: _ZTI8QWidget")
    assert "undefined symbol: _ZTI8QWidget" in said
    assert "'.[geant4]'" in said


def test_a_missing_package_is_detected_without_importing_it(monkeypatch):
    monkeypatch.setattr(workers, "PACKAGE", "geant4_missing")
    with pytest.raises(ModuleNotFoundError) as caught:
        workers.check_installed()
    assert caught.value.name == "geant4_missing"


@pytest.mark.parametrize(("number", "text"), [(1141, "11.4.1"), (1130, "11.3.0"), (1070, "10.7.0")])
def test_the_version_is_read_from_its_number(number, text):
    assert workers.geant4_version(SimpleNamespace(G4VERSION_NUMBER=number)) == text


def test_the_command_line_names_the_extra_of_a_missing_package(
    cloudgan_here, monkeypatch, tmp_path
):
    monkeypatch.setattr("cloudgan.simulation.geant4.workers.find_spec", lambda _: None)
    done = cloudgan_here("simulate", tmp_path / "a.h5", "--engine=geant4", exits=2)
    assert "pip install '.[geant4]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


REQUEST = PrimaryRequest(3, (2.0, 4.0), (60.0, 120.0))
LONG = PrimaryRequest(1, (1000.0, 1000.0), (90.0, 90.0), cut_mm=0.01)


def test_any_number_of_workers_gives_the_same_bits(simulated):
    alone, many = simulated(REQUEST, 10), simulated(REQUEST, 10, workers=4)
    assert alone.tobytes() == many.tobytes()
    assert ((alone > 0).sum((1, 2, 3)) > 20).all()
    assert len({image.tobytes() for image in alone}) == 10
    coarse = PrimaryRequest(3, (2.0, 4.0), (60.0, 120.0), cut_mm=3.0)
    assert simulated(coarse, 1).tobytes() != alone[:1].tobytes()


def test_a_shower_is_tilted_along_y_by_its_angle(simulated):
    """At 60 degrees y grows with depth, at 120 it falls."""
    moved = []
    for degrees in (60.0, 120.0):
        requested = PrimaryRequest(1, (4.0, 4.0), (degrees, degrees))
        layers = simulated(requested, 3).sum((0, 1))
        y_mean = np.arange(51) @ layers / layers.sum(0).clip(1e-12)
        moved.append(y_mean[12] - y_mean[3])
    assert moved[0] > 3
    assert moved[1] < -3


def test_a_killed_worker_is_reported(tmp_path, installation):
    blocks = [range(number, number + 1) for number in range(3)]
    with WorkerPool(1) as pool:
        for process_id in pool.process_ids:
            os.kill(process_id, signal.SIGKILL)
        with pytest.raises(CloudganError, match="died with SIGKILL"):
            list(simulate_blocks(pool, tmp_path, blocks, LONG, installation.tables))


def test_the_last_output_of_geant4_is_shown(tmp_path):
    """Without tables Geant4 aborts and names the missing files."""
    tables = Tables(tmp_path, tmp_path / "nothing", "none", "")
    with WorkerPool(1) as pool, pytest.raises(CloudganError, match="its last lines") as caught:
        list(simulate_blocks(pool, tmp_path, [range(1)], REQUEST, tables))
    assert "G4Exception" in str(caught.value) or "ENSDFSTATE" in str(caught.value)


def test_exit_kills_a_worker_in_the_middle_of_a_shower(tmp_path, installation):
    with WorkerPool(2) as pool:
        numbers = pool.process_ids
        calls = [partial(os.getpid), partial(time.sleep, 600), partial(time.sleep, 600)]
        assert next(pool.answers(calls)) in numbers
    assert all(map(is_gone, numbers))


PARENT = f"""
import sys
from functools import partial
from pathlib import Path
from cloudgan.simulation.geant4.production import simulate_blocks
from cloudgan.simulation.geant4.events import PrimaryRequest
from cloudgan.simulation.geant4.tables import Tables
from cloudgan.simulation.geant4.workers import WorkerPool
folder = Path(sys.argv[1])
with WorkerPool(1) as pool:
    print(*pool.process_ids, flush=True)
    tables = Tables(Path(sys.argv[2]), Path(sys.argv[3]), "", "")
    list(simulate_blocks(pool, folder, [range(1)], {LONG!r}, tables))
"""


@pytest.mark.parametrize("seconds", [0, 1.5], ids=["at its start", "in the middle of a shower"])
def test_a_worker_dies_with_its_parent(installation, tmp_path, seconds):
    folders = installation.tables.folder, installation.tables.low_energy
    words = [sys.executable, "-c", PARENT, tmp_path, *folders]
    parent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    (worker,) = map(int, parent.stdout.readline().split())
    time.sleep(seconds)  # a shower takes more than a minute
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert is_gone(worker, seconds=30)
    assert not list(tmp_path.glob("*.npz"))


def test_a_script_without_a_main_guard_may_simulate(tmp_path, installation):
    """Worker processes import cloudgan, not the program; no interrupt of the terminal reaches them."""
    script = tmp_path / "script.py"
    script.write_text(
        "import signal\nfrom functools import partial\n"
        "from cloudgan.simulation.geant4.workers import WorkerPool\n"
        "print('here', flush=True)\n"
        "with WorkerPool(1) as pool:\n"
        "    call = partial(signal.pthread_sigmask, signal.SIG_BLOCK, ())\n"
        "    print(*pool.answers([call]), signal.pthread_sigmask(signal.SIG_BLOCK, ()))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == f"here\n{ {signal.SIGINT}!r} set()\n"


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        (None, ConfigError, "has no G4EMLOW"),
        ("ModuleNotFoundError('no', name='geant4_pybind')", ModuleNotFoundError, "no"),
        (
            "ImportError('libGL.so.1: cannot open shared object file: No such file or directory')",
            ConfigError,
            "install the package libgl1. .*apt-get install libgl1 libice6 libsm6 libx11-6 libxext6",
        ),
    ],
)
def test_an_error_of_the_installation_keeps_its_type(tmp_path, monkeypatch, raised, kind, said):
    if raised:
        (tmp_path / "geant4_pybind.py").write_text(f"raise {raised}")
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(kind, match=said) as caught:
        prepare_geant4(tmp_path / "tables", None if raised else tmp_path / "empty")
    assert getattr(caught.value, "name", "geant4_pybind") == "geant4_pybind"
