"""Scaling: its runs and its report."""

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
from cloudgan.bench.scaling import (
    BASE,
    ScalingPoint,
    ScalingResult,
    ScalingVariant,
    make_study,
    measure_scaling,
    scaling_json,
    scaling_table,
)
from cloudgan.bench.training_program import ProgramRun, core_shares, pinned, run_train
from cloudgan.core.errors import CloudganError, ConfigError, Interrupted
from cloudgan.core.memory import FreeMemory
from cloudgan.core.progress import Silent
from cloudgan.training import expected_memory

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
    for kind, batches in (("strong", [8, 8, 8, 8]), ("weak", [8, 16, 16, 16])):
        study = make_study(kind, WAYS, **ASKED)
        assert [study.batch(variant) for variant in study.configs] == batches


def test_independent_runs_stand_beside_each_number_of_parts():
    study = make_study("strong", WAYS, **ASKED)
    assert [one.name for one in study.configs][3:] == ["2 independent runs"]
    training = study.configs[ScalingVariant(copies=2)].training
    assert (training.strategy, training.global_batch_size) == ("one", 4)


def test_a_predicted_device_trains_its_share_of_the_batch_alone():
    study = make_study("strong", [BASE], **ASKED, predict=(3, 8))
    assert [study.batch(one) for one in study.configs] == [8, 3, 1]
    found = [program(100.0, 20.0), program(60.0, 10.0)]
    third = ScalingPoint(ScalingVariant(share_of=3), 3, [program(60.0, 10.0)])
    points = (ScalingPoint(BASE, 8, found[:1]), third)
    of = ScalingResult("strong", "smoke", 30, points, interrupted=False)
    assert of.training_efficiency(third).median == pytest.approx(0.6)
    assert "predicted bound" in scaling_table([of]).caption


def test_runs_of_few_steps_have_several_calls_of_which_the_first_is_not_timed():
    """Independent runs of half of a large batch had one epoch, one call, and no speed."""
    few, many = (make_study("strong", WAYS, **(ASKED | {"steps": n})) for n in (4, 300))
    assert {one.training.steps_per_loop for one in few.configs.values()} == {1}
    assert {one.training.steps_per_loop for one in many.configs.values()} == {None}


def test_the_largest_batch_fits_into_the_free_memory_with_every_variant(monkeypatch):
    free = FreeMemory(3 << 30, 4 << 30, "this machine")
    monkeypatch.setattr(expected_memory, "free_memory", lambda: free)
    several = [BASE, ScalingVariant(workers=2), ScalingVariant(workers=3)]
    study = make_study("strong", several, **(ASKED | {"batch": "largest"}))
    batch = study.batch(BASE)
    assert batch % 6 == 0
    largest = []
    for variant, config in study.configs.items():
        here = variant.workers * variant.copies
        found = expected_memory.expected_memory(config, workers=variant.workers, processes=here)
        assert found.check() is None
        largest.append(found.largest_batch() * variant.parts)
    assert batch <= min(largest) < batch + 6


def test_without_known_memory_the_largest_batch_is_refused(monkeypatch):
    monkeypatch.setattr(expected_memory, "free_memory", lambda: None)
    with pytest.raises(ConfigError, match="the free memory is unknown; give a number"):
        make_study("weak", WAYS, **(ASKED | {"batch": "largest"}))


def test_another_batch_than_the_usual_trains_as_many_showers():
    usual = make_study("strong", [BASE], preset="mini")
    other = make_study("strong", [BASE], preset="mini", batch=4 * usual.batch(BASE))
    steps = [one.configs[BASE].training.max_steps for one in (usual, other)]
    assert steps[0] == 4 * steps[1]


def test_after_ctrl_c_the_finished_studies_remain(monkeypatch):
    results = iter([result(), Interrupted("stopped")])

    def measure(study, **_):
        found = next(results)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(scaling, "_measure", measure)
    study = make_study("strong", WAYS, **ASKED)
    (found,) = measure_scaling([study] * 3, rounds=2, progress=Silent())
    assert found.interrupted


def test_copies_share_the_cores_without_overlap():
    cores = os.sched_getaffinity(0)
    shares = core_shares(2)
    assert set.union(*shares) <= cores
    assert not set.intersection(*shares)
    assert len({len(share) for share in shares}) == 1
    with pinned({min(cores)}):
        assert os.sched_getaffinity(0) == {min(cores)}
    assert os.sched_getaffinity(0) == cores
    assert core_shares(10**4)[0] == set()


def test_each_way_is_what_train_calls_it():
    study = make_study("strong", WAYS, **ASKED)
    base, replicas, workers = (study.configs[way].training for way in WAYS)
    assert (base.strategy, base.replicas, base.workers) == ("one", None, 1)
    assert (replicas.strategy, replicas.replicas, replicas.workers) == ("mirrored", 2, 1)
    assert (workers.strategy, workers.replicas, workers.workers) == ("multiworker", None, 2)
    assert {one.max_steps for one in (base, replicas, workers)} == {30 * 4}
    assert {one.conv_impl for one in (base, replicas, workers)} == {"fast"}


def test_a_batch_that_cannot_be_shared_is_refused_before_anything_runs():
    with pytest.raises(ConfigError, match="3 replicas do not divide"):
        make_study("strong", [BASE, ScalingVariant(replicas=3)], **ASKED)


def test_the_same_cores_are_compared_so_half_of_them_each_is_no_gain():
    found, variant = result(), result().points[1]
    training, whole = found.training_efficiency(variant), found.end_to_end_efficiency(variant)
    assert (training.min, training.max) == (0.9, 1.1)
    assert (whole.min, whole.max) == (0.8, 1.0)


def test_on_accelerators_twice_the_devices_have_to_be_twice_as_fast():
    found = result(device="A100")
    assert found.training_efficiency(found.points[1]).max == pytest.approx(0.55)


def test_programs_find_both_efficiencies_side_by_side():
    (said,) = json.loads(json.dumps(scaling_json([result()]), allow_nan=False))["studies"]
    assert said["efficiency"].keys() == {"2 replicas"}
    assert said["efficiency"]["2 replicas"].keys() == {"training_only", "end_to_end"}
    assert said["efficiency"]["2 replicas"]["training_only"]["median"] == pytest.approx(1.0)
    assert [one["name"] for one in said["variants"]] == ["threads only", "2 replicas"]
    assert said["variants"][0]["program_seconds"]["max"] == 40.0


def test_people_read_what_is_kept_the_same():
    assert "one global batch" in scaling_table([result()]).caption
    assert "one batch per replica" in scaling_table([result(kind="weak")]).caption
    assert [row[1] for row in scaling_table([result()]).rows] == ["threads only", "2 replicas"]


def test_the_error_of_a_failed_run_has_its_last_lines(tmp_path):
    config = make_study("weak", [BASE], preset="smoke", batch=8, steps=1).configs[BASE]
    with pytest.raises(CloudganError) as error:
        run_train(config, tmp_path / "round")
    assert "ended with exit code 2; its last lines" in str(error.value)
    assert "--data is missing; give your showers" in str(error.value)


def test_ctrl_c_ends_the_program_before_it_ends_us(tmp_path):
    words = ("simulate", str(tmp_path / "showers.h5"), "--showers=1000000")
    program = (
        "from pathlib import Path; from cloudgan.bench.training_program import run_program;"
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
