"""`cloudgan simulate --engine=geant4`, from the command line to the file, with the real Geant4."""

import json
import os
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

from bench.processes import children_doing, is_gone
from simulation.geant4.conftest import prepared

FLAGS = ("--engine=geant4", "--showers=24", "--energy=4:8", "--theta=80:100", "--seed=5")
WORKER = "spawn_main"


@pytest.fixture(scope="module", autouse=True)
def is_here(tmp_path_factory):
    prepared(tmp_path_factory.mktemp("geant4"))


@pytest.fixture(scope="module")
def uninterrupted(run_cloudgan, tmp_path_factory):
    """The output of the command and its file, by two workers, with CI=true and without a terminal."""
    folder = tmp_path_factory.mktemp("whole")
    path = folder / "a.h5"
    flags = (*FLAGS, f"--output={path}", "--workers=2", "--json")
    done = run_cloudgan("simulate", *flags, CI="true", HOME=str(folder))
    return json.loads(done.stdout), path


def content(path):
    with h5py.File(path) as file:
        return {name: file[name][:] for name in file}, dict(file.attrs)


def started(output, *flags):
    """The running command, after it has saved a block of showers."""
    words = ("simulate", *FLAGS, f"--output={output}", "--workers=1", *flags)
    folder = output.with_name(output.name + ".unfinished")
    before = set(folder.glob("*.npz"))
    process = subprocess.Popen(
        [sys.executable, "-m", "cloudgan", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while set(folder.glob("*.npz")) == before:
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    return process


def test_the_geant4_file_has_the_public_layout_and_the_requested_ranges(uninterrupted):
    said, path = uninterrupted
    assert (said["showers"], said["resumed_showers"]) == (24, 0)
    assert said["geant4"].startswith("11.")
    found, _ = content(path)
    assert found["ECAL"].shape == (24, 51, 51, 25)
    assert 4 <= found["energy"].min() <= found["energy"].max() <= 8
    assert 80 <= np.rad2deg(found["theta"].min()) <= np.rad2deg(found["theta"].max()) <= 100
    response = found["ECAL"].sum((1, 2, 3)) / 50 / found["energy"]
    assert response.mean() == pytest.approx(0.0225, rel=0.1)
    np.testing.assert_allclose(found["sum"], found["ECAL"].sum((1, 2, 3)), rtol=1e-5)


def test_the_attributes_name_program_tables_and_request(uninterrupted):
    _, attributes = content(uninterrupted[1])
    assert attributes["source"].startswith("Geant4 11.")
    assert "Tsai" in attributes["tables"]
    assert len(attributes["tables_sha256"]) == len(attributes["detector_sha256"]) == 64
    assert (attributes["seed"], attributes["cut_mm"]) == (5, 0.7)
    assert (attributes["energy_gev"].tolist(), attributes["theta_deg"].tolist()) == (
        [4, 8],
        [80, 100],
    )
    assert {"geant4", "geant4_pybind", "detector", "physics", "cloudgan"} <= set(attributes)


def test_nothing_is_downloaded_and_no_other_file_remains(uninterrupted):
    """With CI=true the package would download its data into a folder in HOME."""
    assert [path.name for path in uninterrupted[1].parent.iterdir()] == ["a.h5"]


@pytest.mark.slow
def test_a_repeatedly_interrupted_production_ends_with_the_same_showers(
    uninterrupted, run_cloudgan, tmp_path
):
    output = tmp_path / "a.h5"
    process = started(output)
    (worker,) = children_doing(WORKER, of=process.pid)
    os.kill(worker, signal.SIGKILL)
    _, said = process.communicate()
    assert process.returncode == 1
    assert "died with SIGKILL" in said
    process = started(output)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert "of 24 showers are kept in" in said
    process = started(output)
    (worker,) = children_doing(WORKER, of=process.pid)
    process.kill()
    process.communicate()
    assert is_gone(worker)
    assert not output.exists()
    other = run_cloudgan("simulate", *FLAGS, f"--output={output}", "--cut-mm=3", check=False)
    assert other.returncode == 2
    assert "requested and found values differ: cut_mm (3.0, 0.7)" in other.stderr
    said = json.loads(run_cloudgan("simulate", *FLAGS, f"--output={output}", "--json").stdout)
    assert said["resumed_showers"] >= 12
    found, attributes = content(output)
    wanted, wanted_attributes = content(uninterrupted[1])
    for name, values in wanted.items():
        assert found[name].tobytes() == values.tobytes(), name
    assert attributes["tables_sha256"] == wanted_attributes["tables_sha256"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


def test_missing_cern_data_are_named(tmp_path, cloudgan_here, monkeypatch):
    monkeypatch.setenv("GEANT4_DATA_DIR", str(tmp_path / "cern"))
    done = cloudgan_here("simulate", tmp_path / "a.h5", "--engine=geant4", "--showers=1", exits=2)
    assert "has no G4EMLOW" in done.stderr
    assert list(tmp_path.iterdir()) == []
