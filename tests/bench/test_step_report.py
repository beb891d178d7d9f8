"""Reports of `bench step`: layers, roofline, tables."""

from __future__ import annotations

import json

import pytest

from bench.made_up import measured, step_result
from cloudgan.bench.arithmetic import PASSES
from cloudgan.bench.step_report import (
    counted_form,
    draw_roofline,
    layer_passes,
    layer_table,
    step_json,
    step_lines,
    step_page,
    step_table,
)
from cloudgan.core.errors import CloudganError
from cloudgan.reports.drawing import Drawing
from cloudgan.reports.page import render


def test_programs_find_ratio_share_and_limit_by_name():
    said = json.loads(json.dumps(step_json(step_result(layers=True)), allow_nan=False))
    assert {"median", "min", "max"} <= said["ratio"].keys()
    assert said["ratio"]["max"] == 3.0
    assert said["share_of_direct_limit"]["median"] > 1
    assert round(said["limit"]["gflop_per_shower"], 1) == 55.9
    assert round(said["limit"]["published_gflop_per_shower"], 1) == 80.0
    assert [one["name"] for one in said["variants"]] == ["auto", "published"]
    assert said["variants"][0]["cpu_seconds_per_step"]["min"] == 8.0
    assert said["rounds"] == 2
    assert len(said["layers"]) == 33
    assert {one["pass"] for one in said["layers"]} == {*PASSES}
    assert said["layers"][-1]["seconds_of_all_passes"] == 3.0


def test_one_variant_alone_has_no_ratio():
    said = step_json(step_result(against=None))
    assert said["ratio"] is said["cpu_ratio"] is None
    assert "ratio" not in " ".join(step_lines(step_result(against=None)))


def test_people_read_the_ratio_the_limit_and_the_share_of_it():
    said = "\n".join(step_lines(step_result()))
    assert "ratio published / auto (fast): 2.7 (2.4 to 3) of wall time" in said
    assert "limit of direct convolution: 55.93 GFLOP a shower (80.01 as published)" in said
    assert "auto (fast) reaches 201% (179% to 224%) of that limit, because it needs fewer" in said


def test_a_form_within_the_limit_is_not_called_past_it():
    said = "\n".join(step_lines(step_result(own=(50.0,), against=(90.0,))))
    assert "auto (fast) reaches 18% (18% to 18%) of that limit" in said
    assert "past" not in said


def test_tables_have_a_row_for_each_variant_and_each_pass():
    assert [row[0] for row in step_table(step_result()).rows] == ["auto (fast)", "published"]
    assert len(layer_table(step_result(layers=True)).rows) == 33


def test_the_page_holds_the_roofline_only_where_layers_were_timed():
    assert "roofline" in render(step_page(step_result(layers=True)))
    assert "<svg" not in render(step_page(step_result()))


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


def test_layers_without_times_are_no_points():
    assert layer_passes(step_result()) == ()


def test_what_is_counted_follows_what_was_timed():
    assert counted_form(measured("published", [1.0], conv_impl="published")) == "published"
    assert counted_form(measured("auto", [1.0])) == "phases"


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
