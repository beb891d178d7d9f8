from __future__ import annotations

import numpy as np
import pytest

from cloudgan.validation import covariances as module
from cloudgan.validation.covariances import covariances

RANDOM = np.random.default_rng(6)


def test_weighted_means_and_covariances_are_those_of_numpy(monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 64)  # several chunks, the last one short
    x = RANDOM.normal(1000.0, 1.0, (150, 4)) @ RANDOM.normal(size=(4, 4))
    weights = RANDOM.integers(0, 4, (3, 150)).astype(np.float32)
    found = covariances(x, weights)
    for row, weight in enumerate(weights):
        assert found.mean[row] == pytest.approx(np.average(x, axis=0, weights=weight))
        expected = np.cov(x, rowvar=False, aweights=weight, bias=True)
        assert found.covariance[row] == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_correlations_are_those_of_numpy_and_zero_for_a_constant():
    x = RANDOM.normal(size=(200, 3)) @ RANDOM.normal(size=(3, 3))
    found = covariances(x, np.ones((1, 200), np.float32)).correlation()[0]
    assert found == pytest.approx(np.corrcoef(x, rowvar=False))
    x[:, 1] = 7.0
    found = covariances(x, np.ones((1, 200), np.float32)).correlation()[0]
    assert found[1].tolist() == [0, 0, 0]


def test_what_a_line_leaves_is_its_residual_variance():
    x = RANDOM.normal(size=500)
    y = 3 * x + 1 + 0.2 * RANDOM.normal(size=500)
    found = covariances(np.stack([x, y], axis=1), np.ones((1, 500), np.float32))
    fit = np.polyfit(x, y, 1)
    assert found.residual_variance(1)[0, 0] == pytest.approx(np.var(y - np.polyval(fit, x)))


def test_a_condition_that_does_not_vary_explains_nothing():
    y = RANDOM.normal(size=300)
    found = covariances(np.stack([np.ones(300), y], axis=1), np.ones((1, 300), np.float32))
    assert found.residual_variance(1)[0, 0] == pytest.approx(y.var())
