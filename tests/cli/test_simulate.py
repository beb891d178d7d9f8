"""`cloudgan simulate` needs no TensorFlow."""

import os
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

from cloudgan import __version__


def test_the_file_has_the_public_layout_in_the_requested_ranges(tmp_path, cloudgan_here):
    path = tmp_path / "showers.h5"
    flags = ("--showers=30", "--energy=20:30", "--theta=70:80")
    said = cloudgan_here("simulate", path, *flags, "--json").json()
    assert said == {
        "schema_version": 1,
        "path": str(path),
        "content": "showers",
        "showers": 30,
        "bytes": path.stat().st_size,
        "notes": [],
        "verified": False,
    }
    with h5py.File(path) as file:
        assert file["ECAL"].shape == (30, 51, 51, 25)
        energy, theta = file["energy"][:], np.rad2deg(file["theta"][:])
        response = file["ECAL"][:].sum((1, 2, 3)) / 50 / energy
    assert 20 <= energy.min() <= energy.max() <= 30
    assert 70 <= theta.min() <= theta.max() <= 80
    assert response.mean() == pytest.approx(0.02, rel=0.2)


@pytest.mark.parametrize(
    ("flags", "notes"),
    [
        (("--energy=10:100", "--theta=60:120"), []),
        (
            ("--energy=500", "--theta=90"),
            ["extrapolated: energies from 500 to 500 GeV, fitted to Geant4 between 10 and 100"],
        ),
        (
            ("--energy=5:50", "--theta=10:90"),
            [
                "extrapolated: energies from 5 to 50 GeV, fitted to Geant4 between 10 and 100",
                "extrapolated: angles from 10 to 90 degrees, fitted to Geant4 between 60 and 120",
            ],
        ),
    ],
)
def test_ranges_beyond_the_fitted_ones_are_named(tmp_path, cloudgan_here, flags, notes):
    done = cloudgan_here("simulate", tmp_path / "a.h5", "--showers=2", *flags, "--json")
    assert done.json()["notes"] == notes


def test_output_may_be_a_flag_and_the_file_names_its_program(tmp_path, cloudgan_here):
    cloudgan_here("simulate", f"--output={tmp_path / 'a.h5'}", "--showers=1")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file.attrs["source"] == "cloudgan gflash (parametric)"
        assert file.attrs["cloudgan"] == __version__
        assert file.attrs["particle"] == "electron"


def test_progress_goes_to_standard_error_and_results_to_standard_output(tmp_path, cloudgan_here):
    done = cloudgan_here("simulate", tmp_path / "a.h5", "--showers=5")
    assert "simulating (gflash)" in done.stderr
    assert "showers" in done.stdout
    quiet = cloudgan_here("simulate", tmp_path / "b.h5", "--showers=5", "--json")
    assert quiet.stderr == ""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_a_signal_leaves_no_temporary_file_and_says_how_to_go_on(tmp_path, number, code):
    words = [sys.executable, "-m", "cloudgan", "simulate", tmp_path / "a.h5", "--showers=1000000"]
    log = tmp_path.with_name("log")
    with log.open("wb") as output, subprocess.Popen(words, stderr=output) as process:
        until = time.monotonic() + 60
        # Showers are in the file; C code may drop what is raised while it is imported.
        while sum(path.stat().st_size for path in tmp_path.iterdir()) < 50_000:
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(number)
        try:
            process.wait(60)
        finally:
            process.kill()
    said = log.read_text()
    assert process.returncode == code
    assert list(tmp_path.iterdir()) == []
    assert "stopped by" in said
    assert number == signal.SIGINT or "run the same command again" in said


MEETS_A_DESTRUCTOR = """
import os, signal, time

class Meets:
    def __del__(self):
        os.kill(os.getpid(), {number})
        time.sleep(0.01)  # the exception is raised in here, where Python drops it

Meets()
time.sleep(60)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_a_signal_that_meets_a_destructor_is_not_lost(tmp_path, monkeypatch, number, code):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"), prepend=os.pathsep)
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "h5py.py").write_text(MEETS_A_DESTRUCTOR.format(number=int(number)))
    words = [sys.executable, "-m", "cloudgan", "simulate", tmp_path / "a.h5", "--showers=2"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert (done.returncode, "stopped by" in done.stderr) == (code, True), done.stderr
