"""Misspelt flags of `bench` are refused before any measurement; no test imports TensorFlow."""

from __future__ import annotations

import json

import pytest

from bench.made_up import step_result
from cloudgan.bench.batch_quality import (
    BatchPoint,
    BatchRun,
    QualityResult,
    make_quality_study,
)
from cloudgan.bench.generate import GenerateResult, GenerateRound, Source
from cloudgan.schema.stop_criterion import METRICS

BEGINS = "cloudgan.bench.measuring_process.subprocess.Popen"
TRAINS = "cloudgan.bench.training_program.subprocess.Popen"


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
        ("bench step --conv-impl=slow", "unknown value of --conv-impl 'slow'"),
        ("bench step --precision=bfloat17", "Did you mean 'bfloat16'?"),
        ("bench step --batch=0", "--batch=0: expected at least 1"),
        ("bench step --rounds=0", "--rounds=0: expected at least 1"),
        ("bench step --roofline=roof.jpg", "expected a .png file in an existing folder"),
        ("bench step --roofline=no/such/folder/roof.png", "expected a .png file in an existing"),
        ("bench step --report=page.pdf", "a report file ends in .html"),
        ("bench generate --preset=papr", "Did you mean 'paper'?"),
        ("bench generate --run=runs/a --preset=mini", "give --run or --preset"),
        ("bench generate --threads=0", "--threads=0: expected at least 1"),
        ("bench generate --energy=0.1", "valid range: 1 to 1000 GeV"),
        ("bench generate --energy=ten", "--energy=ten: expected low:high"),
        ("bench cells --grids=2x2 --iterations=1", "--iterations=1: expected at least 2"),
        ("bench cells --grids=40x40", "the exchange is measured with the ranks of a small grid"),
        ("bench cells --grids=2x2,3", "--grids=3: expected ROWSxCOLUMNS"),
        ("bench scaling --replicas=1,2", "give --strong"),
        ("bench scaling --strong --weak --replicas=1,2", "give --strong"),
        ("bench scaling --strong", "give --replicas=1,2 or --workers=1,2"),
        ("bench scaling --strong --replicas=1", "give --replicas=1,2 or --workers=1,2"),
        (
            "bench scaling --strong --replicas=two",
            "--replicas=two: expected numbers of at least 1, such as 2,8",
        ),
        ("bench scaling --weak --workers=0,2", "--workers=0: expected at least 1"),
        ("bench scaling --strong --replicas=3 --batches=16", "3 replicas do not divide"),
        ("bench scaling --strong --replicas=2 --batches=most", "usual, largest or numbers"),
        (
            "bench scaling --strong --replicas=2 --batches=usual,0",
            "--batches=0: expected at least 1",
        ),
        (
            "bench scaling --strong --replicas=2 --presets=mini,papr",
            "unknown value of --presets 'papr'. Did you mean 'paper'",
        ),
        (
            "bench scaling --weak --replicas=2 --predict=8",
            "--predict is the bound of strong scaling",
        ),
        ("bench scaling --weak --replicas=2 --steps=0", "--steps=0: expected at least 1"),
        ("bench scaling --quality=0", "--quality=0: expected at least 1"),
        ("bench scaling --quality=-5", "--quality=-5: expected at least 1"),
        ("bench scaling --quality=many", "--quality must be a whole number, got 'many'"),
        ("bench scaling --qualty=20000", "Did you mean '--quality'?"),
        ("bench scaling --quality=1000 --batches=16,32", "give --quality=1800 or more"),
        ("bench scaling --quality=20000", "give several, such as --batches=16,32,64"),
        ("bench scaling --quality=20000 --batches=16,501", "or --batches of at most 500"),
        ("bench scaling --quality=20000 --batches=16,0", "--batches=0: expected at least 1"),
        (
            "bench scaling --quality=20000 --batches=16,32 --rounds=0",
            "--rounds=0: expected at least",
        ),
        (
            "bench scaling --quality=20000 --batches=16,32 --weak --workers=1,2 --steps=9",
            "remove --weak, --workers, --steps",
        ),
        (
            "bench scaling --quality=20000 --batches=16,32 --strong --replicas=2 --predict=8",
            "remove --strong, --replicas, --predict",
        ),
        (
            "bench scaling --quality=20000 --batches=16,32 --report=x.pdf",
            "a report file ends in .html",
        ),
    ],
)
def test_an_invalid_value_is_refused_and_starts_nothing(cloudgan_here, line, said):
    assert said in cloudgan_here(*line.split(), exits=2).stderr


@pytest.fixture
def stopped(monkeypatch):
    """A measurement that Ctrl-C ended after one and a half rounds."""
    found = step_result(own=(5.0, 4.0), against=(12.0,), interrupted=True)
    monkeypatch.setattr("cloudgan.bench.step.measure_step", lambda *_, **__: found)


