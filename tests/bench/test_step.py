from __future__ import annotations

import pytest

from bench.made_up import measured, step_result
from cloudgan.bench.arithmetic import step_macs
from cloudgan.core.presets import PRESETS


def test_the_ratio_is_of_neighbours_in_time_and_of_the_other_over_the_own():
    found = step_result(own=[5.0, 4.0, 10.0], against=[10.0, 12.0, 20.0])
    assert (found.ratio.min, found.ratio.median, found.ratio.max) == (2.0, 2.0, 3.0)
    assert found.cpu_ratio.max == 3.0


def test_with_nothing_to_compare_there_is_no_ratio():
    found = step_result(against=None)
    assert found.ratio is found.cpu_ratio is None


def test_the_share_of_the_limit_is_counted_operations_at_the_measured_speed_over_the_step():
    found = measured("auto", [10.0, 20.0], gflops=100.0)
    counted_gflop = 2e-9 * 16 * sum(step_macs(PRESETS["paper"], "phases").values())
    assert found.limit_seconds.median == pytest.approx(counted_gflop / 100)
    assert found.share_of_direct_limit.max == pytest.approx(counted_gflop / 100 / 10)
    assert found.share_of_direct_limit.min == pytest.approx(counted_gflop / 100 / 20)


def test_the_published_form_is_held_against_the_same_limit():
    rounds = [5.0]
    assert (
        measured("published", rounds, formulation="published").limit_seconds
        == measured("fast", rounds).limit_seconds
    )


def test_throughput_is_of_the_global_batch():
    assert measured("auto", [8.0], global_batch=32).showers_per_second.median == 4.0


def test_auto_tells_what_it_was_taken_for():
    assert measured("auto", [1.0]).told == "auto (fast)"
    assert measured("fast", [1.0]).told == "fast"
