"""The scaling model, its band, and the least-squares solvers."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares, nnls
from scipy.stats import t as student

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.cost.estimation.scaling import (
    fit_scaling,
    residuals,
    solve,
    solve_non_negative,
    solve_robustly,
    t_quantile,
)
from cloudgan.cost.estimation.timings import Timing
from cloudgan.cost.paper.runs import paper_runs

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


def test_the_timings_are_those_of_the_package():
    small = [
        Timing(run.accelerators, run.steady_epoch_seconds)
        for run in paper_runs()
        if run.accelerator == "V100"
        and (run.batch_per_replica, run.options) == (96, "prefetch")
        and run.accelerators <= 16
    ]
    assert sorted(small) == PAPER


def test_nodes_without_two_regimes_change_nothing():
    message = [timing._replace(nodes=2) for timing in PAPER]
    assert fit_scaling(message) == fit_scaling(PAPER)


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


def test_unconstrained_laws_keep_the_band_wide():
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


def test_measured_interpolated_and_extrapolated_sizes_are_distinguished():
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


def test_similar_sizes_with_different_times_are_rejected():
    with pytest.raises(DataError, match="no curve fits"):
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


def problems(count):
    """Relative fits of noisy curves, as `fit_scaling` makes them."""
    random = np.random.default_rng(7)
    for _ in range(count):
        m = random.integers(3, 8)
        n = np.sort(random.choice(np.arange(1, 200), m, replace=False)).astype(float)
        a, c, b = random.uniform(0, (1000, 20, 10)) * random.integers(0, 2, 3)
        y = (a / n + c + b * np.log2(n) + 1) * np.exp(random.normal(0, 0.1, m))
        yield np.array([1 / n, np.ones(m), np.log2(n)]).T / y[:, None]


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 30, 101])
@pytest.mark.parametrize("inside", [0.5, 0.9, 0.99])
def test_students_quantile_is_scipys(degrees, inside):
    assert t_quantile(degrees, inside) == pytest.approx(student.ppf((1 + inside) / 2, degrees))


def test_free_fit_and_leverage_are_numpys():
    for matrix in problems(20):
        columns, target = matrix[:, :2].T.tolist(), [1.0] * len(matrix)
        solved = solve(columns, target)
        expected, *_ = np.linalg.lstsq(matrix[:, :2], np.ones(len(matrix)), rcond=None)
        assert solved.coefficients == pytest.approx(expected, rel=1e-7, abs=1e-9)
        row = matrix[0, :2] * 3
        inverse = np.linalg.inv(matrix[:, :2].T @ matrix[:, :2])
        assert solved.leverage(row) == pytest.approx(row @ inverse @ row, rel=1e-6)


def test_columns_that_say_the_same_have_no_solution():
    assert solve([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]], [1.0, 1.0, 1.0]) is None


def test_non_negative_fit_is_scipys():
    for matrix in problems(50):
        found = solve_non_negative(matrix.T.tolist(), [1.0] * len(matrix))
        scale = np.linalg.norm(matrix, axis=0)
        expected, norm = nnls(matrix / scale, np.ones(len(matrix)))
        assert min(found) >= 0
        left = residuals(matrix.T.tolist(), [1.0] * len(matrix), found)
        assert math.hypot(*left) <= norm * (1 + 1e-9) + 1e-12
        assert np.array(found) * scale == pytest.approx(expected, abs=1e-6)


def test_robust_fit_has_no_more_loss_than_scipys():
    def loss(matrix, coefficients):
        z = ((matrix @ np.array(coefficients) - 1) / 0.01) ** 2
        return float(np.sum(np.sqrt(1 + z) - 1))

    for matrix in problems(20):
        found = solve_robustly(matrix.T.tolist(), [1.0] * len(matrix))
        scale = np.linalg.norm(matrix, axis=0)
        other = least_squares(
            lambda x, of: of @ x - 1,
            np.full(3, 0.1),
            bounds=(0, np.inf),
            loss="soft_l1",
            f_scale=0.01,
            xtol=1e-14,
            ftol=1e-14,
            gtol=1e-14,
            max_nfev=3000,
            args=(matrix / scale,),
        )
        assert min(found) >= 0
        assert loss(matrix, found) <= loss(matrix / scale, other.x) * (1 + 1e-6) + 1e-12


def test_one_run_that_went_astray_hardly_moves_the_robust_fit():
    sizes = np.array([1, 2, 4, 8, 16, 32], dtype=float)
    seconds = 1000 / sizes + 5
    seconds[2] *= 1.3
    columns = (np.array([1 / sizes, np.ones(6), np.log2(sizes)]) / seconds).tolist()
    assert solve_robustly(columns, [1.0] * 6)[0] == pytest.approx(1000, rel=0.01)
    assert solve_non_negative(columns, [1.0] * 6)[0] != pytest.approx(1000, rel=0.01)
