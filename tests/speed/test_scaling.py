"""The scaling model: its steps, intervals, slow runs, input limit and lack of fit; timings of a file."""

import math
import random
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.speed.measured import PAPER_BATCH, PAPER_SHOWERS, paper_runs
from cloudgan.speed.scaling import (
    EpochSteps,
    Timing,
    fit_scaling,
    read_timings,
    repeat_distribution,
)

SLOW_MACHINES = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
EPOCH = EpochSteps(PAPER_SHOWERS, PAPER_BATCH)


def v100(options):
    """The paper's runs with batch 96 and one worker per node of its usual layout."""
    return [
        Timing(run.accelerators, run.steady_epoch_seconds, None, run.steps_per_epoch)
        for run in paper_runs()
        if (run.accelerator, run.batch_per_replica, run.options) == ("V100", 96, options)
        and (run.accelerators != 32 or run.nodes == run.workers == 4)
    ]


PAPER = sorted(one for one in v100("prefetch") if one.n <= 16)


def per_step(a=2.7, growth=0.0, fixed=0.0, epoch=EPOCH):
    """The form of the model itself, for one accelerator as the smallest size."""
    return lambda n: a * (epoch.at(n) * (1 + growth * math.log2(n)) + fixed)


def runs(law, sizes, noise=None, epoch=EPOCH):
    return [
        Timing(n, law(n) * (math.exp(noise()) if noise else 1.0), None, epoch.at(n)) for n in sizes
    ]


@pytest.mark.parametrize(("n", "measured"), [(32, 115.02), (64, 59.35), (128, 34.90), (128, 33.22)])
def test_the_papers_small_runs_foretell_its_large_ones(n, measured):
    found = fit_scaling(PAPER).predict(n)
    assert found.seconds == pytest.approx(measured, rel=0.08)
    assert found.low_seconds <= measured <= found.high_seconds
    assert found.extrapolation == f"extrapolated {n // 16}x"


def larger_runs(timings, *, steps=True):
    """Each larger run, predicted from each three or more consecutive sizes."""
    sizes = sorted({one.n for one in timings})
    for first in range(len(sizes)):
        for last in range(first + 2, len(sizes) - 1):
            kept = [one for one in timings if sizes[first] <= one.n <= sizes[last]]
            model = fit_scaling(kept if steps else [one._replace(steps=None) for one in kept])
            for one in timings:
                if one.n > sizes[last]:
                    yield one, model.predict(one.n, one.steps if steps else None)


def consecutive(timings, *, steps=True):
    """Whether the interval holds each larger run, and its width over the time."""
    for one, found in larger_runs(timings, steps=steps):
        low, high = found.low_seconds, found.high_seconds
        yield low <= one.seconds <= high, (high - low) / one.seconds


@pytest.mark.parametrize(
    ("timings", "steps", "width"),
    [
        (v100("prefetch"), True, 0.24),
        (v100("prefetch"), False, 0.28),
        # Below 32 GPUs, runs without prefetching do not wait: repeats of the same sizes.
        (v100("prefetch") + [one for one in v100("no-prefetch") if one.n <= 16], True, 0.24),
    ],
    ids=["with steps", "without steps", "with repeats"],
)
def test_every_consecutive_part_of_the_papers_runs_covers_the_larger_ones(timings, steps, width):
    found = list(consecutive(timings, steps=steps))
    assert len(found) in (30, 31)
    assert sum(inside for inside, _ in found) >= 0.88 * len(found)
    assert sum(wide for _, wide in found) / len(found) <= width


