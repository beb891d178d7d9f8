"""T(accelerator, number, batch): measured sizes, curves, bounds, other batches, other accelerators."""

from itertools import pairwise

import pytest

from cloudgan.schema.presets import find_preset
from cloudgan.speed.measured import (
    PAPER_NETWORK,
    PAPER_SHOWERS,
    MeasuredThroughput,
    paper_measurements,
    paper_runs,
)
from cloudgan.speed.model import (
    build_throughput_model,
    convert_step,
    fastest_runs,
    fit_step_time,
    paper_step_time,
    work_of,
)

ALL = ("V100", "TPU-v2", "TPU-v3")
USUAL = {"V100": 96, "TPU-v2": 128, "TPU-v3": 128}


def run(accelerator, n, seconds, showers=1000, batch=10):
    name = f"a run on {n} x {accelerator}"
    return MeasuredThroughput(
        accelerator, n, showers, seconds, 3.0, 20.0, name, batch, showers / (batch * n)
    )


def mini(*runs, showers=1000, **how):
    return build_throughput_model("mini", showers, runs, **how)


def of_paper(runs):
    return build_throughput_model(PAPER_NETWORK, PAPER_SHOWERS, runs, drops_last=True)


def paper(*accelerators):
    return of_paper([one for one in paper_measurements() if one.accelerator in accelerators])


PAPER = paper(*ALL)


@pytest.mark.parametrize(
    ("accelerator", "n", "seconds"),
    [("V100", 2, 1784.42), ("V100", 64, 59.35), ("TPU-v3", 4, 416.29), ("TPU-v2", 16, 261.27)],
)
def test_a_measured_size_is_what_was_measured_with_the_spread_of_a_run(accelerator, n, seconds):
    found = PAPER.epoch(accelerator, n, USUAL[accelerator])
    assert found.seconds == pytest.approx(seconds)
    assert 0.88 * seconds < found.low_seconds < 0.985 * seconds
    assert 1.04 * seconds < found.high_seconds < 1.2 * seconds
    assert found.grade == "measured"


def test_at_most_holds_every_fed_run_of_the_paper():
    """The fastest repeat as the upper bound was exceeded by 8 of the 24, by up to 18.5 %."""
    for one in paper_measurements():
        found = PAPER.epoch(one.accelerator, one.accelerators, one.batch)
        assert found.low_seconds <= one.epoch_seconds <= found.high_seconds, one.name


def test_sizes_between_measurements_use_the_curve():
    found = PAPER.epoch("V100", 24, 96)
    assert found.grade == "modelled"
    assert 115 < found.low_seconds < found.seconds < found.high_seconds < 230
    assert "2, 4, 8, 16, 32, 64, 128 x V100, between measured sizes" in found.basis


def test_two_measured_sizes_bound_what_lies_between_and_below_them():
    four, between, sixteen, one = (PAPER.epoch("TPU-v3", n, 128) for n in (4, 8, 16, 1))
    assert (between.seconds, between.grade) == (None, "modelled")
    assert between.low_seconds == pytest.approx(four.low_seconds / 2)
    assert between.high_seconds == pytest.approx(sixteen.high_seconds / 30 * 61)
    # Sixteen chips were four times as fast as four: so are four over one.
    assert 0.95 * 4 * 416.29 < one.low_seconds < one.high_seconds <= 4 * 416.29 * 1.12
    known = mini(run("T4", 2, 100.0), run("T4", 4, 80.0))
    found, two = known.epoch("T4", 1, 10), known.epoch("T4", 2, 10)
    assert found.low_seconds == pytest.approx(125.0)
    assert found.high_seconds == pytest.approx(2 * two.high_seconds)


def test_one_run_gives_bounds_from_no_to_linear_speed_up():
    fewer, two, more = (mini(run("T4", 2, 100.0)).epoch("T4", n, 10) for n in (1, 2, 8))
    assert (more.low_seconds, more.high_seconds) == (two.low_seconds / 4, two.high_seconds)
    assert fewer.high_seconds == 2 * two.high_seconds
    assert two.low_seconds <= fewer.low_seconds < 200


