from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from cloudgan.reports.plots import Axis, BandLine, BandPlot, Point, PointSeries

N, S = Axis("devices", log=True, ticks=(2, 4, 8, 16)), Axis("time (s)", log=True)
LINE = BandLine("fit", (2, 4, 8, 16), (8, 4, 2, 1), (7, 3.5, 1.5, 0), (9, 4.5, 3, 4))
MEASURED = (PointSeries("measured", (Point(2, 8, "two", "run 1"), Point(4, 4, "four"))),)


def plot(**options):
    return BandPlot("Scaling", N, S, MEASURED, (LINE,), "90 % band", **options)


def drawing(made):
    (text, *_) = re.findall(r'(?s)<svg class="broad".*?</svg>', made.html("p"))
    return ET.fromstring(text)  # noqa: S314  # our own


def of_class(tree, name):
    return [part for part in tree.iter() if name in (part.get("class") or "").split()]


def told(tree):
    return [title.text for title in tree.iter("title")]


def test_points_of_the_line_tell_their_band_and_measured_ones_themselves():
    said = told(drawing(plot()))
    assert "fit\ndevices: 8\ntime (s): 2\n90 % band: 1.5 to 3" in said
    assert "two\ndevices: 2\ntime (s): 8\nrun 1" in said
    assert len(said) == 6


def test_beyond_what_was_measured_the_line_is_dashed_the_ground_shaded_and_points_say_so():
    tree = drawing(plot(extrapolated_from=4))
    dashed = [line.get("stroke-dasharray") for line in of_class(tree, "line")]
    assert dashed == [None, "7 4"]
    assert len(of_class(tree, "beyond")) == 2
    far = [said for said in told(tree) if said.endswith("\nextrapolated")]
    assert [said.splitlines()[1] for said in far] == ["devices: 8", "devices: 16"]


def test_where_all_was_measured_nothing_is_shaded():
    assert of_class(drawing(plot()), "beyond") == []
    assert of_class(drawing(plot(extrapolated_from=16)), "beyond") == []


def test_a_band_is_closed_and_its_edge_at_zero_ends_at_the_axis():
    tree = drawing(plot())
    (band,) = of_class(tree, "band")
    places = re.findall(r"([\d.]+) ([\d.]+)", band.get("d"))
    assert len(places) == 8
    (edge,) = of_class(tree, "edge")
    bottom = re.search(r"V([\d.]+)", edge.get("d")).group(1)
    assert places[3][1] == bottom  # low edge of the last
    assert band.get("d").endswith("z")


def test_the_data_hold_points_and_line_with_both_edges():
    table = plot(extrapolated_from=4).data()
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