LAWS = {
    "growth by a tree, as in the model": lambda a, x: per_step(a, 0.03 * x, 4 * x),
    "no step: A/n + C + B log2 n": lambda a, x: (
        lambda n: a * 1302 * (1 / n + 0.003 * x + 0.0008 * x * math.log2(n))
    ),
    "ring and latency": lambda a, x: (
        lambda n: a * EPOCH.at(n) * (1 + 0.08 * x * (n - 1) / n + 0.0006 * x * n) + 2 * a * x
    ),
    "slower across hosts": lambda a, x: (
        lambda n: a * EPOCH.at(n) * (1 + 0.01 * math.log2(n) + 0.08 * x * (n > 4)) + 2 * a * x
    ),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_the_interval_holds_nine_of_ten_further_runs(law):
    source = random.Random(5)
    inside = []
    for _ in range(12):
        noise, true = source.uniform(0.003, 0.02), law(source.uniform(1, 4), source.random())
        sizes = source.choice([(2, 4, 8), (2, 4, 8, 16), (8, 16, 32), (4, 8, 16)])
        timings = runs(true, sizes, lambda noise=noise: source.gauss(0, noise))
        n = sizes[-1] * source.choice((2, 4))
        found = fit_scaling(timings).predict(n)
        for _ in range(5):
            again = true(n) * math.exp(source.gauss(0, noise))
            inside.append(found.low_seconds <= again <= found.high_seconds)
    assert sum(inside) >= 0.88 * len(inside)


@pytest.mark.parametrize("law", [per_step(), per_step(2, 0.02, 3), per_step(1, 0, 40)])
def test_without_noise_the_curve_is_found(law):
    model = fit_scaling(runs(law, (1, 2, 4, 8, 16)))
    for n in (1, 3, 16):
        assert model.predict(n).seconds == pytest.approx(law(n), rel=0.01)
    assert model.predict(64).seconds == pytest.approx(law(64), rel=0.07)


def test_equal_runs_may_name_their_nodes_and_a_size_is_predicted_once():
    """Offers ask for a size hundreds of times."""
    model = fit_scaling([*PAPER, PAPER[0]._replace(nodes=2)])
    assert model.regimes[0].sizes[0].runs == 2
    assert model.predict(32) is model.predict(32, 40)


def test_a_run_on_more_accelerators_is_less_certain():
    model = fit_scaling(PAPER)
    widths = [one.high_seconds / one.low_seconds for one in map(model.predict, (16, 32, 64, 128))]
    assert widths == sorted(widths)


def test_steps_of_other_sizes_agree_with_those_of_the_runs():
    assert [fit_scaling(PAPER).steps(n) for n in (32, 64, 128)] == [40, 20, 10]
    given = fit_scaling([one._replace(steps=None) for one in PAPER], EPOCH)
    assert [given.steps(n) for n in (32, 64, 128)] == [40, 20, 10]
    for model in (given, fit_scaling(PAPER)):
        with pytest.raises(ConfigError, match="do not fill one step of 2000 accelerators"):
            model.predict(2000)


def test_a_dropped_last_batch_is_no_speed_up():
    dropped = EpochSteps(10_000, 96)  # 13 steps on 8 accelerators, 6 on 16
    model = fit_scaling(runs(per_step(epoch=dropped), (1, 2, 4, 8), epoch=dropped))
    assert model.predict(16).seconds == pytest.approx(model.predict(8).seconds * 6 / 13, rel=0.02)


@pytest.mark.parametrize(
    ("steps", "said"),
    [((650, 325, None, None), "in 2 of 4 runs"), ((650, 650, 650, 650), "from 1300 to 10400")],
)
def test_steps_that_are_incomplete_or_of_other_batches_are_refused(steps, said):
    timings = [one._replace(steps=count) for one, count in zip(PAPER, steps, strict=True)]
    with pytest.raises(DataError, match=said):
        fit_scaling(timings).predict(32)


def test_runs_of_epochs_of_other_length_share_one_fit():
    half = [one._replace(seconds=one.seconds * 81 / 162, steps=81) for one in PAPER if one.n == 8]
    model = fit_scaling([one for one in PAPER if one.n != 8] + half)
    assert model.predict(32, 40).seconds == pytest.approx(115.02, rel=0.03)


def test_slow_runs_widen_the_second_interval_upwards_and_not_the_first():
    alone = fit_scaling(PAPER).predict(64)
    repeated = fit_scaling([*PAPER, PAPER[2]._replace(seconds=456.62 * 1.25)]).predict(64)
    assert repeated.healthy_high_seconds == alone.healthy_high_seconds
    assert repeated.high_seconds > 1.03 * alone.high_seconds
    assert repeated.low_seconds == pytest.approx(alone.low_seconds, rel=0.01)
    assert alone.high_seconds > alone.healthy_high_seconds


def test_points_that_the_model_does_not_describe_are_named_and_widen_the_interval():
    model = fit_scaling([Timing(2, 100), Timing(4, 150), Timing(8, 300)])
    assert 8 in [one.n for one in model.regimes[0].misfits]
    found = model.predict(16)
    assert found.high_seconds > 5 * found.low_seconds
    assert fit_scaling(PAPER).regimes[0].misfits == ()


def test_a_feed_measured_once_predicts_the_papers_runs_without_prefetching():
    waiting = {one.n: one for one in v100("no-prefetch") if one.n >= 32}
    small = [one for one in v100("no-prefetch") if one.n <= 16]
    feed = EPOCH.batch * 64 * waiting[64].steps / waiting[64].seconds
    blind, fed = fit_scaling(small, EPOCH), fit_scaling(small, EPOCH, feed)
    errors = {
        n: [model.predict(n).seconds / one.seconds - 1 for model in (blind, fed)]
        for n, one in waiting.items()
    }
    assert errors[32] == [pytest.approx(-0.24, abs=0.02), pytest.approx(-0.06, abs=0.01)]
    assert errors[64] == [pytest.approx(-0.58, abs=0.02), pytest.approx(0.0, abs=0.01)]
    assert errors[128] == [pytest.approx(-0.76, abs=0.02), pytest.approx(0.07, abs=0.01)]
    for n, one in waiting.items():
        found = fed.predict(n)
        assert found.waits_for_input
        assert found.low_seconds <= one.seconds <= found.high_seconds
    assert not fed.predict(16).waits_for_input


def test_runs_that_wait_for_their_input_are_not_fitted():
    timings = v100("no-prefetch")
    model = fit_scaling(timings, EPOCH, feed=845)
    assert [size.n for size in model.regimes[0].waiting] == [32, 64, 128]
    assert [size.n for size in model.regimes[0].sizes] == [2, 4, 8, 16]
    with pytest.raises(DataError, match="wait for input"):
        fit_scaling(timings, EPOCH, feed=100)


def test_no_accelerators_are_not_predicted_and_an_input_rate_needs_the_showers_of_an_epoch():
    with pytest.raises(ConfigError, match="0 accelerators"):
        fit_scaling(PAPER).predict(0)
    with pytest.raises(ConfigError, match="showers of an epoch"):
        fit_scaling(PAPER, feed=845)


def test_hosts_and_what_joins_them_have_curves_of_their_own():
    inside, outside = per_step(1), per_step(1.1, 0.03)
    timings = [one._replace(nodes=1) for one in runs(inside, (1, 2, 4, 8))]
    timings += [one._replace(nodes=one.n // 8) for one in runs(outside, (16, 32, 64))]
    model = fit_scaling(timings)
    assert [regime.name for regime in model.regimes] == ["within one host", "across hosts"]
    assert model.host_size == 8
    assert model.predict(6).seconds == pytest.approx(inside(6), rel=0.01)
    assert model.predict(128).seconds == pytest.approx(outside(128), rel=0.03)
    assert model.predict(128).extrapolation == "extrapolated 2x"


def test_two_sizes_across_hosts_part_no_regime():
    timings = [Timing(n, 800 / n + 1, 1) for n in (1, 2, 4, 8)]
    timings += [Timing(n, 800 / n + 1, 2) for n in (9, 16)]
    assert [regime.name for regime in fit_scaling(timings).regimes] == ["all sizes"]


def test_measured_interpolated_and_extrapolated_sizes_are_distinguished():
    model = fit_scaling(PAPER)
    said = [model.predict(n).extrapolation for n in (1, 2, 6, 16, 24)]
    assert said == [
        "extrapolated 2x downwards",
        "measured size",
        "between measured sizes",
        "measured size",
        "extrapolated 1.5x",
    ]


def test_work_that_does_not_shrink_is_found():
    law = lambda n: 100 / n + 50
    model = fit_scaling([Timing(n, law(n)) for n in (1, 2, 4, 8)])
    assert model.predict(32).seconds == pytest.approx(law(32), rel=0.03)


@pytest.mark.parametrize("timings", [[], PAPER[:2], [*PAPER[:2], *PAPER[:2]]])
def test_two_sizes_are_too_few_however_often(timings):
    with pytest.raises(DataError, match=r"at least 3 different n; found [02]"):
        fit_scaling(timings)


timings = st.lists(
    st.tuples(st.integers(1, 5000), st.floats(1e-6, 1e9)).map(lambda one: Timing(*one)),
    min_size=3,
    max_size=9,
).filter(lambda many: len({one.n for one in many}) >= 3)


@given(timings, st.integers(1, 10**9), st.randoms())
@settings(SLOW_MACHINES, max_examples=15)
def test_no_time_is_negative_the_intervals_hold_the_point_and_the_order_has_no_effect(
    many, n, source
):
    found = fit_scaling(many).predict(n)
    assert 0 <= found.low_seconds <= found.seconds <= found.high_seconds < math.inf
    assert found.healthy_low_seconds <= found.seconds <= found.healthy_high_seconds
    assert fit_scaling(source.sample(many, len(many))).predict(n) == found


@cache
def paper_model():
    return fit_scaling(PAPER)


@given(st.floats(1e-3, 1e3), st.integers(1, 1000))
@settings(SLOW_MACHINES, max_examples=10)
def test_in_another_unit_of_time_the_prediction_is_the_same(factor, n):
    one = paper_model().predict(n)
    found = fit_scaling([one._replace(seconds=one.seconds * factor) for one in PAPER]).predict(n)
    assert found.seconds == pytest.approx(one.seconds * factor, rel=1e-4)
    assert found.low_seconds == pytest.approx(one.low_seconds * factor, rel=1e-4)
    assert found.high_seconds == pytest.approx(one.high_seconds * factor, rel=1e-4)


def test_the_interval_without_slow_runs_holds_as_many_of_the_papers_runs_as_stated():
    timings = v100("prefetch")
    fastest = {one.n: min(each.seconds for each in timings if each.n == one.n) for one in timings}
    inside = []
    for run, found in larger_runs(timings):
        held = found.healthy_low_seconds <= run.seconds <= found.healthy_high_seconds
        inside.append((held, run.seconds <= 1.04 * fastest[run.n]))
    assert (sum(held for held, _ in inside), len(inside)) == (19, 30)
    assert (sum(held for held, healthy in inside if healthy), sum(h for _, h in inside)) == (16, 20)


@pytest.mark.parametrize("k", [2, 4, 6])
def test_an_interval_of_k_repeats_holds_the_others_at_its_stated_rate(k):
    """Runs with the stated noise, of which one in ten is slow throughout."""
    draw, held, trials = random.Random(k), 0, 120
    for _ in range(trials):
        *known, other = (
            100 * math.exp(draw.gauss(0, 0.012))
            * (1.04 + draw.expovariate(1 / 0.12) if draw.random() < 0.1 else 1)
            for _ in range(k + 1)
        )  # fmt: skip
        found = repeat_distribution(known)
        held += found.quantile(0.05) <= other <= found.quantile(0.95)
    assert held / trials > 0.9 - 4 * math.sqrt(0.9 * 0.1 / trials)


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "runs.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_timings(path)

    return read


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "\ufeffseconds, N ,cloud\r\n10.5,2,azure\r\n\r\n5.5,4.0,azure\r\n",
            [(2, 10.5), (4, 5.5)],
        ),
        ("n,seconds,nodes\n8,10,1\n16,6,\n", [(8, 10.0, 1), (16, 6.0)]),
        ("n,seconds,steps\n8,10,162\n16,6,\n", [(8, 10.0, None, 162), (16, 6.0)]),
    ],
    ids=["any order and case", "nodes in single rows", "steps in single rows"],
)
def test_timings_of_a_file_may_have_any_order_and_lack_nodes_and_steps(read, text, expected):
    assert read(text) == tuple(Timing(*one) for one in expected)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *(
            (f"n,seconds\n2,10\n4,{bad}\n", r"runs\.csv:3: seconds is .*a finite number")
            for bad in ("0", "-3", "nan", "inf", "", "1e999", "fast")
        ),
        *(
            (f"n,seconds\n{bad},10\n", r"runs\.csv:2: n is .*integer")
            for bad in ("2.5", "0", "-4", "nan", "", "two", "inf")
        ),
        ("n,seconds,steps\n8,10,1.5\n", r"runs\.csv:2: steps is '1\.5'; expected an integer"),
        ("n,seconds,nodes\n2,10,4\n", r":2: n is 2 on 4 nodes"),
        ("n,second\n2,10\n", r"no column 'seconds'.*Did you mean 'second'"),
        ("", r"is empty.*n,seconds"),
        ("\n\n", r"is empty.*n,seconds"),
        ("n,n,seconds\n1,2,3\n", r"duplicate column 'n'"),
        ("n,seconds\n2,10\n4,5,6\n", r":3: has 3 cells, expected 2"),
        (b"n,seconds\n\xff\xfe,1\n", r"line 2: not UTF-8 text"),
        ('n,seconds\n2,"10\n', r"runs\.csv:\d: not CSV"),
    ],
)
def test_a_file_of_timings_is_refused_with_the_line(read, text, said):
    with pytest.raises(DataError, match=said):
        read(text)


@pytest.mark.parametrize(
    ("name", "said"), [("missing.csv", "cannot be read"), (".", "is a folder")]
)
def test_what_is_no_file_of_timings_is_refused(tmp_path, name, said):
    with pytest.raises(DataError, match=said):
        read_timings(tmp_path / name)
