"""Charts: values that `drawing.py` draws with Matplotlib; each has its numbers as a table too.

This module is light: Matplotlib is imported when a page is written. For example::

    spot = PointSeries("spot", (Point(2.0, 31.5, "8 x A"), Point(9.0, 12.0, "2 x A")))
    Plot("Time and cost", Axis("time (h)", log=True), Axis("cost (USD)", log=True), (spot,))
    StackedBars("Line items", Axis("cost (USD)"), ("steady", "egress"), (Bar("8 x A", (30.0, None)),))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cloudgan.core.errors import number_text
from cloudgan.reports.table import UNKNOWN, Cell, Number, Table

COLOURS = ("#3d7dca", "#d9692a", "#2f9e77", "#b0559d", "#b58a14", "#6c7a89")
"""Colours of series: distinguishable by the colour-blind, readable on white and on black."""

INK = "#010203"
"""Colour that is replaced by the text colour of the page."""
GREY = "#8a8f98"
"""Colour of grids, bands and references."""


@dataclass(frozen=True)
class Axis:
    """An axis, its label with the unit. A logarithmic one excludes zero and negative values; ticks ascend."""

    label: str
    log: bool = False
    from_zero: bool = False
    ticks: tuple[float, ...] = ()

    def holds(self, value: float) -> bool:
        """Returns whether the axis can show the value."""
        return math.isfinite(value) and (value > 0 or not self.log)


@dataclass(frozen=True)
class Style:
    """Colour and mark by their number; `second` are hollow marks and dashed lines."""

    number: int
    second: bool = False


@dataclass(frozen=True)
class Point:
    """A point of a plot; label and detail, a value per line, are for the table, the text is beside the mark."""

    x: float
    y: float
    label: str
    detail: str = ""
    text: str = ""


@dataclass(frozen=True)
class PointSeries:
    """Points of one kind; without a style, mark and colour are those of the series' place."""

    label: str
    points: tuple[Point, ...]
    style: Style | None = None


