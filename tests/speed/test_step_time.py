"""The time of a step by its batch: fitted to the paper's runs, and carried over to other batches."""

from __future__ import annotations

import pytest

from cloudgan.speed.measured_runs import (
    PAPER_NETWORK,
    PAPER_SHOWERS,
    MeasuredThroughput,
    paper_measurements,
)
from cloudgan.speed.paper_runs import paper_runs
from cloudgan.speed.step_time import (
    convert_step,
    fit_step_time,
    paper_step_time,
)
from cloudgan.speed.throughput_model import build_throughput_model, fastest_runs

PAPER = build_throughput_model(PAPER_NETWORK, PAPER_SHOWERS, paper_measurements(), drops_last=True)


def test_the_line_of_the_paper_is_within_its_error_of_each_run():
    line = paper_step_time()
    assert line.constant == pytest.approx(0.306, abs=5e-4)
    assert line.per_shower == pytest.approx(0.0269, abs=5e-5)
    assert line.error < 0.05
    runs = [run for run in paper_runs() if run.accelerators == 32 and run.options == "prefetch"]
    alone = [run for run in runs if run.nodes == run.workers == 4]
    assert {run.batch_per_replica for run in alone} == {16, 32, 48, 64, 80, 96}
    for run in alone:
        assert abs(line.seconds(run.batch_per_replica) - run.step_seconds) < 0.05


def test_one_shower_per_gpu_is_no_faster_than_what_each_step_costs():
    """64 GPUs that share a global batch of 64 make 1952 steps in an epoch, not 20."""
    found = PAPER.epoch("V100", 64, 1)
    assert found.seconds > 650
    assert found.low_seconds > 9 * PAPER.epoch("V100", 64, 96).high_seconds
    assert found.grade == "modelled"
    assert "outside the measured batches" in found.basis


@pytest.mark.parametrize(
    "run", [r for r in fastest_runs(paper_measurements()) if r.accelerators == 32]
)
def test_each_measured_batch_is_predicted_from_another(run):
    same = (run.accelerators, run.batch)
    others = [one for one in paper_measurements() if (one.accelerators, one.batch) != same]
    blind = build_throughput_model(PAPER_NETWORK, PAPER_SHOWERS, others, drops_last=True)
    found = blind.epoch("V100", 32, run.batch)
    assert found.seconds == pytest.approx(run.epoch_seconds, rel=0.08)
    assert found.low_seconds < found.seconds < found.high_seconds


@pytest.mark.parametrize(
    ("batch", "grade"), [(16, "measured"), (64, "measured"), (128, "modelled")]
)
def test_only_batches_within_the_measured_range_are_called_measured(batch, grade):
    assert PAPER.epoch("V100", 8, batch).grade == grade


def test_a_single_batch_is_bounded_by_no_and_by_the_largest_constant_part():
    for batch in (16, 64, 256):
        found = convert_step(1.0, 128, batch, None)
        assert found.low <= found.seconds <= found.high
        assert found.low == pytest.approx(min(batch / 128, found.low))
    assert convert_step(1.0, 128, 128, None) == (1.0, 1.0, 1.0)


def test_the_last_batch_is_carried_or_dropped():
    run = MeasuredThroughput("T4", 1, 100, 10.0, 0.0, 0.0, "mine", 30, 100 / 30)
    kept, dropped = (
        build_throughput_model("mini", 100, [run], drops_last=drops).epoch("T4", 1, 30).seconds
        for drops in (False, True)
    )
    assert kept == pytest.approx(10.0)
    assert dropped == pytest.approx(9.0)


@pytest.mark.parametrize("points", [[(1, 1.0), (2, 2.0)], [(1, 3.0), (2, 2.0), (3, 1.0)]])
def test_too_few_batches_or_a_falling_time_give_no_line(points):
    assert fit_step_time(points) is None