@pytest.mark.parametrize("left_out", ALL)
def test_the_papers_other_runs_bound_each_accelerator_without_its_own(left_out):
    blind = paper(*(set(ALL) - {left_out}))
    for n in (4, 16):
        truth = PAPER.epoch(left_out, n, USUAL[left_out])
        found = blind.epoch(left_out, n, USUAL[left_out])
        assert (found.seconds, found.grade) == (None, "modelled")
        assert found.low_seconds <= truth.seconds <= found.high_seconds


@pytest.mark.parametrize(
    ("known", "accelerator", "base"),
    [(PAPER, "H100", "V100"), (PAPER, "TPU-v5e", "TPU-v3"), (paper("TPU-v3"), "H100", "TPU-v3")],
)
def test_a_gpu_is_compared_with_gpus_and_a_tpu_with_tpus(known, accelerator, base):
    assert f"times {base}" in known.epoch(accelerator, 4, 96).basis


def test_a_name_that_means_several_data_sheets_has_bounds_that_hold_for_each():
    small, large, either = (PAPER.epoch(name, 8, 96) for name in ("A100-40GB", "A100-80GB", "a100"))
    assert either.low_seconds == min(small.low_seconds, large.low_seconds)
    assert either.high_seconds == max(small.high_seconds, large.high_seconds)
    assert "A100-40GB or A100-80GB: " in either.basis


def test_what_does_not_shrink_with_numbers_is_not_promised_to_shrink_with_speed():
    flat = [run("V100", 8, (0.5 + 0.1 * b) * 1000 / (8 * b), batch=b) for b in (5, 10, 20)]
    measured, found = (mini(*flat).epoch(name, 8, 10) for name in ("V100", "H100"))
    assert found.high_seconds > 6
    assert found.low_seconds < measured.seconds / 5


@pytest.mark.parametrize(
    ("known", "batch", "seconds"),
    [
        (mini(run("T4", 2, 110.0), run("T4", 2, 100.0), showers=500), 10, (50.0, 1.5, 20.0)),
        (mini(run("T4", 2, 20.0, 100, 30), showers=100), 30, (20.0, 3.0, 20.0)),
        (mini(run("T4", 2, 20.0, 100, 30), showers=100, drops_last=True), 30, (12.0, 3.0, 20.0)),
    ],
    ids=["its share, of the fastest repeat", "the last batch is carried", "and dropped"],
)
def test_an_epoch_has_the_time_of_its_own_showers(known, batch, seconds):
    found = known.epoch("T4", 2, batch)
    times = (found.seconds, found.between_seconds, found.first_more_seconds)
    assert times == pytest.approx(seconds)


