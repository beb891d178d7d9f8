"""`compare --to-quality`: time and cost until a goal was first met, over seeds."""

from __future__ import annotations

import json

import pytest

from cloudgan.core.hardware import Hardware
from cloudgan.money.catalog import load_catalog
from cloudgan.schema import record
from cloudgan.schema.config import DataConfig, RunConfig
from cloudgan.schema.presets import find_preset
from cloudgan.schema.quality_row import QualityRow
from cloudgan.schema.record import Epoch, Numerics, Started, Stopped, Validated
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.training_config import TrainingConfig

NOON = "2026-11-21T12:00:00Z"
OFFER = "gcp/n1-standard-8+1xV100/us-central1/spot"
HOURLY = load_catalog().row(OFFER).usd_per_hour


def write_run(folder, *, seed, metrics, passed=None, ends=True, limit=0.05):
    """A run with an epoch of 10 s per metric, validated after each, that starts in 5 s and ends after 60 s."""
    folder.mkdir(parents=True)
    run, file = RunFolder(folder), folder / "record.jsonl"
    run.write_config(
        RunConfig(
            model=find_preset("mini"),
            name=folder.name,
            data=DataConfig(path=f"runs/{folder.name}/showers.h5"),
            training=TrainingConfig(seed=seed, validate_every=1),
        )
    )
    numerics = Numerics(
        processor="a chip", device="CPU", threads=2, replicas=1, workers=1, global_batch_size=64,
        precision="float32", math_library="oneDNN", tensorflow="2.21", keras="3.15",
    )  # fmt: skip
    record.append(
        file,
        Started(
            time=NOON, step=0, config_hash="abc", training_showers=640, held_out_showers=64,
            hardware=Hardware(processor="a chip", cores=2, memory_gib=4), numerics=numerics,
            versions={"cloudgan": "1"}, git_commit=None, strategy="one", loop="custom",
            learning_rate=0.001, notes=(), startup_seconds=5,
        ),
    )  # fmt: skip
    for number, metric in enumerate(metrics):
        step = 10 * (number + 1)
        record.append(
            file,
            Validated(
                time=NOON, step=step, epoch=number, showers=64, metrics={"metric": metric}, seconds=1,
                ranked_by="metric", best=True, program_seconds=5 + 12 * (number + 1),
            ),
        )  # fmt: skip
        record.append(
            file,
            Epoch(
                time=NOON, step=step, epoch=number, first=not number, complete=True, steps=10,
                samples=640, carried_samples=0, dropped_samples=0, train_seconds=10, trace_seconds=0,
                validation_seconds=1, checkpoint_seconds=1, samples_per_second=64, losses={},
                held_out_losses=None,
            ),
        )  # fmt: skip
    last = 10 * len(metrics)
    if ends:
        record.append(
            file,
            Stopped(time=NOON, step=last, reason="finished", program_seconds=60, train_seconds=30),
        )
    if passed is not None:
        check = {"measure": {"name": "response"}, "good": 0.02, "acceptable": limit}
        verdict = {"step": last, "verdict": {"passed": passed, "checks": [check]}}
        run.verdict_file.write_text(json.dumps(verdict))


@pytest.fixture
def rows(tmp_path, cloudgan_here):
    def compared(*words):
        said = cloudgan_here("compare", "--to-quality", f"{tmp_path}/*", *words, "--json").stdout
        return [QualityRow.model_validate(row) for row in json.loads(said)["rows"]]

    return compared


def test_seeds_of_one_configuration_are_one_row_with_median_and_range(tmp_path, rows):
    write_run(tmp_path / "a", seed=1, metrics=[0.3, 0.1, 0.05])
    write_run(tmp_path / "b", seed=2, metrics=[0.1, 0.3, 0.3])
    write_run(tmp_path / "c", seed=3, metrics=[0.3, 0.3, 0.1])
    (row,) = rows("--until=metric<0.15", f"--price-as={OFFER}")
    assert [run.seed for run in row.runs] == [1, 2, 3]
    assert [run.step for run in row.runs] == [20, 10, 30]
    assert (row.train_seconds.low, row.train_seconds.median, row.train_seconds.high) == (10, 20, 30)
    assert [run.program_seconds for run in row.runs] == [29, 17, 41]
    assert row.usd.median == pytest.approx(29 / 3600 * HOURLY)
    assert row.goal == "metric<0.15"
    assert row.gates == ""
    assert (row.priced_as, row.billed) == (OFFER, False)


