from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest

from cloudgan.reports.drawing import Chart, Drawing, bars, lines
from cloudgan.reports.plot_frame import COLOURS


def drawn() -> str:
    with Drawing() as drawing:
        (axes,) = drawing.axes()
        axes.plot([0.123456, 1.987654], [1.0, 2.0], marker="o")
        axes.set_xticks([0.123456], ["0.123456"])
        return drawing.svg("place", "A line")


def test_a_figure_is_no_longer_than_it_must_be():
    svg = drawn()
    tags = re.findall(r"<[^>]*>", svg)
    assert not [tag for tag in tags if re.search(r"\d\.\d{3}", tag)]
    assert "<g id" not in svg
    assert not re.search(r"^\s", svg, re.MULTILINE)


def test_what_is_written_in_a_figure_keeps_its_digits():
    assert ">0.123456</text>" in drawn()


def test_what_is_used_by_its_name_is_there_under_that_name():
    svg = drawn()
    used = set(re.findall(r'href="#([^"]+)"', svg)) | set(re.findall(r"url\(#([^)]+)\)", svg))
    assert used
    assert used <= set(re.findall(r'\bid="([^"]+)"', svg))


def texts(svg):
    return [element.text for element in ET.fromstring(svg).iter("text")]  # noqa: S314 (our own)


def test_a_chart_holds_its_labels_as_text():
    svg = lines(
        Chart("a", "Loss", "epoch", "loss (1)"), [1, 2, 3], {"one": [3, 2, 1], "two": [1, 1, 1]}
    )
    assert {"epoch", "loss (1)", "one", "two"} <= set(texts(svg))
    assert '<svg viewBox="0 0 648' in svg
    assert 'aria-label="Loss"' in svg


def test_ink_is_the_colour_of_the_page():
    svg = lines(Chart("a", "t"), [1, 2], {"one": [3, 2]})
    assert "currentColor" in svg
    assert "#010203" not in svg
    assert "#ffffff" not in svg


def test_a_gap_is_a_gap_and_not_a_zero():
    x = list(range(20))
    values = [None if place in {4, 5} else float(place) for place in x]
    svg = lines(Chart("a", "t"), x, {"one": values})
    gap = [path for path in re.findall(r' d="([^"]*)"', svg) if path.count("M") == 2]
    assert len(gap) == 1


def test_a_dashed_line_has_the_colour_of_its_solid_one_and_both_are_named():
    series = {"generator": [3.0, 2.5], "discriminator": [1.0, 0.5]}
    svg = lines(
        Chart("a", "t"), [1, 2], series, {"generator": [2.0, None]}, ("training", "held out")
    )
    assert {"generator", "discriminator", "training", "held out"} <= set(texts(svg))
    strokes = re.findall(r"stroke-dasharray: [^;]+;[^\"]*stroke: (#\w+)", svg)
    assert set(strokes) == {COLOURS[0]}


@pytest.mark.parametrize(
    ("x", "y", "has", "lacks"),
    [
        ([1, 2, 3, 4], [6, 7, 7, 8], {"1", "2", "6", "7"}, {"1.5", "6.5"}),
        ([1.0, 2.0], [0.25, 0.75], {"1", "2"}, {"1.5"}),
        ([123], [0.25], {"123"}, {"122", "124"}),
    ],
)
def test_whole_numbers_have_whole_ticks(x, y, has, lacks):
    said = set(texts(lines(Chart("a", "t"), x, {"one": y})))
    assert has <= said
    assert not lacks & said


@pytest.mark.parametrize(
    ("values", "has"), [([4.0, 60.0], {"5", "10", "20", "50"}), ([0.01, 900.0], {"0.1", "10"})]
)
def test_a_logarithmic_axis_has_ordinary_numbers(values, has):
    said = texts(lines(Chart("a", "t", log_y=True), [1, 2], {"one": values}))
    assert has <= set(said)
    assert not any("10" in text and "$" in text for text in said)


def test_no_value_at_all_and_a_line_at_the_top_of_an_axis_from_zero_are_drawn():
    chart = Chart("a", "t", from_zero=True)
    assert "<svg" in lines(chart, [1, 2], {"one": [None, None]})
    svg = lines(chart, [1, 2], {"one": [100.0, 101.0]})
    (markers,) = re.findall(r"<g clip-path[^>]*>\s*((?:<use [^>]*>\s*)+)", svg)
    highest = min(map(float, re.findall(r" y=\"([\d.]+)\"", markers)))
    (top,) = re.findall(r"<rect x=\"[\d.]+\" y=\"([\d.]+)\"", svg)
    assert highest > float(top) + 5, "a marker is not cut"


def test_values_of_zero_do_not_break_a_logarithmic_axis():
    svg = lines(Chart("a", "t", log_y=True), [1, 2, 3], {"one": [0.0, 1.0, 10.0]})
    assert ET.fromstring(svg).tag == "svg"  # noqa: S314


def test_bars_tell_their_value_and_what_is_unknown():
    svg = bars(Chart("a", "t", "USD"), ["x", "y"], {"spot": [1234.5, None]})
    assert "1,234" in texts(svg) or "1,235" in texts(svg)
    assert "unknown" in texts(svg)
    assert {"x", "y", "USD"} <= set(texts(svg))


def test_dollars_are_dollars():
    svg = bars(Chart("a", "t", "$ per $ of budget"), ["$5_000 to $6_000"], {"one": [1.0]})
    assert {"$ per $ of budget", "$5_000 to $6_000"} <= set(texts(svg))


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="'one' has 1 values, expected 2"):
        lines(Chart("a", "t"), [1, 2], {"one": [1]})
    with pytest.raises(ValueError, match="'one' has 1 values, expected 2"):
        bars(Chart("a", "t"), ["x", "y"], {"one": [1]})


def test_drawing_leaves_the_settings_of_matplotlib_alone():
    before = dict(mpl.rcParams)
    lines(Chart("a", "t"), [1, 2], {"one": [3, 2]})
    assert dict(mpl.rcParams) == before


def test_the_same_chart_is_the_same_text():
    chart = Chart("a", "t")
    assert lines(chart, [1, 2], {"one": [3, 2]}) == lines(chart, [1, 2], {"one": [3, 2]})
