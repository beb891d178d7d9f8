from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from cloudgan.reports.plot_frame import Axis
from cloudgan.reports.stacked_bars import Bar, StackedBars
from cloudgan.reports.table import Number

USD = Axis("cost (USD)")
PARTS = ("steady", "checkpoints", "egress")


def plot(*bars, parts=PARTS):
    return StackedBars("Where it went", USD, parts, bars)


def drawing(made):
    (text, *_) = re.findall(r'(?s)<svg class="broad".*?</svg>', made.html("p"))
    return ET.fromstring(text)  # noqa: S314  # our own


def segments(tree):
    return [part for part in tree.findall("rect") if "part" in part.get("class").split()]


def legend(made):
    return re.findall(r"<span>([^<]*)</span></li>", made.html("p"))


def test_parts_are_stacked_and_proportional():
    tree = drawing(plot(Bar("a", (3.0, 1.0, 2.0)), Bar("b", (0.0, 2.0, 1.0))))
    found = [(float(part.get("x")), float(part.get("width"))) for part in segments(tree)]
    unit = found[1][1]
    assert [width / unit for _, width in found] == pytest.approx([3, 1, 2, 2, 1], rel=1e-3)
    for (left, width), (right, _) in (found[:2], found[1:3], found[3:]):
        assert left + width == pytest.approx(right, abs=0.02)
    assert found[0][0] == found[3][0]  # both begin at zero


def test_a_part_shows_its_share_and_the_total():
    tree = drawing(plot(Bar("a", (3.0, 1.0, 0.0), "8 nodes")))
    (first, _) = (part.find("title").text for part in segments(tree))
    assert first == "a: steady\ncost (USD): 3\n75.0% of the bar\nwhole bar: 4\n8 nodes"


def test_an_unknown_part_has_no_length_and_makes_the_total_a_bound():
    made = plot(Bar("a", (3.0, None, 1.0)))
    said = [part.find("title").text for part in segments(drawing(made))]
    assert len(said) == 2
    assert "75.0% of the known parts" in said[0]
    assert "whole bar: at least 4 (unknown: checkpoints)" in said[0]
    row = made.data().rows[0]
    assert row == ("a", 3.0, None, 1.0, Number(None, "at least 4 (unknown: checkpoints)"))


def test_a_bar_of_unknown_parts_is_unknown_and_not_zero():
    made = plot(Bar("a", (None, None, None)))
    assert segments(drawing(made)) == []
    assert made.data().rows[0][-1] == Number(None, "unknown")


def test_a_bar_that_costs_nothing_costs_zero():
    assert plot(Bar("a", (0.0, 0.0, 0.0))).data().rows[0][-1] == Number(0.0, "0")


def test_the_legend_names_what_is_drawn_and_the_data_name_all():
    made = plot(Bar("a", (3.0, None, 0.0)), Bar("b", (1.0, None, 0.5)))
    assert legend(made) == ["steady", "egress"]
    assert made.data().columns == ("name", *PARTS, "total, cost (USD)")


def test_no_two_parts_look_the_same_though_there_are_more_than_colours():
    parts = tuple(f"part {n}" for n in range(18))
    tree = drawing(plot(Bar("a", (1.0,) * 18), parts=parts))
    stripes = {part.get("data-series"): part.get("d").count("M")
               for part in tree.findall("path") if part.get("class") == "stripe"}  # fmt: skip
    looks = {(part.get("fill"), stripes.get(part.get("data-series"), 0)) for part in segments(tree)}
    assert len(looks) == 18


def test_two_parts_may_have_one_name():
    tree = drawing(plot(Bar("a", (1.0, 3.0)), parts=("cluster", "cluster")))
    assert [part.find("title").text.splitlines()[1] for part in segments(tree)] == [
        "cost (USD): 1",
        "cost (USD): 3",
    ]


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_negative_and_infinite_parts_are_rejected(value):
    with pytest.raises(ValueError, match="negative or infinite"):
        plot(Bar("a", (value, 1.0, 1.0)))


def test_parts_must_be_as_many_and_the_axis_linear():
    with pytest.raises(ValueError, match="2 values, expected 3"):
        plot(Bar("a", (1.0, 2.0)))
    with pytest.raises(ValueError, match="linear axis"):
        StackedBars("t", Axis("USD", log=True), (), ())