def test_another_configuration_is_another_row(tmp_path, rows):
    write_run(tmp_path / "a", seed=1, metrics=[0.1])
    write_run(tmp_path / "b", seed=1, metrics=[0.1])
    found = RunFolder(tmp_path / "b").read_config()
    training = found.training.model_copy(update={"epochs": 7})
    RunFolder(tmp_path / "b").write_config(found.model_copy(update={"training": training}))
    assert len(rows("--until=metric<0.15")) == 2


def test_a_run_that_never_met_the_goal_counts_as_infinite(tmp_path, rows, cloudgan_here):
    write_run(tmp_path / "a", seed=1, metrics=[0.3, 0.1])
    write_run(tmp_path / "b", seed=2, metrics=[0.3, 0.2])
    (row,) = rows("--until=metric<0.15")
    assert [run.outcome for run in row.runs] == ["met", "never met"]
    assert "best metric 0.2 until step 20" in row.runs[1].detail
    assert (row.train_seconds.low, row.train_seconds.median) == (20, None)
    assert row.train_seconds.why == "never met"
    said = cloudgan_here("compare", "--to-quality", f"{tmp_path}/*", "--until=metric<0.15").stdout
    assert "1 of 2" in said
    assert "never" in said
    assert max(map(len, said.splitlines())) <= 120


def test_the_verdict_on_the_last_checkpoint_decides_without_a_condition(tmp_path, rows):
    write_run(tmp_path / "a", seed=1, metrics=[0.3, 0.1], passed=True)
    write_run(tmp_path / "b", seed=2, metrics=[0.3], passed=False)
    write_run(tmp_path / "c", seed=3, metrics=[0.3])
    (row,) = rows()
    assert [run.outcome for run in row.runs] == ["met", "never met", "not judged"]
    assert [run.program_seconds for run in row.runs] == [29, None, None]
    assert "step 20 only" in row.runs[0].detail
    assert "cloudgan validate" in row.runs[2].detail
    assert len(row.gates) == 8


def test_runs_judged_by_other_gates_are_not_in_one_row(tmp_path, rows):
    write_run(tmp_path / "a", seed=1, metrics=[0.1], passed=True)
    write_run(tmp_path / "b", seed=2, metrics=[0.1], passed=True, limit=0.5)
    assert sorted(run.run for row in rows() for run in row.runs) == ["a", "b"]
    assert len({row.gates for row in rows()}) == 2


def test_an_unknown_cost_stays_unknown(tmp_path, rows, cloudgan_here):
    write_run(tmp_path / "a", seed=1, metrics=[0.1])
    (row,) = rows("--until=metric<0.15")
    assert row.runs[0].usd is None
    assert "--price-as" in row.runs[0].why_unknown
    assert (row.usd.median, row.usd.why) == (None, "unknown")
    said = cloudgan_here("compare", "--to-quality", f"{tmp_path}/*", "--until=metric<0.15").stdout
    assert "unknown" in said


def test_a_step_without_a_recorded_time_has_no_time(tmp_path, rows):
    write_run(tmp_path / "a", seed=1, metrics=[0.1], passed=True, ends=False)
    verdict = json.loads((tmp_path / "a/verdict.json").read_text()) | {"step": 5}
    (tmp_path / "a/verdict.json").write_text(json.dumps(verdict))
    (row,) = rows(f"--price-as={OFFER}")
    assert row.runs[0].outcome == "met"
    assert "no time at which step 5 was complete" in row.runs[0].why_unknown
    assert row.train_seconds.why == "unknown"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--to-quality"], "nothing to compare"),
        (["--to-quality", "--paper"], "acceptance gates"),
        (["runs/a", "--until=metric<1"], "--to-quality"),
        (["runs/a", "--to-quality", "--until=metrik<1"], "metric"),
        (["runs/a", "--to-quality", "--until=metric"], "expected a name"),
    ],
)
def test_a_request_without_meaning_is_refused(
    words, expected, cloudgan_here, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs/a", seed=1, metrics=[0.1])
    assert expected in cloudgan_here("compare", *words, exits=2).stderr


def test_a_damaged_verdict_is_an_error_that_names_the_file(tmp_path, cloudgan_here):
    write_run(tmp_path / "a", seed=1, metrics=[0.1], passed=True)
    (tmp_path / "a/verdict.json").write_text('{"verdict": {"passed": true, "checks": [{}]}}')
    assert (
        "verdict.json" in cloudgan_here("compare", "--to-quality", tmp_path / "a", exits=2).stderr
    )