def test_after_ctrl_c_json_is_one_object_with_the_measured_rounds(cloudgan_here, stopped):
    said = json.loads(cloudgan_here("bench", "step", "--json", exits=130).stdout)
    assert said["interrupted"]
    assert said["rounds"] == said["ratio"]["count"] == 1
    assert said["variants"][0]["seconds_per_step"]["count"] == 2


def test_after_ctrl_c_the_table_is_printed_without_a_roofline(cloudgan_here, stopped, tmp_path):
    picture = tmp_path / "roof.png"
    said = cloudgan_here("bench", "step", f"--roofline={picture}", exits=130)
    assert "ratio published / auto (fast): 2.4" in said.stdout
    assert "stopped before the last round" in said.stderr
    assert not picture.exists()


def test_report_and_roofline_are_written(cloudgan_here, monkeypatch, tmp_path):
    found = step_result(layers=True)
    monkeypatch.setattr("cloudgan.bench.step.measure_step", lambda *_, **__: found)
    page, picture = tmp_path / "page.html", tmp_path / "roof.png"
    cloudgan_here("bench", "step", f"--report={page}", f"--roofline={picture}")
    assert "Roofline" in page.read_text(encoding="utf-8")
    assert picture.read_bytes().startswith(b"\x89PNG")


def quality_of_two_batches(interrupted):
    study = make_quality_study(9000, presets=["smoke"], batches=[16, 64])
    run = BatchRun(0, 563, 9008, 0.001, dict.fromkeys(METRICS, 0.25), 0.01)
    points = (BatchPoint("smoke", 16, [run]), BatchPoint("smoke", 64, [run]))
    return QualityResult(study, points, interrupted)


def test_quality_is_printed_and_its_report_written(cloudgan_here, monkeypatch, tmp_path):
    asked = []

    def measure(study, *, rounds, progress):
        asked.append((study.epochs, rounds, [one.global_batch(1) for one in study.configs]))
        return quality_of_two_batches(interrupted=False)

    monkeypatch.setattr("cloudgan.bench.batch_quality.measure_quality", measure)
    page = tmp_path / "page.csv"
    flags = ("--quality=9000", "--presets=smoke", "--batches=16,64", "--rounds=2")
    said = cloudgan_here("bench", "scaling", *flags, f"--report={page}").stdout
    assert asked == [(2, 2, [16, 64])]
    assert "Quality after 9,000 training showers, 4,500 different ones" in " ".join(said.split())
    assert page.read_text().splitlines()[1].startswith("smoke,16,563,0.001,1,0.25,")


def test_after_ctrl_c_the_quality_of_the_finished_runs_is_printed(cloudgan_here, monkeypatch):
    found = quality_of_two_batches(interrupted=True)
    monkeypatch.setattr("cloudgan.bench.batch_quality.measure_quality", lambda *_, **__: found)
    flags = ("--quality=9000", "--presets=smoke", "--batches=16,64", "--json")
    said = json.loads(cloudgan_here("bench", "scaling", *flags, exits=130).stdout)
    assert said["interrupted"]
    assert [one["global_batch"] for one in said["batches"]] == [16, 64]


GENERATOR, ONNX = "generator, TensorFlow", "generator, ONNX Runtime"


def generated(*names, left_out=()):
    rounds = {GENERATOR: 0.02, ONNX: 0.01, "parametric source": 0.002, "Geant4": 0.5}
    return GenerateResult(
        *("mini", (51, 51, 25), (50.0, 50.0), 1, 1),
        sources=tuple(
            Source(
                name,
                1,
                [GenerateRound(rounds[name], rounds[name] / 2, 2 * rounds[name], rounds[name])] * 3,
            )
            for name in names
        ),
        interrupted=False,
        left_out=dict(left_out),
    )


def test_each_source_is_compared_with_geant4(cloudgan_here, monkeypatch):
    found = generated(GENERATOR, ONNX, "parametric source", "Geant4")
    monkeypatch.setattr("cloudgan.bench.generate.measure_generate", lambda *_, **__: found)
    said = " ".join(cloudgan_here("bench", "generate").stdout.split())
    assert "mini, 51x51x25 cells, electrons of 50 GeV" in said
    assert "Geant4 simulates 75x75x25 cells for any preset" in said
    assert "generator, TensorFlow 50 25 (25 to 25) 25 100 40 20" in said
    assert "generator, ONNX Runtime 100 50 (50 to 50) 50 200 20 10" in said
    assert "recorded" not in said


def test_a_missing_geant4_is_reported_and_its_time_is_the_recorded_one(cloudgan_here, monkeypatch):
    found = generated(GENERATOR, left_out={"Geant4": "the package is missing"}.items())
    monkeypatch.setattr("cloudgan.bench.generate.measure_generate", lambda *_, **__: found)
    said = cloudgan_here("bench", "generate").stdout
    assert "Geant4 is left out: the package is missing" in said
    assert "75x75" not in said
    assert "24.5 (24.5 to 24.5)" in said  # 0.49 s at 50 GeV
    assert "Geant4's time is recorded: Geant4 11.4.1, 0.0098 s of one core per GeV" in said
