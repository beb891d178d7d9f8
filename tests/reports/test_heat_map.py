from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from cloudgan.reports.heat_map import HeatMap

NAMES = ("a", "b")


def made(values=((100.0, 1.0), (10.0, 100.0)), names=NAMES):
    return HeatMap("Links", "GB/s", names, names, values, corner="from, to")


def drawing(found):
    (text, *_) = re.findall(r'(?s)<svg class="broad".*?</svg>', found.html("p"))
    return ET.fromstring(text)  # noqa: S314  # our own


def test_larger_values_are_darker_on_a_logarithmic_scale():
    fills = [cell.get("fill") for cell in drawing(made()).findall("rect")]
    light, middle, dark = (int(fill[1:3], 16) for fill in (fills[1], fills[2], fills[0]))
    assert fills[0] == fills[3]
    assert middle == pytest.approx((light + dark) / 2, abs=1)
    assert light > dark


def test_a_cell_names_its_row_its_column_and_its_value():
    titles = [cell.find("title").text for cell in drawing(made()).findall("rect")]
    assert titles[1] == "from, to: a, b\nGB/s: 1"
    assert [text.text for text in drawing(made()).findall("text")][-1] == "100"


def test_equal_values_have_one_colour():
    fills = {cell.get("fill") for cell in drawing(made(((2.0, 2.0), (2.0, 2.0)))).findall("rect")}
    assert len(fills) == 1


def test_small_cells_have_no_text_but_a_title():
    names = tuple(map(str, range(30)))
    tree = drawing(made(((3.0,) * 30,) * 30, names))
    assert len(tree.findall("rect")) == 900
    assert len(tree.findall("text")) == 61


def test_the_data_are_the_matrix():
    table = made().data()
    assert table.columns == ("from, to", "a", "b")
    assert table.rows[1] == ("b", 10.0, 100.0)


@pytest.mark.parametrize("values", [((1.0, 2.0),), ((1.0,), (2.0,)), ((0.0, 1.0), (1.0, 1.0))])
def test_a_matrix_that_cannot_be_drawn_is_refused(values):
    with pytest.raises(ValueError, match=r"Links|'a'"):
        made(values)
