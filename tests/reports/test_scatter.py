from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from cloudgan.reports.plots import Axis, Point, PointSeries, Scatter

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


def test_each_point_tells_its_name_and_its_numbers_with_units():
    html = plot(Point(2, 31.5, "8 x A", "us-east1\nspot")).html("p")
    told = "8 x A\ntime (h): 2\ncost (USD): 31.5\nus-east1\nspot"
    assert [titles(drawing) for drawing in drawings(html)] == [[told], [told]]


def test_faster_is_further_left_and_cheaper_is_lower():
    points = (Point(1, 100, "a"), Point(10, 10, "b"), Point(100, 1, "c"))
    for drawing in drawings(plot(*points).html("p")):
        marks = drawing.findall("path[@data-x]")
        xs, ys = ([float(mark.get(key)) for mark in marks] for key in ("data-x", "data-y"))
        assert xs == sorted(xs)
        assert ys == sorted(ys)  # pixels count from above
        assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)


def test_the_front_is_drawn_as_steps_and_told_at_its_points_and_in_the_data():
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


def test_a_point_without_a_place_on_the_axes_is_counted_and_stays_in_the_data():
    made = plot(Point(1, 1, "a"), Point(0, 1, "free"), caption="Said.")
    html = made.html("p")
    assert len(titles(drawings(html)[0])) == 1
    assert "Said. 1 without a place on these axes: see the data below." in html
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
