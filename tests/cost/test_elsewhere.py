"""How fast a network trains where it was not run."""

from __future__ import annotations

import pytest

from cloudgan.cost.elsewhere import Measured, speeds
from cloudgan.cost.elsewhere_runs import PAPER_NETWORK, PAPER_SHOWERS, paper_measurements

ALL = ("V100", "TPU-v2", "TPU-v3")


def run(accelerator, n, seconds, showers=1000):
    return Measured(accelerator, n, showers, seconds, 3.0, 20.0, f"a run on {n} x {accelerator}")


def paper(*accelerators):
    runs = [one for one in paper_measurements() if one.accelerator in accelerators]
    return speeds(PAPER_NETWORK, PAPER_SHOWERS, runs)


@pytest.mark.parametrize(
    ("accelerator", "n", "seconds"),
    [("V100", 2, 1784.42), ("V100", 64, 59.35), ("TPU-v3", 4, 416.29), ("TPU-v2", 16, 261.27)],
)
def test_a_measured_size_is_what_was_measured(accelerator, n, seconds):
    found = paper(*ALL).epoch(accelerator, n)
    assert (found.low_seconds, found.seconds, found.high_seconds) == (seconds,) * 3
    assert found.grade == "measured"


def test_between_measured_sizes_the_curve_holds_and_says_so():
    found = paper("V100").epoch("V100", 24)
    assert found.grade == "curve of measured runs"
    assert 115 < found.low_seconds < found.seconds < found.high_seconds < 230
    assert "2, 4, 8, 16, 32, 64, 128 x V100, between measured sizes" in found.basis


def test_two_measured_sizes_bound_what_lies_between_them():
    found = paper("TPU-v3").epoch("TPU-v3", 8)
    assert found.seconds is None
    assert found.grade == "not measured"
    assert found.low_seconds == pytest.approx(103.16 * 2)
    assert found.high_seconds == pytest.approx(416.29 / 2)


def test_one_run_says_between_no_gain_and_gain_in_proportion():
    known = speeds("mini", 1000, [run("T4", 2, 100.0)])
    more, fewer = known.epoch("T4", 8), known.epoch("T4", 1)
    assert (more.low_seconds, more.high_seconds) == (25.0, 100.0)
    assert (fewer.low_seconds, fewer.high_seconds) == (100.0, 200.0)


@pytest.mark.parametrize("left_out", ALL)
def test_the_papers_other_runs_bound_each_accelerator_without_its_own(left_out):
    known, blind = paper(*ALL), paper(*(set(ALL) - {left_out}))
    for n in (4, 16):
        truth, found = known.epoch(left_out, n), blind.epoch(left_out, n)
        assert found.seconds is None
        assert found.grade == "not measured"
        assert found.low_seconds <= truth.seconds <= found.high_seconds


def test_a_gpu_is_compared_with_gpus_and_a_tpu_with_tpus():
    known = paper(*ALL)
    assert "times V100" in known.epoch("H100", 8).basis
    assert "times TPU-v3" in known.epoch("TPU-v5e", 4).basis
    assert "times TPU-v3" in paper("TPU-v3").epoch("H100", 4).basis


def test_what_does_not_shrink_with_numbers_is_not_promised_to_shrink_with_speed():
    flat = [run("V100", n, 100 / n + 50) for n in (1, 2, 4, 8)]
    found = speeds("mini", 1000, flat).epoch("H100", 8)
    assert found.high_seconds > 50
    assert found.low_seconds < 62.5 / 20


def test_an_epoch_of_other_showers_takes_its_share():
    small = speeds("mini", 500, [run("T4", 2, 100.0)]).epoch("T4", 2)
    assert small.seconds == 50.0
    assert small.between_seconds == 1.5
    assert small.first_more_seconds == 20.0


def test_of_two_runs_of_one_size_the_faster_counts():
    known = speeds("mini", 1000, [run("T4", 2, 100.0), run("T4", 2, 90.0)])
    assert known.epoch("T4", 2).seconds == 90.0


def test_nothing_measured_is_unknown_and_says_why():
    known = speeds("mini", 1000, [])
    assert known.epoch("V100", 8) is None
    assert "no run of the network 'mini'" in known.why_unknown("V100")


def test_an_accelerator_without_peaks_is_unknown_and_says_why():
    known = paper(*ALL)
    assert known.epoch("A10(1/6)", 1) is None
    assert "nobody measured A10(1/6)" in known.why_unknown("A10(1/6)")
