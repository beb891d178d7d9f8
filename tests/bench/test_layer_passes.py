from __future__ import annotations

import pytest

from bench.made_up import measured, step_result
from cloudgan.bench.layer_passes import counted_form, layer_passes


def test_each_convolution_has_three_passes_with_their_speed_and_intensity():
    found = layer_passes(step_result(layers=True))
    assert len(found) == 3 * 11
    assert [one.label for one in found[::3]] == [
        *(f"G{n}" for n in range(1, 8)),
        *("D1", "D2", "D3", "D4"),
    ]
    d1 = found[3 * 7]
    assert d1.gflop == pytest.approx(2 * 0.1872720 * 16)  # 51*51*25 cells, 180 taps, 16 channels
    assert [one.gflops * one.seconds for one in found[21:24]] == pytest.approx([d1.gflop] * 3)
    assert [one.seconds for one in found[21:24]] == [0.5, 1.0, 2.0]
    moved = 4 * (16 * 51 * 51 * 25 * (1 + 16) + 180 * 16 + 16)
    assert d1.flop_per_byte == pytest.approx(1e9 * d1.gflop / moved)


def test_layers_that_nobody_timed_are_no_points():
    assert layer_passes(step_result()) == ()


def test_what_is_counted_follows_what_was_timed():
    assert counted_form(measured("published", [1.0], formulation="published")) == "published"
    assert counted_form(measured("auto", [1.0])) == "phases"
