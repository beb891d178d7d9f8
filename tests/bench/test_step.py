"""`bench step`: its variants, and what it says of made-up measurements."""

from __future__ import annotations

import json

import pytest

from cloudgan.bench.harness import Measured
from cloudgan.bench.step import (
    draw_roofline,
    layer_passes,
    make_variant,
    parse_against,
    step_measurement,
)
from cloudgan.gan.convolutions import convolutions, step_macs
from cloudgan.reports.drawing import Drawing
from cloudgan.reports.page import render
from cloudgan.schema.presets import find_preset

PAPER = find_preset("paper")
LIMIT = 2e-9 * 16 * sum(step_macs(PAPER, "phases").values()) / 100
BUILT = {
    "conv_impl": "fast", "device": "CPU", "threads": 2, "replicas": 1, "global_batch": 16,
    "first_loss": 150.0, "precision": "float32", "environment": {},
}  # fmt: skip


def measured(name, seconds, **built):
    rows = [
        {
            "seconds_per_step": one,
            "cpu_seconds_per_step": 2 * one,
            "showers_per_second": 16 / one,
            "matmul_gflops": 100.0,
            "limit_seconds": LIMIT,
            "share_of_direct_limit": LIMIT / one,
        }
        for one in seconds
    ]
    return Measured(name, BUILT | built, rows)


def step_result(own=(5.0, 4.0), against=(12.0, 12.0), *, layers=False):
    """The arguments of `step_measurement`."""
    variants = [measured("auto", own)]
    if against:
        variants.append(measured("published", against, conv_impl="published"))
    seconds = {"forward": 0.5, "input_gradient": 1.0, "weight_gradient": 2.0}
    one = seconds | {"all_passes": 3.0, "matmul_gflops": 100.0}
    timed = Measured("layers", {"copy_gb_per_second": 10.0}, [one for _ in convolutions(PAPER)])
    return PAPER, variants, timed if layers else None


def as_json(result):
    return json.loads(json.dumps(step_measurement(*result).as_json(), allow_nan=False))


def lines(result):
    return "\n".join(step_measurement(*result).lines)


def test_the_ratio_is_of_neighbours_in_time_and_of_the_other_over_the_own():
    found = as_json(step_result(own=[5.0, 4.0, 10.0], against=[10.0, 12.0, 20.0]))
    assert [found["ratio"][key] for key in ("min", "median", "max")] == [2.0, 2.0, 3.0]
    assert found["cpu_ratio"]["max"] == 3.0
    alone = step_result(against=None)
    assert as_json(alone)["ratio"] is as_json(alone)["cpu_ratio"] is None
    assert "ratio" not in lines(alone)


def test_the_share_of_the_limit_has_a_spread():
    found = as_json(step_result(own=[10.0, 20.0]))
    assert found["limit"]["seconds_per_step"]["median"] == pytest.approx(LIMIT)
    own, published = found["variants"]
    assert own["share_of_direct_limit"]["max"] == pytest.approx(LIMIT / 10)
    assert own["share_of_direct_limit"]["min"] == pytest.approx(LIMIT / 20)
    assert published["limit_seconds"] == own["limit_seconds"]


TRAINING = {"batch_per_replica": 4, "precision": "float32", "replicas": None}


def against(text, conv_impl="auto"):
    return parse_against(text, make_variant(conv_impl, "smoke", TRAINING), "smoke", TRAINING)


def test_the_other_variant_has_the_settings_of_the_first_unless_given():
    found = against("published")
    assert found.name == found.config.training.conv_impl == "published"
    assert found.config.training.batch_per_replica == 4
    found = against("fast:precision=bfloat16,replicas=2,TF_ENABLE_ONEDNN_OPTS=0")
    assert found.config.training.precision == "bfloat16"
    assert found.config.training.replicas == 2
    assert found.environment == {"TF_ENABLE_ONEDNN_OPTS": "0"}
    assert found.name == "fast (precision=bfloat16, replicas=2, TF_ENABLE_ONEDNN_OPTS=0)"
    assert against("fast", conv_impl="fast").name == "fast, again"


def test_programs_find_ratio_share_and_limit_by_name():
    said = as_json(step_result(layers=True))
    assert round(said["limit"]["gflop_per_shower"], 1) == 55.9
    assert round(said["limit"]["published_gflop_per_shower"], 1) == 80.0
    assert [one["name"] for one in said["variants"]] == ["auto", "published"]
    assert said["variants"][0]["cpu_seconds_per_step"]["min"] == 8.0
    assert (said["rounds"], len(said["layers"])) == (2, 33)
    assert said["layers"][-1]["seconds_of_all_passes"] == 3.0


def test_people_read_the_ratio_the_limit_and_the_share_of_it():
    said = lines(step_result())
    assert "ratio published / auto (fast): 2.7 (2.4 to 3) of wall time" in said
    assert "limit of direct convolution: 55.93 GFLOP a shower (80.01 as published)" in said
    assert "auto (fast) reaches 201% (179% to 224%) of that limit, because it needs fewer" in said
    assert "limit, because" not in lines(step_result(own=(50.0,), against=(90.0,)))
    table, layers = step_measurement(*step_result(layers=True)).tables
    assert [row[0] for row in table.rows] == ["auto (fast)", "published"]
    assert len(layers.rows) == 33


def test_each_convolution_has_three_passes_with_their_speed_and_intensity():
    preset, (own, _), timed = step_result(layers=True)
    found = layer_passes(own, preset, timed)
    assert [one["label"] for one in found[::3]] == [
        *(f"G{n}" for n in range(1, 8)),
        *("D1", "D2", "D3", "D4"),
    ]
    d1 = found[3 * 7]
    assert d1["gflop"] == pytest.approx(2 * 0.1872720 * 16)  # 51*51*25 cells, 180 taps, 16 channels
    assert [one["seconds"] for one in found[21:24]] == [0.5, 1.0, 2.0]
    assert [one["gflops"] * one["seconds"] for one in found[21:24]] == pytest.approx(
        [d1["gflop"]] * 3
    )
    moved = 4 * (16 * 51 * 51 * 25 * (1 + 16) + 180 * 16 + 16)
    assert d1["flop_per_byte"] == pytest.approx(1e9 * d1["gflop"] / moved)
    published = measured("published", [1.0], conv_impl="published")
    assert layer_passes(published, preset, timed)[0]["gflop"] > 10 * found[0]["gflop"]


def test_the_page_has_the_roofline_where_layers_were_timed_and_the_picture_each_pass_below_a_roof():
    result = step_result(layers=True)
    assert "roofline" in render(step_measurement(*result).page())
    assert "<svg" not in render(step_measurement(*step_result()).page())
    with Drawing() as drawing:
        draw_roofline(drawing, result[1][0], PAPER, result[2])
        (axes,) = drawing.figure.axes
    assert "FLOP per byte" in axes.get_xlabel()
    assert axes.get_ylabel() == "speed (GFLOP/s)"
    slope, top, *points = axes.get_lines()
    assert list(top.get_ydata()) == [100.0, 100.0]
    assert slope.get_ydata()[1] / slope.get_xdata()[1] == 10.0  # GB/s: FLOP/s over FLOP/byte
    assert sum(len(line.get_xdata()) for line in points) == 33
