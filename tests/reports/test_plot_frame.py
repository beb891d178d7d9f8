from __future__ import annotations

import math
import re
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudgan.reports.plot_frame import COLOURS, Axis, fit, linear_ticks, log_ticks, thinned

SIZES = st.floats(1e-30, 1e30)
NUMBERS = st.one_of(st.just(0.0), SIZES, SIZES.map(lambda size: -size))


@given(st.lists(NUMBERS, min_size=1), st.integers(3, 12))
def test_a_linear_axis_holds_all_numbers_between_few_ticks_that_ascend(values, most):
    ticks = linear_ticks(min(values), max(values), most)
    assert len(ticks) <= most
    assert list(ticks) == sorted(set(ticks))
    room = 1e-6 * (ticks[-1] - ticks[0])
    assert ticks[0] - room <= min(values) <= max(values) <= ticks[-1] + room


@given(st.lists(SIZES, min_size=1))
def test_a_logarithmic_axis_holds_all_numbers_between_its_ticks(values):
    ticks = log_ticks(min(values), max(values))
    assert len(ticks) > 1
    assert list(ticks) == sorted(set(ticks))
    assert ticks[0] <= min(values) * (1 + 1e-6)
    assert max(values) <= ticks[-1] * (1 + 1e-6)


@given(st.lists(SIZES, min_size=1), st.integers(3, 12))
def test_not_more_numbers_are_written_than_there_is_room_for(values, most):
    ticks = log_ticks(min(values), max(values))
    kept = thinned(ticks, most)
    assert 1 <= len(kept) <= most
    assert set(kept) <= set(ticks)


def test_ticks_are_round():
    assert linear_ticks(0.0, 0.3, 5) == (0.0, 0.1, 0.2, 0.3)
    assert linear_ticks(-3, 7, 7) == (-4.0, -2.0, 0.0, 2.0, 4.0, 6.0, 8.0)
    assert log_ticks(3, 70) == (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
    assert linear_ticks(5, 5, 5)[0] < 5 < linear_ticks(5, 5, 5)[-1]
    assert log_ticks(10, 10) == (5.0, 10.0, 20.0)


def test_places_follow_the_numbers():
    linear = fit(Axis("x", from_zero=True), [2.0, 10.0], 100.0, 200.0, 6)
    assert (linear.place(0), linear.place(5), linear.place(10)) == (100, 150, 200)
    log = fit(Axis("x", log=True), [1.0, 100.0], 0.0, 200.0, 6)
    assert [log.place(v) for v in (1, 10, 100)] == pytest.approx([0, 100, 200])


def test_bars_of_zero_start_at_zero():
    scale = fit(Axis("x", from_zero=True), [0.0, 0.0], 0.0, 100.0, 5)
    assert scale.low == 0
    assert scale.high > 0


def test_given_ticks_are_labelled_and_wider_data_fit():
    scale = fit(Axis("n", log=True, ticks=(2, 4, 8)), [1.0, 16.0], 0.0, 100.0, 5)
    assert scale.ticks == (2, 4, 8)
    assert (scale.place(1), scale.place(16)) == pytest.approx((0, 100))


def test_an_axis_without_numbers_is_still_an_axis():
    for axis in (Axis("x"), Axis("x", log=True)):
        scale = fit(axis, [], 0.0, 100.0, 5)
        assert scale.low < scale.high


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_logarithmic_axis_has_no_place_for_zero_and_less(value):
    assert not Axis("x", log=True).holds(value)
    assert Axis("x").holds(value) == math.isfinite(value)


CSS = resources.files("cloudgan.reports").joinpath("page.css").read_text(encoding="utf-8")
PAPERS = re.findall(r"--paper: (#[0-9a-f]{6})", CSS)


def light(colour):
    """Relative luminance: WCAG 2.2, https://www.w3.org/TR/WCAG22/#dfn-relative-luminance."""
    parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    linear = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return sum(v * weight for v, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("colour", COLOURS)
def test_each_colour_has_contrast_on_light_and_dark_pages(colour, paper):
    """At least 3 to 1: WCAG 2.2, success criterion 1.4.11."""
    bright, dark = sorted((light(colour), light(paper)), reverse=True)
    assert (bright + 0.05) / (dark + 0.05) >= 3


def test_there_is_light_and_dark_paper():
    assert len(set(PAPERS)) == 2
