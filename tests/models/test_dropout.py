"""Dropout with masks from outside."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.models.dropout import Dropout, KerasMasks

pytestmark = pytest.mark.tf


class Recorder:
    """Keeps every second value and notes what it was asked."""

    def __init__(self):
        self.asked = []

    def keep(self, shape, rate, stream):
        self.asked.append((shape, rate, stream))
        return np.arange(np.prod(shape)).reshape(shape) % 2 == 0


def test_survivors_are_scaled_and_the_rest_is_zero():
    masks = Recorder()
    values = Dropout(0.2, 3, masks)(np.ones((2, 4), np.float32), training=True)
    np.testing.assert_allclose(values, [[1.25, 0, 1.25, 0]] * 2)
    assert masks.asked == [((2, 4), 0.2, 3)]


@pytest.mark.parametrize(("rate", "training"), [(0.2, False), (0.0, True)])
def test_nothing_is_drawn_where_nothing_is_dropped(rate, training):
    masks = Recorder()
    values = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(Dropout(rate, 0, masks)(values, training=training), values)
    assert masks.asked == []


def test_masks_of_keras_keep_the_asked_share_and_change_from_call_to_call():
    masks = KerasMasks(1)
    first, second = (np.asarray(masks.keep((100, 100), 0.2, 0)) for _ in range(2))
    assert first.mean() == pytest.approx(0.8, abs=0.02)
    assert np.any(first != second)
