from __future__ import annotations

import json

from bench.made_up import step_result
from cloudgan.bench.arithmetic import PASSES
from cloudgan.bench.step_report import (
    layer_table,
    step_json,
    step_lines,
    step_page,
    step_table,
)
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
    assert "auto (fast) reaches 201% (179% to 224%) of that limit: past it" in said


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
