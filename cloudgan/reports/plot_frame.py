"""What all plots share: axes with round ticks, colours, frame, legend, and points with tooltips.

A plot is static SVG, readable without script, drawn twice: for wide and for narrow screens; the style
of the page shows one. A point or bar segment has the class ``point`` and a ``<title>``: the browser's
tooltip and the name for screen readers, which the script of the page shows instead. All elements of a
series, and its legend entry, have its number in ``data-series``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from cloudgan.reports.table import Table, number_text, table_html

_ROUND = (1, 2, 5)
_POWERS_FROM = 1e6
_POWERS_BELOW = 1e-4
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_TOLERANCE = 1e-9
_ENOUGH = 3


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes:
        label: With unit.
        log: Logarithmic; excludes zero and negative values.
        from_zero: A linear axis starts at zero.
        ticks: Ascending; default: round numbers.
    """

    label: str
    log: bool = False
    from_zero: bool = False
    ticks: tuple[float, ...] = ()

    def holds(self, value: float) -> bool:
        """Returns whether the axis can show the value."""
        return math.isfinite(value) and (value > 0 or not self.log)


@dataclass(frozen=True)
class Scale:
    """Maps values to pixels.

    Attributes:
        axis: Axis of the scale.
        ticks: Labelled values, ascending.
        low: Value at `start`.
        high: Value at `end`.
        start: Position of `low` in pixels of the drawing.
        end: Position of `high`.
    """

    axis: Axis
    ticks: tuple[float, ...]
    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Returns the position of a value in pixels, outside the ends for values outside."""
        low, high = self.low, self.high
        if self.axis.log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def fit(axis: Axis, values: Iterable[float], start: float, end: float, most: int) -> Scale:
    """Returns a scale from tick to tick that contains all `values`.

    Args:
        axis: Axis.
        values: Values that the axis cannot show are ignored.
        start: Position of the low end in pixels.
        end: Position of the high end.
        most: Maximum number of labelled ticks.
    """
    held = [value for value in values if axis.holds(value)] or [1.0]
    written = tuple(tick for tick in axis.ticks if axis.holds(tick))
    if len(written) > 1:
        low, high = min(*held, written[0]), max(*held, written[-1])
        kept = written[:: math.ceil(len(written) / most)]
        return Scale(axis, kept, low, high, start, end)
    if axis.log:
        edges = log_ticks(min(held), max(held))
        return Scale(axis, thinned(edges, most), edges[0], edges[-1], start, end)
    low, high = min(held), max(held)
    if axis.from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
        high = high if high > low else 1.0  # all values are zero: no negative tick
    ticks = linear_ticks(low, high, most)
    return Scale(axis, ticks, ticks[0], ticks[-1], start, end)


def linear_ticks(low: float, high: float, most: int) -> tuple[float, ...]:
    """Returns at most `most` (3 or more) multiples of 1, 2 or 5 times a power of ten."""
    if high - low <= abs(high) * _TOLERANCE:
        half = abs(high) / 2 or 1.0
        low, high = low - half, high + half
    power = math.floor(math.log10((high - low) / most)) - 1
    while True:
        for factor in _ROUND:
            step = factor * 10.0**power
            first = math.floor(low / step + _TOLERANCE)
            last = math.ceil(high / step - _TOLERANCE)
            if last - first < most:
                return tuple(_round(n * factor, power) for n in range(first, last + 1))
        power += 1


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Returns 1, 2 and 5 times powers of ten that enclose `low` and `high`."""
    first, last = math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1
    ticks = [_round(factor, power) for power in range(first, last + 1) for factor in _ROUND]
    begin = max(n for n, tick in enumerate(ticks) if tick <= low * (1 + _TOLERANCE))
    end = min(n for n, tick in enumerate(ticks) if tick >= high * (1 - _TOLERANCE))
    if begin == end:  # one number only
        begin, end = begin - 1, end + 1
    return tuple(ticks[max(begin, 0) : end + 1])


