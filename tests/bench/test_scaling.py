"""Scaling: its runs and its report."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from bench.processes import children_doing, is_gone
from cloudgan.bench.scaling import (
    BASE,
    ProgramRun,
    ScalingPoint,
    ScalingResult,
    ScalingVariant,
    make_configs,
    run_train,
    scaling_json,
    scaling_table,
)
from cloudgan.core.errors import CloudganError, ConfigError

ASKED = {"preset": "smoke", "batch": 8, "steps": 30, "conv_impl": "fast"}
WAYS = [BASE, ScalingVariant(replicas=2), ScalingVariant(workers=2)]


def program(rate, seconds, device="CPU"):
    return ProgramRun(1000, seconds, 5.0, 3.0, rate, 20.0, device)


def result(device="CPU", kind="strong"):
    base = [program(100.0, 20.0, device), program(50.0, 40.0, device)]
    two = [program(110.0, 25.0, device), program(45.0, 40.0, device)]
    points = (ScalingPoint(BASE, 8, base), ScalingPoint(ScalingVariant(replicas=2), 8, two))
    return ScalingResult(kind, "smoke", 30, points, interrupted=False)


def test_strong_scaling_shares_one_global_batch_and_weak_gives_each_its_own():
    strong = make_configs("strong", WAYS, **ASKED)
    assert [one.global_batch(variant.parts) for variant, one in strong.items()] == [8, 8, 8]
    weak = make_configs("weak", WAYS, **ASKED)
    assert [one.global_batch(variant.parts) for variant, one in weak.items()] == [8, 16, 16]


def test_each_way_is_what_train_calls_it():
    base, replicas, workers = (
        one.training for one in make_configs("strong", WAYS, **ASKED).values()
    )
    assert (base.strategy, base.replicas, base.workers) == ("one", None, 1)
    assert (replicas.strategy, replicas.replicas, replicas.workers) == ("mirrored", 2, 1)
    assert (workers.strategy, workers.replicas, workers.workers) == ("multiworker", None, 2)
    assert {one.max_steps for one in (base, replicas, workers)} == {30}
    assert {one.conv_impl for one in (base, replicas, workers)} == {"fast"}


def test_a_batch_that_cannot_be_shared_is_refused_before_anything_runs():
    with pytest.raises(ConfigError, match="3 replicas do not divide"):
        make_configs("strong", [BASE, ScalingVariant(replicas=3)], **ASKED)


def test_the_same_cores_are_compared_so_half_of_them_each_is_no_gain():
    found, variant = result(), result().points[1]
    training, whole = found.training_efficiency(variant), found.end_to_end_efficiency(variant)
    assert (training.min, training.max) == (0.9, 1.1)
    assert (whole.min, whole.max) == (0.8, 1.0)


def test_on_accelerators_twice_the_devices_have_to_be_twice_as_fast():
    found = result(device="A100")
    assert found.training_efficiency(found.points[1]).max == pytest.approx(0.55)


def test_programs_find_both_efficiencies_side_by_side():
    said = json.loads(json.dumps(scaling_json(result()), allow_nan=False))
    assert said["efficiency"].keys() == {"2 replicas"}
    assert said["efficiency"]["2 replicas"].keys() == {"training_only", "end_to_end"}
    assert said["efficiency"]["2 replicas"]["training_only"]["median"] == pytest.approx(1.0)
    assert [one["name"] for one in said["variants"]] == ["threads only", "2 replicas"]
    assert said["variants"][0]["program_seconds"]["max"] == 40.0


def test_people_read_what_is_kept_the_same():
    assert "one global batch" in scaling_table(result()).caption
    assert "one batch per replica" in scaling_table(result(kind="weak")).caption
    assert [row[0] for row in scaling_table(result()).rows] == ["threads only", "2 replicas"]


def test_the_error_of_a_failed_run_has_its_last_lines(tmp_path):
    (config,) = make_configs(
        "weak", [BASE], preset="smoke", batch=8, steps=1, conv_impl="auto"
    ).values()
    with pytest.raises(CloudganError) as error:
        run_train(config, tmp_path / "round")
    assert "ended with exit code 2; its last lines" in str(error.value)
    assert "--data is missing; give --data=FILE.h5" in str(error.value)


def test_ctrl_c_ends_the_program_before_it_ends_us(tmp_path):
    words = ("simulate", str(tmp_path / "showers.h5"), "--showers=1000000")
    program = (
        "from pathlib import Path; from cloudgan.bench.scaling import run_program;"
        f" run_program({words!r}, Path({str(tmp_path / 'log')!r}))"
    )
    us = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
    started = []
    deadline = time.monotonic() + 30
    while not started and time.monotonic() < deadline:
        time.sleep(0.05)
        started = children_doing(str(tmp_path), of=us.pid)
    us.send_signal(signal.SIGINT)
    _, stderr = us.communicate(timeout=30)
    assert stderr.rstrip().endswith(b"KeyboardInterrupt")
    assert is_gone(started[0], seconds=0.5)
