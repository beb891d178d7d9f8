"""What is misspelt costs nothing; TensorFlow stays asleep in all of it."""

from __future__ import annotations

import json

import pytest

from bench.made_up import step_result
from cloudgan.bench.generate import GenerateResult, Making, Source

BEGINS = "cloudgan.bench.measuring_process.subprocess.Popen"
TRAINS = "cloudgan.bench.train_program.subprocess.Popen"


@pytest.fixture(autouse=True)
def starts_nothing(monkeypatch):
    def popen(*_, **__):
        raise AssertionError("a process was started")

    for name in (TRAINS, BEGINS):  # what it imports may start one, such as h5py `uname`
        monkeypatch.setattr(name, popen)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("bench stepp", "Did you mean 'step'?"),
        ("bench step --preset=papr", "Did you mean 'paper'?"),
        ("bench step --against=publised", "Did you mean 'published'?"),
        ("bench step --against=fast:precison=bfloat16", "Did you mean 'precision'?"),
        ("bench step --kernels=slow", "unknown value of --kernels 'slow'"),
        ("bench step --precision=bfloat17", "Did you mean 'bfloat16'?"),
        ("bench step --batch=0", "training.batch_per_replica"),
        ("bench step --rounds=0", "--rounds=0: at least one"),
        ("bench step --roofline=roof.jpg", "name a .png file in a folder that is there"),
        ("bench step --roofline=no/such/folder/roof.png", "name a .png file in a folder"),
        ("bench step --report=page.pdf", "a report ends in .html"),
        ("bench generate --preset=papr", "Did you mean 'paper'?"),
        ("bench generate --run=runs/a --preset=mini", "give --run or --preset"),
        ("bench generate --threads=0", "--threads=0: at least one"),
        ("bench generate --energy=0.1", "Geant4 simulates 1 to 1000 GeV"),
        ("bench generate --energy=ten", "--energy=ten: expected low:high"),
        ("bench scaling --replicas=1,2", "say --strong"),
        ("bench scaling --strong --weak --replicas=1,2", "say --strong"),
        ("bench scaling --strong", "give --replicas=1,2 or --workers=1,2"),
        ("bench scaling --strong --replicas=1", "give --replicas=1,2 or --workers=1,2"),
        ("bench scaling --strong --replicas=two", "--replicas=two: numbers of at least 1"),
        ("bench scaling --weak --workers=0,2", "--workers=0,2: numbers of at least 1"),
        ("bench scaling --strong --replicas=3 --batch=16", "cannot be shared by 3 replicas"),
        ("bench scaling --weak --replicas=2 --steps=0", "training.max_steps"),
    ],
)
def test_a_misspelt_value_starts_nothing_and_is_told(cloudgan_here, line, said):
    assert said in cloudgan_here(*line.split(), exits=2).stderr


@pytest.fixture
def stopped(monkeypatch):
    """A measurement that Ctrl-C ended after one and a half rounds."""
    found = step_result(own=(5.0, 4.0), against=(12.0,), interrupted=True)
    monkeypatch.setattr("cloudgan.bench.step.measure_step", lambda *_, **__: found)


def test_after_ctrl_c_programs_get_one_object_with_what_was_measured(cloudgan_here, stopped):
    said = json.loads(cloudgan_here("bench", "step", "--json", exits=130).stdout)
    assert said["interrupted"]
    assert said["rounds"] == said["ratio"]["count"] == 1
    assert said["variants"][0]["seconds_per_step"]["count"] == 2


def test_after_ctrl_c_people_get_the_table_and_no_roofline(cloudgan_here, stopped, tmp_path):
    picture = tmp_path / "roof.png"
    said = cloudgan_here("bench", "step", f"--roofline={picture}", exits=130)
    assert "ratio published / auto (fast): 2.4" in said.stdout
    assert "stopped before the last round" in said.stderr
    assert not picture.exists()


def test_the_report_is_written_as_asked(cloudgan_here, monkeypatch, tmp_path):
    found = step_result(layers=True)
    monkeypatch.setattr("cloudgan.bench.step.measure_step", lambda *_, **__: found)
    page, picture = tmp_path / "page.html", tmp_path / "roof.png"
    cloudgan_here("bench", "step", f"--report={page}", f"--roofline={picture}")
    assert "Roofline" in page.read_text(encoding="utf-8")
    assert picture.read_bytes().startswith(b"\x89PNG")


def generated(*names, left_out=""):
    rounds = {"generator": 0.02, "parametric source": 0.002, "Geant4": 0.5}
    return GenerateResult(
        *("mini", (51, 51, 25), (50.0, 50.0), 1, 1),
        sources=tuple(Source(name, 1, [Making(rounds[name], rounds[name])] * 3) for name in names),
        interrupted=False,
        left_out=left_out,
    )


def test_a_generator_is_told_beside_each_source_with_its_energy_and_cells(
    cloudgan_here, monkeypatch
):
    found = generated("generator", "parametric source", "Geant4")
    monkeypatch.setattr("cloudgan.bench.generate.measure_generate", lambda *_, **__: found)
    said = " ".join(cloudgan_here("bench", "generate").stdout.split())
    assert "mini, 51x51x25 cells, electrons of 50 GeV" in said
    assert "Geant4 simulates 75x75x25 cells whatever the preset" in said
    assert "against Geant4 the generator is 25 (25 to 25) times as fast" in said
    assert "against parametric source the generator is 0.1 (0.1 to 0.1) times as fast" in said


def test_a_geant4_that_is_not_here_is_told(cloudgan_here, monkeypatch):
    found = generated("generator", "parametric source", left_out="the package is missing")
    monkeypatch.setattr("cloudgan.bench.generate.measure_generate", lambda *_, **__: found)
    said = cloudgan_here("bench", "generate").stdout
    assert "Geant4 was left out: the package is missing" in said
    assert "75x75" not in said
