"""Scaling: what is run, and what is said of made-up runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from bench.processes import children_doing, is_gone
from cloudgan.bench import scaling
from cloudgan.bench.harness import Measured
from cloudgan.bench.processes import core_shares, pinned
from cloudgan.bench.scaling import (
    BASE,
    ScalingVariant,
    add_efficiencies,
    batch_of,
    make_study,
    run_train,
    scaling_measurement,
)
from cloudgan.core.errors import CloudganError, ConfigError, Interrupted
from cloudgan.core.hardware import FreeMemory
from cloudgan.core.progress import Silent
from cloudgan.schema.options.bench import BenchScalingOptions
from cloudgan.training import forecast

ASKED = {"preset": "smoke", "batch": 8, "steps": 30, "conv_impl": "fast"}
WAYS = [BASE, ScalingVariant(replicas=2), ScalingVariant(workers=2)]


def variant(way, *runs, device="CPU", batch=8):
    """A variant whose runs have speeds and program seconds, of 1000 showers."""
    rows = [
        {"showers_per_second": rate, "end_to_end_showers_per_second": 1000 / seconds}
        | {"program_seconds": seconds, "startup_seconds": 5.0, "first_call_seconds": 3.0}
        | {"cpu_seconds": 20.0, "seconds_per_step": batch / rate}
        for rate, seconds in runs
    ]
    facts = {"preset": "smoke", "steps": 30, "global_batch": batch, "device": device}
    return Measured(way.name, facts | way._asdict() | {"parts": way.parts}, rows)


def result(device="CPU", kind="strong"):
    study = [
        variant(BASE, (100.0, 20.0), (50.0, 40.0), device=device),
        variant(ScalingVariant(replicas=2), (110.0, 25.0), (45.0, 40.0), device=device),
    ]
    add_efficiencies(study)
    return study, scaling_measurement(kind, [study], False)


def test_strong_scaling_shares_one_global_batch_and_weak_gives_each_its_own():
    for kind, batches in (("strong", [8, 8, 8, 8]), ("weak", [8, 16, 16, 16])):
        study = make_study(kind, WAYS, **ASKED)
        assert [batch_of(study, way) for way in study] == batches
    assert [way.name for way in study][3:] == ["2 independent runs"]
    training = make_study("strong", WAYS, **ASKED)[ScalingVariant(copies=2)].training
    assert (training.strategy, training.global_batch_size) == ("one", 4)


def test_a_predicted_device_trains_its_share_of_the_batch_alone():
    study = make_study("strong", [BASE], **ASKED, predict=(3, 8))
    assert [batch_of(study, way) for way in study] == [8, 3, 1]
    third = variant(ScalingVariant(share_of=3), (60.0, 10.0), batch=3)
    found = [variant(BASE, (100.0, 20.0)), third]
    add_efficiencies(found)
    assert third.spread("training_only").median == pytest.approx(0.6)
    assert "predicted bound" in scaling_measurement("strong", [found], False).tables[0].caption


def test_runs_of_few_steps_have_several_calls_of_which_the_first_is_not_timed():
    """Independent runs of half of a large batch had one epoch, one call, and no speed."""
    few, many = (make_study("strong", WAYS, **(ASKED | {"steps": n})) for n in (4, 300))
    assert {one.training.steps_per_loop for one in few.values()} == {1}
    assert {one.training.steps_per_loop for one in many.values()} == {None}


def test_the_largest_batch_fits_into_the_free_memory_with_every_variant(monkeypatch):
    free = FreeMemory(3 << 30, 4 << 30, "this machine")
    monkeypatch.setattr(forecast, "free_memory", lambda: free)
    several = [BASE, ScalingVariant(workers=2), ScalingVariant(workers=3)]
    study = make_study("strong", several, **(ASKED | {"batch": "largest"}))
    batch = batch_of(study, BASE)
    assert batch % 6 == 0
    largest = []
    for way, config in study.items():
        here = way.workers * way.copies
        found = forecast.expected_memory(config, workers=way.workers, processes=here)
        assert found.check() is None
        largest.append(found.largest_batch() * way.parts)
    assert batch <= min(largest) < batch + 6
    monkeypatch.setattr(forecast, "free_memory", lambda: None)
    with pytest.raises(ConfigError, match="the free memory is unknown; give a number"):
        make_study("weak", WAYS, **(ASKED | {"batch": "largest"}))


def test_another_batch_than_the_usual_trains_as_many_showers():
    usual = make_study("strong", [BASE], preset="mini")
    other = make_study("strong", [BASE], preset="mini", batch=4 * batch_of(usual, BASE))
    steps = [one[BASE].training.max_steps for one in (usual, other)]
    assert steps[0] == 4 * steps[1]


def test_after_ctrl_c_the_finished_studies_remain(monkeypatch):
    results = iter([(result()[0], False), Interrupted("stopped")])

    def measure(*_):
        found = next(results)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(scaling, "measure_study", measure)
    asked = BenchScalingOptions(strong=True, replicas=(2,), presets=("smoke",), batches=(8, 16, 32))
    found = scaling.measure(asked, Silent())
    assert (len(found.studies), found.interrupted) == (1, True)


def test_each_way_is_what_train_calls_it():
    study = make_study("strong", WAYS, **ASKED)
    base, replicas, workers = (study[way].training for way in WAYS)
    assert (base.strategy, base.replicas, base.workers) == ("one", None, 1)
    assert (replicas.strategy, replicas.replicas, replicas.workers) == ("mirrored", 2, 1)
    assert (workers.strategy, workers.replicas, workers.workers) == ("multiworker", None, 2)
    assert {one.max_steps for one in (base, replicas, workers)} == {30 * 4}
    assert {one.conv_impl for one in (base, replicas, workers)} == {"fast"}


def test_the_same_cores_are_compared_and_of_accelerators_twice_the_devices():
    (_, two), said = result()
    training, whole = two.spread("training_only"), two.spread("end_to_end")
    assert (training.min, training.max) == (0.9, 1.1)
    assert (whole.min, whole.max) == (0.8, 1.0)
    assert result(device="A100")[0][1].spread("training_only").max == pytest.approx(0.55)
    (study,) = json.loads(json.dumps(said.as_json(), allow_nan=False))["studies"]
    assert [one["name"] for one in study["variants"]] == ["threads only", "2 replicas"]
    base, two = study["variants"]
    assert two["training_only"]["median"] == pytest.approx(1.0)
    assert two["end_to_end"].keys() == two["training_only"].keys()
    assert base["program_seconds"]["max"] == 40.0


def test_people_read_what_is_kept_the_same():
    table = result()[1].tables[0]
    assert "one global batch" in table.caption
    assert "one batch per replica" in result(kind="weak")[1].tables[0].caption
    assert [row[0] for row in table.rows] == ["threads only", "2 replicas"]


def test_copies_share_the_cores_without_overlap():
    cores = os.sched_getaffinity(0)
    shares = core_shares(2)
    assert frozenset.union(*shares) <= cores
    assert not frozenset.intersection(*shares)
    assert len({len(share) for share in shares}) == 1
    with pinned(frozenset({min(cores)})):
        assert os.sched_getaffinity(0) == {min(cores)}
    assert os.sched_getaffinity(0) == cores
    assert core_shares(10**4)[0] == frozenset()


def test_the_error_of_a_failed_run_has_its_last_lines(tmp_path):
    config = make_study("weak", [BASE], preset="smoke", batch=8, steps=1)[BASE]
    with pytest.raises(CloudganError) as error:
        run_train(config, tmp_path / "round")
    assert "ended with exit code 2; its last lines" in str(error.value)
    assert "--data is missing; give your showers" in str(error.value)


def test_ctrl_c_ends_the_program_before_it_ends_us(tmp_path):
    words = ("simulate", str(tmp_path / "showers.h5"), "--showers=1000000")
    program = (
        "from cloudgan.bench.processes import program, run_programs;"
        f" run_programs(program(*{words!r}))"
    )
    us = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
    started = []
    deadline = time.monotonic() + 30
    while not started and time.monotonic() < deadline:
        time.sleep(0.05)
        started = children_doing(str(tmp_path), of=us.pid)
    us.send_signal(signal.SIGINT)
    _, stderr = us.communicate(timeout=600)
    assert stderr.rstrip().endswith(b"KeyboardInterrupt")
    assert is_gone(started[0], seconds=0.5)
