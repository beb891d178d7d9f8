from __future__ import annotations

import numpy as np
import pytest

from cloudgan.validation import kernel_distance
from cloudgan.validation.kernel_distance import kpd

RANDOM = np.random.default_rng(4)


def by_hand(x, y):
    """The definition, shower by shower."""
    d = x.shape[1]

    def k(a, b):
        return (a @ b / d + 1) ** 4

    def mean(rows, columns, skip):
        values = [
            k(a, b)
            for i, a in enumerate(rows)
            for j, b in enumerate(columns)
            if not (skip and i == j)
        ]
        return np.mean(values)

    return mean(x, x, True) + mean(y, y, True) - 2 * mean(x, y, False)


def test_it_is_the_definition():
    x, y = RANDOM.normal(size=(23, 3)), RANDOM.normal(0.4, 1, size=(31, 3))
    assert kpd(x, y, seed=0).value == pytest.approx(by_hand(x, y))


def test_two_samples_of_one_source_scatter_around_zero_by_the_error():
    found = [
        kpd(RANDOM.normal(size=(150, 3)), RANDOM.normal(size=(150, 3)), seed=0) for _ in range(60)
    ]
    values, errors = np.array(found).T
    assert abs(values.mean()) < 3 * values.std() / np.sqrt(60)
    assert np.median(errors) == pytest.approx(values.std(), rel=0.4)


def test_samples_that_differ_are_beyond_their_error():
    x, y = RANDOM.normal(0, 0.3, (300, 3)), RANDOM.normal(0.3, 0.3, (300, 3))
    value, error = kpd(x, y, seed=0)
    assert value > 4 * error > 0


def test_no_more_showers_are_looked_at_than_stated(monkeypatch):
    monkeypatch.setattr(kernel_distance, "MOST", 40)
    x = RANDOM.normal(size=(400, 2))
    looked_at = []
    monkeypatch.setattr(
        kernel_distance,
        "_sums",
        lambda a, b: looked_at.append((len(a), len(b))) or np.ones((10, 10)),
    )
    kpd(x, x + 1, seed=0)
    assert set(looked_at) == {(40, 40)}