@pytest.mark.parametrize("batch", [32, 96])
@pytest.mark.parametrize("n", [1, 2, 24])
def test_a_short_epoch_takes_its_share_at_sizes_that_were_measured_and_at_others(n, batch):
    """What an epoch costs besides its steps was counted again for each 96 showers of a short one."""
    short = build_throughput_model(PAPER_NETWORK, PAPER_SHOWERS // 100, paper_measurements())
    found, whole = short.epoch("V100", n, batch), PAPER.epoch("V100", n, batch)
    share = (PAPER_SHOWERS // 100) / PAPER_SHOWERS
    for edge in ("low_seconds", "seconds", "high_seconds"):
        assert getattr(found, edge) == pytest.approx(share * getattr(whole, edge), rel=0.01)


@pytest.mark.parametrize(
    ("known", "accelerator", "why"),
    [
        (mini(), "V100", "no run of the network 'mini'"),
        (PAPER, "A10(1/6)", "A10(1/6) was not measured"),
    ],
)
def test_what_no_run_and_no_data_sheet_tells_is_unknown(known, accelerator, why):
    assert known.epoch(accelerator, 8, 10) is None
    assert why in known.why_unknown(accelerator)


def test_the_line_of_the_paper_is_within_its_error_of_each_run():
    line = paper_step_time()
    assert line[:2] == pytest.approx((0.306, 0.0269), abs=5e-4)
    assert line.error < 0.05
    runs = [run for run in paper_runs() if run.accelerators == 32 and run.options == "prefetch"]
    alone = [run for run in runs if run.nodes == run.workers == 4]
    assert {run.batch_per_replica for run in alone} == {16, 32, 48, 64, 80, 96}
    for one in alone:
        assert (
            abs(line.constant + line.per_shower * one.batch_per_replica - one.step_seconds) < 0.05
        )


def test_one_shower_per_gpu_is_no_faster_than_what_each_step_costs():
    """64 GPUs that share a global batch of 64 make 1952 steps in an epoch, not 20."""
    found = PAPER.epoch("V100", 64, 1)
    assert found.seconds > 650
    assert found.low_seconds > 9 * PAPER.epoch("V100", 64, 96).high_seconds
    assert found.grade == "modelled"
    assert "outside the measured batches" in found.basis


@pytest.mark.parametrize(
    "run", [one for one in fastest_runs(paper_measurements()) if one.accelerators == 32]
)
def test_each_measured_batch_is_predicted_from_another(run):
    same = (run.accelerators, run.batch)
    others = [one for one in paper_measurements() if (one.accelerators, one.batch) != same]
    found = of_paper(others).epoch("V100", 32, run.batch)
    assert found.seconds == pytest.approx(run.epoch_seconds, rel=0.08)
    assert found.low_seconds < found.seconds < found.high_seconds


def test_only_batches_within_the_measured_range_are_called_measured():
    grades = [PAPER.epoch("V100", 8, batch).grade for batch in (16, 64, 128)]
    assert grades == ["measured", "measured", "modelled"]


@pytest.mark.parametrize("batch", [16, 64, 128, 256])
def test_a_single_batch_is_bounded_by_no_and_by_the_largest_constant_part(batch):
    found = convert_step(1.0, 128, batch, None)
    assert found.low <= found.seconds <= found.high
    assert found.low == pytest.approx(min(batch / 128, found.low))
    assert batch != 128 or found == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("points", [[(1, 1.0), (2, 2.0)], [(1, 3.0), (2, 2.0), (3, 1.0)]])
def test_too_few_batches_or_a_falling_time_give_no_line(points):
    assert fit_step_time(points) is None


@pytest.mark.parametrize(
    ("preset", "products", "values"),
    [("paper", 1, 1), ("mini", 0.00205, 0.01493), ("fixed25", 0.2378, 0.2393)],
)
def test_the_work_of_a_network_is_its_products_and_values_over_those_of_the_paper(
    preset, products, values
):
    found = work_of(find_preset(preset))
    assert found.least == pytest.approx(products, rel=1e-2)
    assert found.most == pytest.approx(values, rel=1e-2)


def other(preset, accelerator, n=4, batch=96):
    work = work_of(find_preset(preset))
    built = build_throughput_model(
        preset, PAPER_SHOWERS, paper_measurements(), drops_last=True, work=work
    )
    return built.epoch(accelerator, n, batch)


def test_a_network_that_was_never_measured_has_bounds_from_the_paper_and_says_so():
    known = PAPER.epoch("V100", 4, 96)
    found = other("mini", "V100")
    assert found.grade == "modelled"
    assert found.seconds is None
    assert found.low_seconds == pytest.approx(0.00205 * known.low_seconds, rel=1e-2)
    constant = found.high_seconds / known.high_seconds
    assert 0.01493 < constant < 0.3, "what a step takes whatever its work is not less"
    assert found.basis.startswith("not measured: 0.0021 to 0.015 times the work of the paper's")
    assert "4 x V100" in found.basis


def test_more_work_and_a_slower_accelerator_never_take_less_time():
    by_work = [other(preset, "V100") for preset in ("smoke", "mini", "fixed25", "paper")]
    by_accelerator = [other("mini", name) for name in ("H100", "V100", "T4")]
    for found in (by_work, by_accelerator):
        for quick, slow in pairwise(found):
            assert quick.low_seconds <= slow.low_seconds
            assert quick.high_seconds <= slow.high_seconds


def test_the_work_of_the_paper_itself_changes_no_bound():
    for name in ("V100", "T4", "H100"):
        found, plain = other("paper", name), PAPER.epoch(name, 4, 96)
        assert found.low_seconds == pytest.approx(plain.low_seconds)
        assert name == "V100" or found.high_seconds == pytest.approx(plain.high_seconds)
