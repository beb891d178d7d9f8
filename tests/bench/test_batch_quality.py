"""Quality against the global batch: what is trained, and its report; the runs themselves are in tests/cli."""

from __future__ import annotations

import json
import math

import pytest

from cloudgan.bench.batch_quality import (
    BatchPoint,
    QualityResult,
    batch_run,
    make_quality_study,
    quality_json,
    quality_table,
)
from cloudgan.bench.training_program import ProgramRun
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import Hardware
from cloudgan.reports.table import cell_text
from cloudgan.schema.held_out import LEAST_TO_JUDGE, check_can_validate, held_out_every
from cloudgan.schema.record import Epoch, Numerics, RunRecord, Started, Validated
from cloudgan.schema.stop_criterion import METRICS

TIME = "2026-11-24T00:00:00Z"
STUDY = make_quality_study(9000, presets=["smoke"], batches=[16, 64])


def ended(metric=0.2, *, seed=0, rate=100.0):
    """A run of two epochs of 10 steps."""
    begun = Started(
        time=TIME, step=0, config_hash="abc", training_showers=320, held_out_showers=200,
        hardware=Hardware(processor="a chip", cores=2, memory_gib=4), numerics=Numerics.model_construct(),
        versions={}, git_commit=None, strategy="one", loop="custom", learning_rate=0.001, notes=(),
        startup_seconds=5,
    )  # fmt: skip
    epochs = [
        Epoch(
            time=TIME, step=10 * (number + 1), epoch=number, first=not number, complete=True, steps=10,
            samples=320, carried_samples=0, dropped_samples=0, train_seconds=4, trace_seconds=0,
            validation_seconds=1, checkpoint_seconds=0, samples_per_second=rate, losses={},
            held_out_losses=None,
        )
        for number in range(2)
    ]  # fmt: skip
    validated = Validated(
        time=TIME, step=20, epoch=1, showers=200, metrics=dict.fromkeys(METRICS, 0.5) | {"metric": metric},
        seconds=1, ranked_by="metric", best=True, program_seconds=9,
    )  # fmt: skip
    program = ProgramRun(640, 20.0, 5.0, 3.0, rate, 20.0, "CPU")
    return batch_run(seed, program, RunRecord(lines=(begun, *epochs, validated)))


def result(*runs, interrupted=False):
    points = (BatchPoint("smoke", 32, [ended()]), BatchPoint("smoke", 64, runs))
    return QualityResult(STUDY, points, interrupted)


def row(found, number):
    table = quality_table(found)
    return dict(zip(table.columns, map(cell_text, table.rows[number]), strict=True))


@pytest.mark.parametrize("showers", [1800, 8999, 20_000, 100_001])
def test_every_batch_trains_the_same_whole_epochs_and_validates_after_the_last(showers):
    study = make_quality_study(showers, presets=["smoke"], batches=[8, "usual"])
    assert showers - study.epochs < study.epochs * study.epoch_showers <= showers
    assert [config.global_batch(1) for config in study.configs] == [8, 32]
    for config in study.configs:
        training = config.training
        assert (training.epochs, training.max_steps) == (study.epochs, None)
        assert (training.validate_every, training.scale_lr) == (study.epochs, "none")


@pytest.mark.parametrize("showers", [1800, 4501, 20_000])
def test_the_simulated_showers_are_those_of_an_epoch_and_enough_held_out_ones(showers):
    study = make_quality_study(showers, presets=["smoke"], batches=[8, 16])
    simulated, config = study.simulated_showers, study.configs[0]
    held_out = simulated // held_out_every(config.data.held_out_fraction, simulated)
    assert simulated - held_out == study.epoch_showers
    assert held_out >= LEAST_TO_JUDGE
    check_can_validate(config, simulated)


def test_the_least_number_of_showers_is_the_one_that_the_refusal_names():
    for showers in (0, 1799):
        with pytest.raises(ConfigError, match="give --quality=1800 or more"):
            make_quality_study(showers, presets=["smoke"], batches=[8, 16])


def test_a_batch_with_too_few_steps_is_refused_with_the_largest_one():
    with pytest.raises(
        ConfigError, match="give --quality=2040 or more, or --batches of at most 50"
    ):
        make_quality_study(2000, presets=["smoke"], batches=[8, 51])
    make_quality_study(2000, presets=["smoke"], batches=[8, 50])


def test_each_preset_needs_two_different_batches():
    with pytest.raises(ConfigError, match="smoke has only that of 32 showers"):
        make_quality_study(4000, presets=["smoke"], batches=["usual", 32])


def test_a_run_is_summed_up_from_its_record():
    found = ended(0.2, seed=3, rate=40.0)
    assert (found.seed, found.steps, found.showers, found.learning_rate) == (3, 20, 640, 0.001)
    assert found.metrics == dict.fromkeys(METRICS, 0.5) | {"metric": 0.2}
    assert found.seconds_per_shower == 0.025


def test_the_table_has_median_and_range_over_seeds_and_the_plain_number_of_one_seed():
    found = result(ended(0.3), ended(0.1, seed=1, rate=50.0), ended(0.2, seed=2))
    one, three = row(found, 0), row(found, 1)
    assert (one["seeds"], one["metric"], one["s per shower"]) == ("1", "0.2", "0.01")
    assert (three["seeds"], three["showers per step"], three["steps"]) == ("3", "64", "20")
    assert three["metric"] == "0.2 (0.1 to 0.3)"
    assert three["s per shower"] == "0.01 (0.01 to 0.02)"
    assert "what weak scaling over n devices costs" in quality_table(found).caption


def test_a_number_that_is_not_finite_for_one_seed_is_unknown_for_the_batch():
    found = result(ended(0.3), ended(math.nan, seed=1))
    assert row(found, 1)["metric"] == "unknown"
    assert row(found, 1)["hits"] == "0.5 (0.5 to 0.5)"
    said = json.loads(json.dumps(quality_json(found), allow_nan=False))["batches"][1]
    assert said["metrics"]["metric"] is None
    assert [run["metrics"]["metric"] for run in said["runs"]] == [0.3, None]


def test_programs_find_each_run_by_seed():
    said = quality_json(result(ended(), ended(seed=1), interrupted=True))
    assert (said["training_showers"], said["epochs"], said["interrupted"]) == (9000, 2, True)
    assert [one["global_batch"] for one in said["batches"]] == [32, 64]
    assert [run["seed"] for run in said["batches"][1]["runs"]] == [0, 1]
    assert said["batches"][1]["metrics"]["separation"]["median"] == 0.5
