"""Times on more accelerators than were measured, and how far to believe them."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.cost.paper import paper_runs
from cloudgan.cost.scaling import fit_scaling
from cloudgan.cost.timings import Timing

SLOW_MACHINES = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
PAPER = [Timing(2, 1784.42), Timing(4, 900.49), Timing(8, 456.62), Timing(16, 229.66)]
SLOWER_CLOUD = [Timing(4, 980.0), Timing(8, 520.0), Timing(16, 290.0), Timing(32, 175.0)]


def curve(a, c, b):
    return lambda n: a / n + c + b * math.log2(n)


def runs(law, sizes, noise=None):
    return [Timing(n, law(n) * (math.exp(noise()) if noise else 1.0)) for n in sizes]


@pytest.mark.parametrize(("n", "measured"), [(32, 115.02), (64, 59.35), (128, 34.90), (128, 33.22)])
def test_the_papers_small_runs_foretell_its_large_ones(n, measured):
    found = fit_scaling(PAPER).predict(n)
    assert found.seconds == pytest.approx(measured, rel=0.07)
    assert found.low_seconds <= measured <= found.high_seconds
    assert found.extrapolation == f"extrapolated {n // 16}x"


def test_those_are_the_runs_that_stand_in_the_package():
    small = [
        Timing(run.accelerators, run.steady_epoch_seconds)
        for run in paper_runs()
        if run.accelerator == "V100"
        and (run.batch_per_replica, run.options) == (96, "prefetch")
        and run.accelerators <= 16
    ]
    assert sorted(small) == PAPER


def test_nodes_that_part_no_regime_change_nothing():
    told = [timing._replace(nodes=2) for timing in PAPER]
    assert fit_scaling(told) == fit_scaling(PAPER)


@pytest.mark.parametrize(
    "law", [curve(900, 0, 0), curve(900, 6, 0), curve(0, 7, 3), curve(9, 1, 2)]
)
def test_without_noise_the_curve_is_found(law):
    scaling = fit_scaling(runs(law, (1, 2, 4, 8, 16)))
    for n in (1, 3, 16, 64, 512):
        assert scaling.predict(n).seconds == pytest.approx(law(n), rel=1e-6)


# Of every 100 further runs 90 should fall inside the band; this many did (200 simulated each).
@pytest.mark.parametrize(
    ("law", "sizes", "noise"),
    [
        (curve(1000, 0, 0), (1, 2, 4, 8), 0.01),
        (curve(1000, 5, 0), (2, 4, 8, 16), 0.01),
        (curve(1000, 0, 20), (1, 2, 4, 8, 16, 32), 0.03),
        (curve(1000, 30, 10), (2, 4, 8), 0.03),
        (curve(1000, 5, 2), (8, 16, 32, 64, 128), 0.02),
    ],
)
@pytest.mark.parametrize("factor", [2, 8])
def test_the_band_holds_nine_of_ten_further_runs(law, sizes, noise, factor):
    source = random.Random(1)
    target = sizes[-1] * factor
    inside = 0
    for _ in range(200):
        found = fit_scaling(runs(law, sizes, lambda: source.gauss(0, noise))).predict(target)
        seen = law(target) * math.exp(source.gauss(0, noise))
        inside += found.low_seconds <= seen <= found.high_seconds
    assert inside >= 0.88 * 200


def test_a_free_sign_is_what_keeps_the_band_wide_where_nothing_limits_yet():
    source = random.Random(2)
    law = curve(1000, 0, 0)
    found = fit_scaling(runs(law, (1, 2, 4, 8), lambda: source.gauss(0, 0.01))).predict(64)
    assert found.low_seconds < 0.9 * law(64)
    assert found.high_seconds > 1.1 * law(64)


def test_of_repeats_the_fastest_is_fitted_and_the_slow_mode_widens_the_band():
    alone, repeated = fit_scaling(PAPER), fit_scaling([*PAPER, Timing(8, 456.62 * 1.25)])
    for n in (8, 64):
        one, two = alone.predict(n), repeated.predict(n)
        assert two.seconds == one.seconds
        assert two.low_seconds == one.low_seconds
        assert two.high_seconds == pytest.approx(1.25 * one.high_seconds)


def test_a_band_is_never_narrower_than_runs_repeat():
    found = fit_scaling(runs(curve(900, 0, 0), (1, 2, 4, 8, 16))).predict(8)
    assert found.high_seconds - found.low_seconds > 2 * 0.005 * found.seconds


def test_hosts_and_what_joins_them_have_curves_of_their_own():
    inside, outside = curve(800, 1, 0), curve(800, 1, 6)
    timings = [timing._replace(nodes=1) for timing in runs(inside, (1, 2, 4, 8))]
    timings += [Timing(n, outside(n), n // 8) for n in (16, 32, 64)]
    scaling = fit_scaling(timings)
    assert [regime.name for regime in scaling.regimes] == ["within one host", "across hosts"]
    assert scaling.host_size == 8
    assert scaling.predict(6).seconds == pytest.approx(inside(6), rel=1e-6)
    assert scaling.predict(128).seconds == pytest.approx(outside(128), rel=1e-6)
    assert scaling.predict(128).extrapolation == "extrapolated 2x"


def test_two_sizes_across_hosts_part_no_regime():
    timings = [Timing(n, 800 / n + 1, 1) for n in (1, 2, 4, 8)]
    timings += [Timing(n, 800 / n + 1, 2) for n in (9, 16)]
    assert [regime.name for regime in fit_scaling(timings).regimes] == ["all sizes"]
    without = [timing._replace(nodes=None) for timing in timings]
    assert fit_scaling(timings) == fit_scaling(without)


def test_what_is_measured_between_and_beyond_is_told_apart():
    scaling = fit_scaling(PAPER)
    said = [scaling.predict(n).extrapolation for n in (1, 2, 6, 16, 24)]
    assert said == [
        "extrapolated 2x downwards",
        "measured size",
        "between measured sizes",
        "measured size",
        "extrapolated 1.5x",
    ]


@pytest.mark.parametrize("timings", [[], PAPER[:2], [*PAPER[:2], *PAPER[:2]]])
def test_two_sizes_are_too_few_however_often(timings):
    with pytest.raises(DataError, match=r"at least 3 different n; found [02]"):
        fit_scaling(timings)


def test_sizes_that_hardly_differ_and_times_that_do_are_refused():
    with pytest.raises(DataError, match="follow no curve"):
        fit_scaling([Timing(10**9 - one, 1e-6**one) for one in range(3)])


def test_no_accelerators_are_not_predicted():
    with pytest.raises(ConfigError, match="0 accelerators"):
        fit_scaling(PAPER).predict(0)


timings = st.lists(
    st.builds(Timing, st.integers(1, 5000), st.floats(1e-2, 1e4)), min_size=3, max_size=9
).filter(lambda many: len({one.n for one in many}) >= 3)


@given(timings, st.integers(1, 100_000))
@settings(SLOW_MACHINES, max_examples=60)
def test_no_time_is_negative_and_the_band_holds_the_point(many, n):
    found = fit_scaling(many).predict(n)
    assert 0 <= found.low_seconds <= found.seconds <= found.high_seconds < math.inf


@given(st.sampled_from([PAPER, SLOWER_CLOUD]), st.floats(1e-6, 1e6), st.integers(1, 1000))
@settings(SLOW_MACHINES, max_examples=40)
def test_in_another_unit_of_time_the_prediction_is_the_same(many, factor, n):
    one = fit_scaling(many).predict(n)
    other = fit_scaling([timing._replace(seconds=timing.seconds * factor) for timing in many])
    found = other.predict(n)
    assert found.seconds == pytest.approx(one.seconds * factor, rel=1e-6)
    assert found.low_seconds == pytest.approx(one.low_seconds * factor, rel=1e-6, abs=1e-9 * factor)
    assert found.high_seconds == pytest.approx(one.high_seconds * factor, rel=1e-6)


@given(timings, st.randoms())
@settings(SLOW_MACHINES, max_examples=30)
def test_the_order_of_the_lines_does_not_matter(many, source):
    shuffled = list(many)
    source.shuffle(shuffled)
    assert fit_scaling(many).predict(77) == fit_scaling(shuffled).predict(77)
