from __future__ import annotations

import pytest

from bench.made_up import step_result
from cloudgan.bench.roofline import draw_roofline
from cloudgan.core.errors import CloudganError
from cloudgan.reports.drawing import Drawing


def test_the_picture_has_each_pass_below_a_roof_and_says_its_units():
    result = step_result(layers=True)
    with Drawing() as drawing:
        draw_roofline(result, drawing)
        (axes,) = drawing.figure.axes
        picture = drawing.png()
    assert "FLOP per byte" in axes.get_xlabel()
    assert axes.get_ylabel() == "speed (GFLOP/s)"
    assert axes.get_xscale() == axes.get_yscale() == "log"
    slope, top, *points = axes.get_lines()
    assert list(top.get_ydata()) == [100.0, 100.0]
    assert slope.get_ydata()[1] / slope.get_xdata()[1] == 10.0  # GB/s: FLOP/s over FLOP/byte
    assert sum(len(line.get_xdata()) for line in points) == 33
    assert {text.get_text() for text in axes.texts} == {
        *(f"G{number}" for number in range(1, 8)),
        *(f"D{number}" for number in range(1, 5)),
    }
    assert picture.startswith(b"\x89PNG")


def test_without_timed_layers_there_is_no_picture():
    with Drawing() as drawing, pytest.raises(CloudganError, match="no layer was timed"):
        draw_roofline(step_result(), drawing)
