"""Charts: what is drawn on which place, and the numbers beside it."""

from __future__ import annotations

import re
from functools import partial
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest

from cloudgan.reports.charts import (
    COLOURS,
    Axis,
    Bar,
    Figure,
    HeatMap,
    Line,
    Plot,
    Point,
    PointSeries,
    StackedBars,
    Style,
)
from cloudgan.reports.drawing import BROAD, SLIM, Drawing, chart_svg, draw, tick_text
from cloudgan.reports.table import Number

HOURS, USD = Axis("time (h)", log=True), Axis("cost (USD)", log=True)


def plot(*points, **options):
    return Plot("Time against cost", HOURS, USD, (PointSeries("spot", points),), **options)


def lines(*found, y=None, **options):
    return Plot("Losses", Axis("epoch"), y or Axis("loss (1)"), lines=found, **options)


def svg(chart, width=BROAD):
    return chart_svg(chart, width)


def texts(chart, width=BROAD):
    return [text.text for text in ET.fromstring(svg(chart, width)).iter("text")]  # noqa: S314 (our own)


def axes_of(chart):
    with Drawing() as drawing:
        axes = drawing.axes()
        draw(chart, axes)
        drawing.figure.draw_without_rendering()
        return axes


def test_points_are_where_their_values_are_and_have_their_texts():
    made = plot(Point(1, 100, "a", text="7"), Point(100, 1, "b"))
    (drawn,) = axes_of(made).lines
    assert [*map(tuple, drawn.get_xydata())] == [(1, 100), (100, 1)]
    assert {"7", "time (h)", "cost (USD)"} <= set(texts(made))
    assert axes_of(made).get_xscale() == "log"


def test_the_data_hold_every_number_as_it_is_and_what_is_written_in_the_figure():
    table = plot(Point(1 / 3, 2.0, "a", "one\ntwo"), Point(0.0, 1.0, "free", text="1")).data()
    assert table.columns == ("series", "name", "time (h)", "cost (USD)", "in the figure")
    assert table.rows == (
        ("spot", "a · one · two", 1 / 3, 2.0, ""),
        ("spot", "free", 0.0, 1.0, "1"),
    )
    assert table.interactive


def test_a_point_outside_the_axes_is_counted_and_in_the_data():
    made = plot(Point(1, 1, "a"), Point(0, 1, "free"), caption="Said.")
    assert len(axes_of(made).lines[0].get_xydata()) == 1
    assert made.note() == "Said. 1 outside these axes: see the data below."
    assert len(made.data().rows) == 2


def test_the_front_is_a_line_of_steps_with_a_name():
    made = plot(Point(1, 9, "fast"), Point(4, 3, "cheap"), front=((4, 3), (1, 9)))
    front = axes_of(made).lines[-1]
    assert front.get_drawstyle() == "steps-post"
    assert [*map(tuple, front.get_xydata())] == [(1, 9), (4, 3)]
    assert "Pareto front" in texts(made)


def test_a_second_style_is_hollow_or_dashed_in_the_same_colour():
    series = (PointSeries("spot", (Point(1, 1, "a"),), Style(2, second=True)),)
    found = (Line("b", (1, 2), (1, 2), style=Style(2)),
             Line("c", (1, 2), (2, 1), style=Style(2, second=True)))  # fmt: skip
    marks, solid, dashed = axes_of(Plot("t", HOURS, USD, series, found)).lines
    assert {one.get_color() for one in (marks, solid, dashed)} == {COLOURS[2]}
    assert marks.get_fillstyle() == "none"
    assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")


SIZES = Axis("devices", log=True, ticks=(2, 4, 8, 16))
FIT = Line("fit", (2, 4, 8, 16), (8, 4, 2, 1), (7, 3.5, 1.5, 0), (9, 4.5, 3, 4))


def scaling(**options):
    measured = (PointSeries("measured", (Point(2, 8, "two", "run 1"), Point(4, 4, "four"))),)
    return Plot("Scaling", SIZES, USD, measured, (FIT,), band_label="90 % band", **options)


@pytest.mark.parametrize(
    ("start", "dashed", "shaded"), [(None, 0, 0), (16, 0, 0), (4, [(4, 4), (8, 2), (16, 1)], 1)]
)
def test_beyond_what_was_measured_the_line_is_dashed_and_the_ground_shaded(start, dashed, shaded):
    made = scaling(extrapolated_from=start)
    axes = axes_of(made)
    far = [one for one in axes.lines if one.get_linestyle() == "--"]
    assert [[*map(tuple, one.get_xydata())] for one in far] == ([dashed] if dashed else [])
    assert len(axes.patches) == shaded
    assert ("extrapolated" in texts(made)) == bool(shaded)