@dataclass(frozen=True)
class Line:
    """A line and its band; x ascend, y is one for each, None is a gap, and so are the edges, or empty.

    Without a style it is that of the place among the series and lines of the plot.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    style: Style | None = None

    def __post_init__(self) -> None:
        edges = (self.low, self.high) if self.low or self.high else ()
        if any(len(values) != len(self.x) for values in (self.y, *edges)):
            raise ValueError(f"x, y, low and high of {self.label!r} differ in length")
        if list(self.x) != sorted(self.x):
            raise ValueError(f"x of {self.label!r} does not ascend")


@dataclass(frozen=True)
class Plot:
    """Points and lines on two axes; earlier points are drawn over later ones, all over the lines.

    The front are Pareto-optimal points (smaller is better on both axes), in any order, drawn as steps. Beyond
    `extrapolated_from` the region is shaded and lines are dashed. A band is for example a ``90 % band``.
    """

    title: str
    x: Axis
    y: Axis
    series: tuple[PointSeries, ...] = ()
    lines: tuple[Line, ...] = ()
    front: tuple[tuple[float, float], ...] = ()
    band_label: str = "band"
    extrapolated_from: float | None = None
    caption: str = ""

    def note(self) -> str:
        """Returns the caption, and how many points are outside the axes."""
        points = [point for one in self.series for point in one.points]
        missing = sum(not (self.x.holds(p.x) and self.y.holds(p.y)) for p in points)
        outside = f" {missing} outside these axes: see the data below." if missing else ""
        return (self.caption + outside).strip()

    def is_beyond(self, x: float) -> bool:
        """Returns whether nothing was measured at an x."""
        return self.extrapolated_from is not None and x > self.extrapolated_from

    def data(self) -> Table:
        """Returns a row per x if all are lines without bands, else a row per point."""
        banded = any(line.low for line in self.lines)
        if not self.series and not banded and len({line.x for line in self.lines}) == 1:
            columns = (self.lines[0].x, *(line.y for line in self.lines))
            heads = (self.x.label, *(line.label for line in self.lines))
            caption = f"{self.title}: {self.y.label}"
            return Table(heads, tuple(zip(*columns, strict=True)), caption, "r" * len(heads))
        written = any(point.text for one in self.series for point in one.points)
        rows: list[tuple[Cell, ...]] = [
            (
                *(one.label, _named(p.label, p.detail), float(p.x), float(p.y)),
                *(("", "") if banded else ()),
                *((p.text,) if written else ()),
            )
            for one in self.series
            for p in one.points
        ]
        for line in self.lines:
            edges = zip(line.low, line.high, strict=True) if line.low else [("", "")] * len(line.x)
            rows += [
                (
                    *(line.label, "extrapolated" if self.is_beyond(x) else "", x, y),
                    *(edge if banded else ()),
                    *(("",) if written else ()),
                )
                for x, y, edge in zip(line.x, line.y, edges, strict=True)
            ]
        heads = ("series", "name", self.x.label, self.y.label)
        heads += (f"{self.band_label}, low", f"{self.band_label}, high") if banded else ()
        heads += ("in the figure",) if written else ()
        align = "llrr" + "rr" * banded + "l" * written
        return Table(heads, tuple(rows), self.title, align, interactive=True)


@dataclass(frozen=True)
class Bar:
    """One bar: its name, a value per part, zero or more, None is unknown; and other values, one per line."""

    label: str
    values: tuple[float | None, ...]
    detail: str = ""

    def known(self) -> float:
        """Returns the sum of the known parts."""
        return sum(value for value in self.values if value is not None)


@dataclass(frozen=True)
class StackedBars:
    """Horizontal bars, from top to bottom, whose parts add up from zero, on a linear axis.

    The parts are in the order of the legend, which omits those that no bar shows.
    """

    title: str
    x: Axis
    parts: tuple[str, ...]
    bars: tuple[Bar, ...]
    caption: str = ""

    def __post_init__(self) -> None:
        if self.x.log:
            raise ValueError("stacked bars need a linear axis")
        for bar in self.bars:
            if len(bar.values) != len(self.parts):
                raise ValueError(
                    f"{bar.label!r} has {len(bar.values)} values, expected {len(self.parts)}"
                )
            if any(value is not None and not 0 <= value < math.inf for value in bar.values):
                raise ValueError(f"{bar.label!r} has a negative or infinite value")

    def data(self) -> Table:
        """Returns bars as rows, parts as columns, and the total."""
        rows = tuple(
            (
                _named(bar.label, bar.detail),
                *(None if value is None else float(value) for value in bar.values),
                # An incomplete sum cannot be sorted among complete ones.
                Number(None if None in bar.values else bar.known(), self.total_text(bar)),
            )
            for bar in self.bars
        )
        heads = ("name", *self.parts, f"total, {self.x.label}")
        return Table(heads, rows, self.title, "l" + "r" * (len(heads) - 1), interactive=True)

    def total_text(self, bar: Bar) -> str:
        """Returns the sum, or for example ``at least 3.1 (unknown: x, y)``."""
        parts = zip(self.parts, bar.values, strict=True)
        unknown = [part for part, value in parts if value is None]
        if unknown and len(unknown) == len(self.parts):
            return UNKNOWN
        known = number_text(float(bar.known()))
        return f"at least {known} (unknown: {', '.join(unknown)})" if unknown else known


@dataclass(frozen=True)
class HeatMap:
    """Positive values of pairs, a row for each name; darker is larger, on a logarithmic scale.

    The label of the values has the unit; the corner says what rows and columns are.
    """

    title: str
    label: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    corner: str = ""
    caption: str = ""

    def __post_init__(self) -> None:
        if len(self.values) != len(self.rows):
            raise ValueError(
                f"{self.title!r} has {len(self.values)} rows, expected {len(self.rows)}"
            )
        for name, row in zip(self.rows, self.values, strict=True):
            if len(row) != len(self.columns):
                raise ValueError(f"{name!r} has {len(row)} values, expected {len(self.columns)}")
            if not all(0 < value < math.inf for value in row):
                raise ValueError(f"{name!r} has a value that is not above zero and finite")

    def data(self) -> Table:
        """Returns the matrix."""
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (name, *map(float, row)) for name, row in zip(self.rows, self.values, strict=True)
        )
        return Table((self.corner, *self.columns), rows, f"{self.title}, {self.label}")


@dataclass(frozen=True)
class Figure:
    """A figure of another kind, drawn on Matplotlib axes; its numbers are in a table of the page."""

    title: str
    draw: Callable[[Any], None]
    caption: str = ""
    height_inches: float = 3.8


Chart = Plot | StackedBars | HeatMap | Figure


def _named(label: str, detail: str) -> str:
    return " · ".join((label, *detail.splitlines()))