def thinned(ticks: tuple[float, ...], most: int) -> tuple[float, ...]:
    """Returns at most `most` of 1-2-5 ticks: powers of ten if there are three, or each n-th."""
    powers = tuple(t for t in ticks if math.isclose(math.log10(t), round(math.log10(t))))
    kept = powers if len(ticks) > most and len(powers) >= _ENOUGH else ticks
    return kept[:: math.ceil(len(kept) / most)]


def _round(factor: int, power: int) -> float:
    """Avoids the rounding error of ``3 * 0.1``."""
    return float(f"{factor}e{power}")


_MARKS = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "M-4-4h8v8h-8z",
    "M0-5.2L5 4H-5z",
    "M0-5.6L5.6 0L0 5.6L-5.6 0z",
)
_DASHES = ("", "7 4", "2 3")
_EM = 7.4
"""Mean width of a character of 13 pixels, in pixels."""
LEFT_OUT = "{} outside these axes: see the data below."


@dataclass(frozen=True)
class Sheet:
    """One of the two sizes of a plot.

    Attributes:
        name: CSS class.
        width: In pixels of the drawing.
        height: Of a plot with two axes.
        most_x_ticks: Maximum number of x ticks.
    """

    name: str
    width: int
    height: int
    most_x_ticks: int


SHEETS = (Sheet("broad", 880, 430, 9), Sheet("slim", 400, 380, 5))


@dataclass(frozen=True)
class Entry:
    """A legend entry: number and name of a series, and a swatch (SVG of 24 x 12)."""

    series: int
    label: str
    swatch: str


@dataclass(frozen=True)
class Frame:
    """Two axes on a sheet."""

    sheet: Sheet
    x: Scale
    y: Scale

    def svg(self) -> str:
        """Returns grid, axes, ticks and labels, hidden from screen readers: points have titles."""
        left, right, top, bottom = self.x.start, self.x.end, self.y.end, self.y.start
        drawn = [
            f'<path class="grid" d="M{left:.1f} {self.y.place(tick):.1f}H{right:.1f}"/>'
            f'<text x="{left - 8:.1f}" y="{self.y.place(tick) + 4.5:.1f}" text-anchor="end">'
            f"{tick_text(tick)}</text>"
            for tick in self.y.ticks
        ]
        drawn += [
            f'<path class="grid" d="M{self.x.place(tick):.1f} {top:.1f}V{bottom:.1f}"/>'
            f'<text x="{self.x.place(tick):.1f}" y="{bottom + 20:.1f}" text-anchor="middle">'
            f"{tick_text(tick)}</text>"
            for tick in self.x.ticks
        ]
        middle, below = (left + right) / 2, bottom + 42
        return (
            f'<g aria-hidden="true">{"".join(drawn)}'
            f'<path class="edge" d="M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}"/>'
            f'<text class="label" x="0" y="14">{escape(self.y.axis.label)}</text>'
            f'<text class="label" x="{middle:.1f}" y="{below:.1f}" text-anchor="middle">'
            f"{escape(self.x.axis.label)}</text></g>"
        )


def frame(sheet: Sheet, x: Axis, y: Axis, xs: Iterable[float], ys: Iterable[float]) -> Frame:
    """Fits two axes to a sheet, with room for the tick labels."""
    tall = fit(y, ys, sheet.height - 50.0, 30.0, 10 if y.log else 7)
    left = 12 + _EM * max(len(tick_text(tick)) for tick in tall.ticks)
    return Frame(sheet, fit(x, xs, left, sheet.width - 24.0, sheet.most_x_ticks), tall)


def colour(series: int) -> str:
    """Returns the colour of a series."""
    return COLOURS[series % len(COLOURS)]


@dataclass(frozen=True)
class Style:
    """Colour and shape of the marks of a series, and whether they are hollow."""

    number: int
    hollow: bool = False