def test_the_data_hold_points_and_lines_with_both_edges():
    table = scaling(extrapolated_from=4).data()
    assert table.columns[-2:] == ("90 % band, low", "90 % band, high")
    assert table.rows[0] == ("measured", "two · run 1", 2.0, 8.0, "", "")
    assert table.rows[-1] == ("fit", "extrapolated", 16, 1, 0, 4)
    assert "fit, 90 % band" in texts(scaling())
    assert "plain" in texts(lines(Line("plain", (1, 2), (2, 1)), Line("b", (1, 2), (2, 1))))


def test_lines_alone_are_a_column_each_and_a_gap_is_no_zero():
    x = tuple(float(place) for place in range(20))
    gap = tuple(None if place in {4, 5} else place for place in x)
    made = lines(Line("one", x, gap), Line("two", x, x))
    assert made.data().columns == ("epoch", "one", "two")
    assert made.data().rows[4] == (4.0, None, 4.0)
    (drawn,) = [path for path in re.findall(r' d="([^"]*)"', svg(made)) if path.count("M") == 2]
    assert drawn


@pytest.mark.parametrize(
    ("x", "y", "has", "lacks"),
    [
        ((1, 2, 3, 4), (6, 7, 7, 8), {"1", "2", "6", "7"}, {"1.5", "6.5"}),
        ((1.0, 2.0), (0.25, 0.75), {"1", "2"}, {"1.5"}),
        ((123.0,), (0.25,), {"123"}, {"122", "124"}),
    ],
)
def test_whole_numbers_have_whole_ticks(x, y, has, lacks):
    said = set(texts(lines(Line("one", x, y))))
    assert has <= said
    assert not lacks & said


@pytest.mark.parametrize(
    ("values", "has"), [((4.0, 60.0), {"5", "10", "20", "50"}), ((0.01, 900.0), {"0.1", "10"})]
)
def test_a_logarithmic_axis_has_ordinary_numbers(values, has):
    said = texts(lines(Line("one", (1, 2), values), y=Axis("loss", log=True)))
    assert has <= set(said)
    assert not any("10" in text and "$" in text for text in said)


@pytest.mark.parametrize(
    "made",
    [
        lines(Line("one", (1, 2), (None, None)), y=Axis("y", from_zero=True)),
        lines(Line("one", (1, 2, 3), (0.0, 1.0, 10.0)), y=Axis("y", log=True)),
        plot(),
        StackedBars("t", Axis("USD"), (), ()),
    ],
)
def test_charts_without_values_or_with_zeros_are_drawn(made):
    assert svg(made).startswith("<svg")


def test_a_line_on_an_axis_from_zero_is_not_cut():
    axes = axes_of(lines(Line("one", (1, 2), (100.0, 101.0)), y=Axis("y", from_zero=True)))
    low, high = axes.get_ylim()
    assert low == 0
    assert high > 104


PARTS = ("steady", "checkpoints", "egress")


def bars(*found, parts=PARTS):
    return StackedBars("Where it went", Axis("cost (USD)"), parts, found)


def test_parts_are_stacked_from_zero_and_totals_are_written():
    made = bars(Bar("a", (3.0, 1.0, 2.0)), Bar("b", (0.0, 2.0, 1.0), "8 nodes"))
    found = [(one.get_y(), one.get_x(), one.get_width()) for one in axes_of(made).patches]
    first = [(left, width) for y, left, width in found if y < 0]
    second = [(left, width) for y, left, width in found if y > 0]
    assert first == [(0, 3), (3, 1), (4, 2)]
    assert second == [(0, 0), (0, 2), (2, 1)]
    assert {"a", "6", "b", "3", *PARTS} <= set(texts(made))
    assert made.data().rows[1] == ("b · 8 nodes", 0.0, 2.0, 1.0, Number(3.0, "3"))


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ((3.0, None, 1.0), Number(None, "at least 4 (unknown: checkpoints)")),
        ((None, None, None), Number(None, "unknown")),
        ((0.0, 0.0, 0.0), Number(0.0, "0")),
    ],
)
def test_an_unknown_part_makes_the_total_a_bound_and_is_not_zero(values, total):
    made = bars(Bar("a", values))
    assert made.data().rows[0][-1] == total
    assert total.text in texts(made)


