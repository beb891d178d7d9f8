"""The small least squares agree with SciPy's, which they spare people to install."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import least_squares, nnls
from scipy.stats import t as student

from cloudgan.cost.scaling_solve import (
    residuals,
    solve,
    solve_non_negative,
    solve_robustly,
    t_quantile,
)


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
