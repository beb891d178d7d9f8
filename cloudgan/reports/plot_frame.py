"""What all plots share: sheets for wide and narrow screens, axes, legend, points that can speak.

A plot is static SVG, drawn twice (the page's style shows the one that fits the screen), that reads
without script. A point or bar segment is an element of class ``point`` with a ``<title>``: the
browser's own tooltip and the name for screen readers, and what the page's script shows instead.
Whatever belongs to a series has ``data-series`` with its number; so has its entry in the legend.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from cloudgan.reports.axis import fit
from cloudgan.reports.html_table import table_html
from cloudgan.reports.number import number_text, tick_text
from cloudgan.reports.palette import COLOURS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cloudgan.reports.axis import Axis, Scale
    from cloudgan.reports.table import Table

_MARKS = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "M-4-4h8v8h-8z",
    "M0-5.2L5 4H-5z",
    "M0-5.6L5.6 0L0 5.6L-5.6 0z",
)
_DASHES = ("", "7 4", "2 3")
_EM = 7.4
"""Mean width of a character of 13 pixels, in pixels."""
LEFT_OUT = "{} without a place on these axes: see the data below."


@dataclass(frozen=True)
class Sheet:
    """One of the two sizes a plot is drawn in.

    Attributes:
        name: Class of the element.
        width: In pixels of the drawing.
        height: Of a plot with two axes.
        most_x_ticks: Numbers along x.
    """

    name: str
    width: int
    height: int
    most_x_ticks: int


SHEETS = (Sheet("broad", 880, 430, 9), Sheet("slim", 400, 380, 5))


@dataclass(frozen=True)
class Entry:
    """Of the legend: the number of a series, its name, and a swatch (SVG in a box of 24 x 12)."""

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
        """Grid, axes, numbers and labels; not read aloud, since each point tells its own."""
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
    """Fits two axes to a sheet, with room for their numbers."""
    tall = fit(y, ys, sheet.height - 50.0, 30.0, 10 if y.log else 7)
    left = 12 + _EM * max(len(tick_text(tick)) for tick in tall.ticks)
    return Frame(sheet, fit(x, xs, left, sheet.width - 24.0, sheet.most_x_ticks), tall)


def colour(series: int) -> str:
    """Of a series, by its number."""
    return COLOURS[series % len(COLOURS)]


def mark(series: int, x: float, y: float, inside: str = "", classes: str = "point") -> str:
    """A dot whose shape and colour tell the series; `inside` is its title, if it has one."""
    heard = ' role="img"' if inside else ""
    return (
        f'<path class="{classes}"{heard} data-series="{series}" data-x="{x:.1f}" data-y="{y:.1f}"'
        f' d="{_MARKS[series % len(_MARKS)]}" transform="translate({x:.1f} {y:.1f})"'
        f' fill="{colour(series)}">{inside}</path>'
    )


def line(series: int, places: Sequence[tuple[float, float]], *, dash: int = 0) -> str:
    """A line through places on the sheet; `dash` is 0 (none), 1 or 2."""
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dashed = f' stroke-dasharray="{_DASHES[dash]}"' if dash else ""
    return (
        f'<path class="line" data-series="{series}" stroke="{colour(series)}"{dashed} d="M{path}"/>'
    )


def title(*lines: str) -> str:
    """What a point says: its name, then one line for each thing known of it."""
    return f"<title>{escape(chr(10).join(told for told in lines if told))}</title>"


def reading(axis: Axis, value: float) -> str:
    """A number with the label of its axis."""
    return f"{axis.label}: {number_text(float(value))}"


def shortened(text: str, width: float) -> str:
    """Cut to a width in pixels."""
    most = max(4, int(width / _EM))
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def text_width(text: str) -> float:
    """About how wide a text is, in pixels."""
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
    """Puts a plot together.

    Args:
        name: Unique in the page; letters, digits and hyphens.
        heading: What the plot shows.
        caption: What it says; "" for nothing.
        entries: Of the legend.
        draw: Returns the inside of the SVG for a sheet, and its height.
        data: The same as a table, for those who read and not look.
    """
    told = f'<figcaption id="{name}-caption">{escape(caption)}</figcaption>' if caption else ""
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
        f'{_legend(entries)}<div class="drawn">{drawn}</div>{told}'
        f"<details><summary>Data of this plot</summary>{table_html(data)}</details></figure>"
    )


def _legend(entries: Sequence[Entry]) -> str:
    items = "".join(
        f'<li data-series="{entry.series}"><svg class="swatch" viewBox="0 0 24 12"'
        f' aria-hidden="true">{entry.swatch}</svg><span>{escape(entry.label)}</span></li>'
        for entry in entries
    )
    return f'<ul class="legend">{items}</ul>' if items else ""