def test_the_legend_names_what_is_drawn_and_the_data_name_all():
    made = bars(Bar("a", (3.0, None, 0.0)), Bar("b", (1.0, None, 0.5)))
    assert {"steady", "egress"} <= set(texts(made))
    assert "checkpoints" not in texts(made)
    assert made.data().columns == ("name", *PARTS, "total, cost (USD)")


def test_no_two_parts_look_the_same_though_there_are_more_than_colours():
    parts = tuple(f"part {n}" for n in range(18))
    drawn = axes_of(bars(Bar("a", (1.0,) * 18), parts=parts)).patches
    assert len({(one.get_facecolor(), one.get_hatch()) for one in drawn}) == 18


def links(values=((100.0, 1.0), (10.0, 100.0)), names=("a", "b")):
    return HeatMap("Links", "GB/s", names, names, values, corner="from, to")


def test_a_heat_map_is_logarithmic_with_its_values_in_it_if_they_fit_and_beside_it():
    (image,) = axes_of(links()).images
    shares = image.norm(image.get_array())
    assert [*shares.flat] == pytest.approx([1, 0, 0.5, 1])
    assert {"100", "1", "10", "a", "b", "from, to"} <= set(texts(links()))
    assert links().data().columns == ("from, to", "a", "b")
    assert links().data().rows[1] == ("b", 10.0, 100.0)
    names = tuple(map(str, range(100, 130)))
    assert "3" not in texts(links(((3.0,) * 30,) * 30, names))
    assert "3" in texts(links(((3.0, 3.0), (3.0, 3.0))))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (partial(Line, "x", (1, 2), (1,)), "differ in length"),
        (partial(Line, "x", (1, 2), (1, 2), (1, 2), (1,)), "differ in length"),
        (partial(Line, "x", (1, 2), (1, 2), (1, 2)), "differ in length"),
        (partial(Line, "x", (2, 1), (1, 2)), "does not ascend"),
        *[
            (partial(bars, Bar("a", (value, 1.0, 1.0))), "negative or infinite")
            for value in (-1.0, float("nan"), float("inf"))
        ],
        (partial(bars, Bar("a", (1.0, 2.0))), "2 values, expected 3"),
        (partial(StackedBars, "t", USD, (), ()), "linear axis"),
        (partial(links, ((1.0, 2.0),)), "Links"),
        (partial(links, ((1.0,), (2.0,))), "'a'"),
        (partial(links, ((0.0, 1.0), (1.0, 1.0))), "'a'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize("width", [BROAD, SLIM])
@pytest.mark.parametrize(
    "made", [scaling(), bars(Bar("a", (3.0, 1.0, 2.0))), links(), Figure("Free", lambda axes: axes.plot([1, 2]))]
)  # fmt: skip
def test_a_drawing_is_small_named_and_takes_its_ink_from_the_page(made, width):
    text = svg(made, width)
    assert text.startswith(f'<svg viewBox="0 0 {width * 72:.0f}'.rstrip("0").rstrip("."))
    assert f'role="img" aria-label="{made.title}"><title>{made.title}</title>' in text
    assert "currentColor" in text
    assert "#010203" not in text
    assert "#ffffff" not in text
    assert "<g id" not in text
    assert not re.search(r"^\s", text, re.MULTILINE)
    tags = re.sub(r'"data:image[^"]*"', "", "".join(re.findall(r"<[^>]*>", text)))
    assert not re.search(r"\d\.\d{3}", tags)
    used = set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text))
    assert used <= set(re.findall(r'\bid="([^"]+)"', text))
    assert text == svg(made, width), "the same chart is the same text"


def test_a_long_label_is_folded_dollars_are_dollars_and_a_first_underscore_is_in_the_legend():
    label = "$ per $ of the whole budget of this and the next year"
    said = texts(lines(Line("$5_000 to $6_000", (1, 2), (1, 2)), Line("_mine", (1, 2), (1, 2)),
                       y=Axis(label)), SLIM)  # fmt: skip
    folded = {"$ per $ of the whole budget of", "this and the next year"}
    assert {*folded, "$5_000 to $6_000"} <= set(said)
    assert "_mine" in "".join(said)


def test_drawing_leaves_the_settings_of_matplotlib_alone():
    before = dict(mpl.rcParams)
    svg(scaling())
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.02, "0.02"),
        (1500.0, "1,500"),
        (1e6, "10⁶"),
        (2e6, "2·10⁶"),
        (5e-5, "5·10⁻⁵"),
        (-2e6, "-2·10⁶"),
    ],
)
def test_numbers_of_an_axis_become_powers_where_digits_would_be_many(value, text):
    assert tick_text(value) == text
