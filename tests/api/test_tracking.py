"""`--track`: what TensorBoard, MLflow and Weights & Biases receive of a run; the last two are stand-ins."""

import json
import math
import sys
from pathlib import Path

import pytest

from cloudgan.data.tfrecord import record_extents
from cloudgan.schema import record
from cloudgan.schema.config import parse_config
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training import record as tracking
from cloudgan.training.record import Tracking
from records import numerics
from schema.test_record import epoch, started, validated

STAND_INS = Path(__file__).parent.parent / "trackers"
KEYS = ("WANDB_API_KEY", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD")
SERVERS = pytest.mark.parametrize("name", ["mlflow", "wandb"])


@pytest.fixture
def tracked(monkeypatch, tmp_path):
    """Installs the stand-ins; returns what they received, by id of a run."""
    monkeypatch.syspath_prepend(str(STAND_INS))
    for name in ("kept", "mlflow", "wandb"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for key in KEYS:
        monkeypatch.setenv(key, "planted-word")
    path = tmp_path / "tracked.json"
    monkeypatch.setenv("TRACKED", str(path))
    yield lambda: json.loads(path.read_text())
    for name in ("kept", "mlflow", "wandb"):
        sys.modules.pop(name, None)


@pytest.fixture
def run(tmp_path):
    """Tracks a process of the run `mine` that writes `lines` after its start; returns what it said."""

    def begin(name, *lines, folder="run", startup=5.0, **training):
        said = []
        here = RunFolder(tmp_path / folder)
        here.create()
        keys = {"name": "mine", "training": {"track": name} | training}
        config = parse_config(keys, "a test")
        follows = Tracking(config, here, said.append)
        update = {"startup_seconds": startup, "numerics": numerics()}
        for line in (started().model_copy(update=update), *lines):
            record.append(here.record_file, line)
            follows.write(line)
        return said

    return begin


def stopped(step, reason="finished"):
    return record.Stopped(
        time="2026-01-01T00:01:00Z",
        step=step,
        reason=reason,
        program_seconds=12.0,
        train_seconds=10.0,
    )


@SERVERS
def test_a_tracker_gets_the_name_the_flat_configuration_each_epoch_and_the_end(tracked, run, name):
    losses = {"generator": {"total": 1.5}}, {"generator": {"total": 2.5}}
    told = dict(zip(("losses", "held_out_losses"), losses, strict=True))
    trained = epoch(0, step=10).model_copy(update=told)
    assert run(name, trained, validated(10, 0.25), stopped(10), epochs=3) == []
    (found,) = tracked().values()
    assert found["name"] == "mine"
    assert str(found["config"]["training.epochs"]) == "3"
    assert found["config"]["model.preset"] == "paper"
    losses, metrics, end = found["log"]
    assert losses == {"step": 10, "train/generator/total": 1.5, "test/generator/total": 2.5} | {
        "samples_per_second": epoch(0, step=10).samples_per_second
    }
    assert metrics == {"step": 10, "quality/metric": 0.25, "quality/hits": 0.5}
    assert end == {"step": 10, "end/train_seconds": 10.0, "end/program_seconds": 12.0}
    assert found["ends"] == ["RUNNING", "FINISHED"]


@SERVERS
def test_a_resumed_run_goes_on_in_the_same_run_of_the_tracker(tracked, run, name):
    run(name, epoch(0, step=10), stopped(10, "terminated"))
    run(name, epoch(1, step=20), stopped(20), epochs=9)
    (found,) = tracked().values()
    assert [line["step"] for line in found["log"]] == [10, 10, 20, 20]
    assert found["ends"] == ["RUNNING", "KILLED", "RUNNING", "FINISHED"]


@SERVERS
def test_a_run_that_began_in_the_same_second_is_another_run_of_the_tracker(tracked, run, name):
    run(name, stopped(10))
    run(name, stopped(10), folder="another", startup=5.25)
    assert len(tracked()) == 2


@pytest.mark.parametrize(("step", "passed"), [(10, 1.0), (4, None)])
def test_the_end_has_the_verdict_on_the_last_generator_only(tracked, run, tmp_path, step, passed):
    (tmp_path / "run").mkdir()
    verdict = {"step": step, "verdict": {"passed": True}}
    (tmp_path / "run" / "verdict.json").write_text(json.dumps(verdict))
    run("mlflow", stopped(10))
    ((found,),) = (each["log"] for each in tracked().values())
    assert found.get("end/verdict_passed") == passed


@SERVERS
def test_a_server_that_is_away_gives_one_warning_without_its_login(tracked, run, name, monkeypatch):
    monkeypatch.setenv("TRACKER", "away")
    (said,) = run(name, *(epoch(number, step=11 + number) for number in range(3)), stopped(13))
    assert said.startswith(f"--track={name} ended, the training goes on: no route to http://")
    assert "planted-word" not in said


def test_a_server_that_does_not_answer_delays_the_end_only_by_a_few_seconds(
    tracked, run, monkeypatch
):
    monkeypatch.setenv("TRACKER", "hangs")
    monkeypatch.setattr(tracking, "_LAST_SECONDS", 0.2)
    assert "no answer within 0.2 s" in run("mlflow", epoch(0, step=10), stopped(10))[0]


def test_without_a_key_weights_and_biases_asks_for_none(tracked, run, monkeypatch):
    monkeypatch.delenv("WANDB_API_KEY")
    (said,) = run("wandb", stopped(10))
    assert said.endswith("set WANDB_API_KEY, or WANDB_MODE=offline")


@SERVERS
def test_no_file_has_a_key(tracked, run, name, tmp_path):
    run(name, epoch(0, step=10), stopped(10))
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert found
    assert not [path for path in found if b"planted-word" in path.read_bytes()]


def test_the_tracker_changes_no_hash():
    named = [parse_config({"training": {"track": name}}, "a test") for name in ("none", "wandb")]
    assert named[0].config_hash() == named[1].config_hash()


def test_tensorboard_gets_a_file_of_events_per_process(run, tmp_path):
    run("tensorboard", epoch(0, step=10), validated(10, math.nan), stopped(10, "interrupted"))
    run("tensorboard", epoch(1, step=20), stopped(20))
    files = sorted((tmp_path / "run" / "tensorboard").iterdir())
    assert [len(record_extents(path)) for path in files] == [4, 3]  # the version is one


def test_tensorboard_that_cannot_write_does_not_end_the_training(run, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "tensorboard").write_text("a file")
    assert "File exists" in run("tensorboard", epoch(0, step=10), stopped(10))[0]
