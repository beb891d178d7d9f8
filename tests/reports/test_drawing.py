from __future__ import annotations

import re

from cloudgan.reports.drawing import Drawing


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
