from __future__ import annotations

import re
from importlib import resources

import pytest

from cloudgan.reports.palette import COLOURS

CSS = resources.files("cloudgan.reports").joinpath("page.css").read_text(encoding="utf-8")
PAPERS = re.findall(r"--paper: (#[0-9a-f]{6})", CSS)


def light(colour):
    """Relative luminance: WCAG 2.2, https://www.w3.org/TR/WCAG22/#dfn-relative-luminance."""
    parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    linear = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return sum(v * weight for v, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("colour", COLOURS)
def test_each_colour_stands_out_from_light_and_dark_paper(colour, paper):
    """At least 3 to 1: WCAG 2.2, success criterion 1.4.11."""
    bright, dark = sorted((light(colour), light(paper)), reverse=True)
    assert (bright + 0.05) / (dark + 0.05) >= 3


def test_there_is_light_and_dark_paper():
    assert len(set(PAPERS)) == 2
