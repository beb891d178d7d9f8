from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from cloudgan.reports.plot_frame import Axis
from cloudgan.reports.scatter import BandLine, BandPlot, Point, PointSeries, Scatter

X, Y = Axis("time (h)", log=True), Axis("cost (USD)", log=True)
NASTY = "</script><script>alert('x')</script> & \"more\""


def plot(*points, front=(), **options):
    return Scatter("Time against cost", X, Y, (PointSeries("spot", points),), front, **options)


def drawings(html):
    """The wide drawing and the narrow one, as trees."""
    return [
        ET.fromstring(text)  # noqa: S314  # our own
        for text in re.findall(r'(?s)<svg class="(?:broad|slim)".*?</svg>', html)
    ]


def titles(drawing):
    return [found.text for found in drawing.iter("title")]


def test_each_point_has_name_and_values_with_units():
    html = plot(Point(2, 31.5, "8 x A", "us-east1\nspot")).html("p")
    message = "8 x A\ntime (h): 2\ncost (USD): 31.5\nus-east1\nspot"
    assert [titles(drawing) for drawing in drawings(html)] == [[message], [message]]


def test_faster_is_further_left_and_cheaper_is_lower():
    points = (Point(1, 100, "a"), Point(10, 10, "b"), Point(100, 1, "c"))
    for drawing in drawings(plot(*points).html("p")):
        marks = drawing.findall("path[@data-x]")
        xs, ys = ([float(mark.get(key)) for mark in marks] for key in ("data-x", "data-y"))
        assert xs == sorted(xs)
        assert ys == sorted(ys)  # pixels count from above
        assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)


def test_the_front_is_drawn_as_steps_and_marked_in_the_data():
    points = (Point(1, 9, "fast"), Point(4, 3, "cheap"), Point(4, 9, "neither"))
    made = plot(*points, front=((4, 3), (1, 9)))
    drawing = drawings(made.html("p"))[0]
    (front,) = (path for path in drawing.findall("path") if path.get("class") == "front")
    assert re.fullmatch(r"M[\d.]+ [\d.]+H[\d.]+V[\d.]+", front.get("d"))
    said = {title.splitlines()[0]: title for title in titles(drawing)}
    assert "on the Pareto front" in said["fast"]
    assert "on the Pareto front" in said["cheap"]
    assert "on the Pareto front" not in said["neither"]
    assert [row[-1] for row in made.data().rows] == [True, True, False]


def test_the_data_hold_every_number_as_it_is():
    table = plot(Point(1 / 3, 2.0, "a", "one\ntwo"), Point(0.0, 1.0, "free")).data()
    assert table.rows == (("a · one · two", 1 / 3, 2.0, "spot"), ("free", 0.0, 1.0, "spot"))
    assert table.interactive
    assert table.columns[1:3] == ("time (h)", "cost (USD)")


def test_a_point_outside_the_axes_is_counted_and_in_the_data():
    made = plot(Point(1, 1, "a"), Point(0, 1, "free"), caption="Said.")
    html = made.html("p")
    assert len(titles(drawings(html)[0])) == 1
    assert "Said. 1 outside these axes: see the data below." in html
    assert len(made.data().rows) == 2


def test_a_plot_without_points_is_still_a_plot():
    assert titles(drawings(plot().html("p"))[0]) == []


def test_text_is_escaped_wherever_it_goes():
    series = (PointSeries(NASTY, (Point(1, 1, NASTY, NASTY),)),)
    html = Scatter(NASTY, Axis(NASTY), Axis(NASTY), series, ((1, 1),), NASTY, NASTY).html("p")
    assert "<script" not in html
    assert titles(drawings(html)[0])[0].startswith(NASTY)


def test_a_drawing_is_named_and_described_by_the_words_around_it():
    html = plot(Point(1, 1, "a"), caption="Said.").html("p7")
    assert 'id="p7-title">Time against cost<' in html
    assert 'id="p7-caption">Said.<' in html
    for drawing in drawings(html):
        assert drawing.get("aria-labelledby") == "p7-title"
        assert drawing.get("aria-describedby") == "p7-caption"


N, S = Axis("devices", log=True, ticks=(2, 4, 8, 16)), Axis("time (s)", log=True)
LINE = BandLine("fit", (2, 4, 8, 16), (8, 4, 2, 1), (7, 3.5, 1.5, 0), (9, 4.5, 3, 4))
MEASURED = (PointSeries("measured", (Point(2, 8, "two", "run 1"), Point(4, 4, "four"))),)


def plot_bands(**options):
    return BandPlot("Scaling", N, S, MEASURED, (LINE,), "90 % band", **options)


def drawing(made):
    (text, *_) = re.findall(r'(?s)<svg class="broad".*?</svg>', made.html("p"))
    return ET.fromstring(text)  # noqa: S314  # our own


def of_class(tree, name):
    return [part for part in tree.iter() if name in (part.get("class") or "").split()]


def message(tree):
    return [title.text for title in tree.iter("title")]


def test_points_of_the_line_tell_their_band_and_measured_ones_themselves():
    said = message(drawing(plot_bands()))
    assert "fit\ndevices: 8\ntime (s): 2\n90 % band: 1.5 to 3" in said
    assert "two\ndevices: 2\ntime (s): 8\nrun 1" in said
    assert len(said) == 6


def test_beyond_what_was_measured_the_line_is_dashed_the_ground_shaded_and_points_say_so():
    tree = drawing(plot_bands(extrapolated_from=4))
    dashed = [line.get("stroke-dasharray") for line in of_class(tree, "line")]
    assert dashed == [None, "7 4"]
    assert len(of_class(tree, "beyond")) == 2
    far = [said for said in message(tree) if said.endswith("\nextrapolated")]
    assert [said.splitlines()[1] for said in far] == ["devices: 8", "devices: 16"]


def test_without_extrapolation_nothing_is_shaded():
    assert of_class(drawing(plot_bands()), "beyond") == []
    assert of_class(drawing(plot_bands(extrapolated_from=16)), "beyond") == []


def test_a_band_is_closed_and_its_edge_at_zero_ends_at_the_axis():
    tree = drawing(plot_bands())
    (band,) = of_class(tree, "band")
    places = re.findall(r"([\d.]+) ([\d.]+)", band.get("d"))
    assert len(places) == 8
    (edge,) = of_class(tree, "edge")
    bottom = re.search(r"V([\d.]+)", edge.get("d")).group(1)
    assert places[3][1] == bottom  # low edge of the last
    assert band.get("d").endswith("z")


def test_the_data_hold_points_and_line_with_both_edges():
    table = plot_bands(extrapolated_from=4).data()
    assert table.columns[-2:] == ("90 % band, low", "90 % band, high")
    assert table.rows[0] == ("measured", "two · run 1", 2.0, 8.0, "", "")
    assert table.rows[-1] == ("fit", "extrapolated", 16.0, 1.0, 0, 4)


def test_a_line_may_have_no_band():
    made = BandPlot("t", N, S, (), (BandLine("plain", (2, 4), (2, 1)),))
    assert of_class(drawing(made), "band") == []
    assert "plain, band" not in made.html("p")
    assert made.data().rows[0] == ("plain", "", 2.0, 2.0, "", "")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (((1, 2), (1,)), "differ in length"),
        (((1, 2), (1, 2), (1, 2), (1,)), "differ in length"),
        (((1, 2), (1, 2), (1, 2)), "differ in length"),
        (((2, 1), (1, 2)), "does not ascend"),
    ],
)
def test_lines_that_cannot_be_drawn_are_refused(values, said):
    with pytest.raises(ValueError, match=said):
        BandLine("x", *values)