def mark(
    series: int,
    x: float,
    y: float,
    inside: str = "",
    classes: str = "point",
    *,
    style: Style | None = None,
) -> str:
    """Returns a mark in shape and colour of its series; `inside` is its title element, or ""."""
    role = ' role="img"' if inside else ""
    style = style or Style(series)
    shade = colour(style.number)
    fill = (
        f'style="fill:var(--paper);stroke:{shade};stroke-width:2"'
        if style.hollow
        else f'fill="{shade}"'
    )
    return (
        f'<path class="{classes}"{role} data-series="{series}" data-x="{x:.1f}" data-y="{y:.1f}"'
        f' d="{_MARKS[style.number % len(_MARKS)]}" transform="translate({x:.1f} {y:.1f})"'
        f" {fill}>{inside}</path>"
    )


def line(series: int, places: Sequence[tuple[float, float]], *, dash: int = 0) -> str:
    """Returns a line through positions on the sheet; `dash` is 0 (solid), 1 or 2."""
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dashed = f' stroke-dasharray="{_DASHES[dash]}"' if dash else ""
    return (
        f'<path class="line" data-series="{series}" stroke="{colour(series)}"{dashed} d="M{path}"/>'
    )


def title(*lines: str) -> str:
    """Returns the title of a point: its name, then one line for each value."""
    return f"<title>{escape(chr(10).join(text for text in lines if text))}</title>"


def reading(axis: Axis, value: float) -> str:
    """Returns a value with the label of its axis."""
    return f"{axis.label}: {number_text(float(value))}"


def shortened(text: str, width: float) -> str:
    """Returns the text, cut to a width in pixels."""
    most = max(4, int(width / _EM))
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def text_width(text: str) -> float:
    """Returns the approximate width of a text in pixels."""
    return _EM * len(text)


def plot_html(
    name: str,
    *,
    heading: str,
    caption: str,
    entries: Sequence[Entry],
    draw: Callable[[Sheet], tuple[str, float]],
    data: Table,
) -> str:
    """Returns a plot with legend, both drawings, caption and data.

    Args:
        name: Unique in the page; letters, digits and hyphens.
        heading: Title of the plot.
        caption: Text below, or "".
        entries: Legend.
        draw: Returns the content of the SVG for a sheet, and its height.
        data: Data of the plot as a table.
    """
    note = f'<figcaption id="{name}-caption">{escape(caption)}</figcaption>' if caption else ""
    described = f' aria-describedby="{name}-caption"' if caption else ""
    drawn = ""
    for sheet in SHEETS:
        inside, height = draw(sheet)
        drawn += (
            f'<svg class="{sheet.name}" viewBox="0 0 {sheet.width} {height:.0f}" role="group"'
            f' aria-labelledby="{name}-title"{described}>{inside}</svg>'
        )
    return (
        f'<figure class="plot" id="{name}"><p class="title" id="{name}-title">{escape(heading)}</p>'
        f'{_legend(entries)}<div class="drawn">{drawn}</div>{note}'
        f"<details><summary>Data of this plot</summary>{table_html(data)}</details></figure>"
    )


def _legend(entries: Sequence[Entry]) -> str:
    items = "".join(
        f'<li data-series="{entry.series}"><svg class="swatch" viewBox="0 0 24 12"'
        f' aria-hidden="true">{entry.swatch}</svg><span>{escape(entry.label)}</span></li>'
        for entry in entries
    )
    return f'<ul class="legend">{items}</ul>' if items else ""


COLOURS = ("#3d7dca", "#d9692a", "#2f9e77", "#b0559d", "#b58a14", "#6c7a89")
"""Colours of series: distinguishable by the colour-blind, readable on white and on black."""

GREY = "#8a8f98"
"""Colour of grids, bands and references."""


def tick_text(value: float) -> str:
    """Returns a tick label: ``0.02``, ``1,500``, ``2·10⁶``."""
    size = abs(value)
    if size == 0 or _POWERS_BELOW <= size < _POWERS_FROM:
        return f"{value:,.10g}"
    power = math.floor(math.log10(size) + 1e-9)
    factor = value / 10.0**power
    prefix = "" if math.isclose(factor, 1) else f"{factor:.4g}·"
    return f"{prefix}10{str(power).translate(_SUPERSCRIPT)}"
