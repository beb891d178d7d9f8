"""Matrices as coloured cells with their values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from html import escape

from cloudgan.reports.plot_frame import Sheet, plot_html, shortened, title
from cloudgan.reports.table import Cell, Table, number_text

_LIGHT, _DARK = (232, 240, 250), (22, 72, 140)
_INK, _PAPER = "#1c2733", "#ffffff"
_TOP, _MOST = 44.0, 64.0
_TEXT_FROM = 40.0
"""Width of a cell in pixels from which its value is written into it."""
_HALF = 0.5


@dataclass(frozen=True)
class HeatMap:
    """Values of pairs; darker is larger, on a logarithmic scale.

    Attributes:
        title: Title of the plot.
        label: Of the values, with unit.
        rows: Names, from top to bottom; the corner names rows and columns.
        columns: Names, from left to right.
        values: One row of positive values for each name.
        corner: What rows and columns are.
        caption: Text below the plot.
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

    def html(self, name: str) -> str:
        """Returns the figure; `name` is unique in the page."""
        return plot_html(
            name,
            heading=f"{self.title}, {self.label}",
            caption=self.caption,
            entries=(),
            draw=self._draw,
            data=self.data(),
        )

    def data(self) -> Table:
        """Returns the matrix."""
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (name, *map(float, row)) for name, row in zip(self.rows, self.values, strict=True)
        )
        return Table((self.corner, *self.columns), rows, f"{self.title}, {self.label}")

    def _draw(self, sheet: Sheet) -> tuple[str, float]:
        left = min(0.25 * sheet.width, 14 + 8.0 * max(map(len, (self.corner, *self.rows))))
        size = min(_MOST, (sheet.width - left) / len(self.columns))
        middle = f'text-anchor="middle" y="{_TOP - 10:.1f}"'
        drawn = [
            f'<text class="name" x="0" y="{_TOP - 10:.1f}">{escape(shortened(self.corner, left))}</text>'
        ]
        drawn += [
            f'<text x="{left + (number + _HALF) * size:.1f}" {middle}>'
            f"{escape(shortened(column, size + 14))}</text>"
            for number, column in enumerate(self.columns)
        ]
        for number, name in enumerate(self.rows):
            y = _TOP + number * size
            drawn.append(
                f'<text x="0" y="{y + size / 2 + 4.5:.1f}">{escape(shortened(name, left))}</text>'
            )
            drawn += [
                self._cell(number, column, left + column * size, y, size)
                for column in range(len(self.columns))
            ]
        return "".join(drawn), _TOP + size * len(self.rows) + 8

    def _cell(self, row: int, column: int, x: float, y: float, size: float) -> str:
        value = self.values[row][column]
        share = self._share(value)
        text = title(
            f"{self.corner}: {self.rows[row]}, {self.columns[column]}".strip(": "),
            f"{self.label}: {number_text(float(value))}",
        )
        drawn = (
            f'<rect class="point" role="img" data-series="0" data-x="{x + size / 2:.1f}"'
            f' data-y="{y + size / 2:.1f}" x="{x:.1f}" y="{y:.1f}" width="{size:.1f}"'
            f' height="{size:.1f}" fill="{_mixed(share)}">{text}</rect>'
        )
        if size < _TEXT_FROM:
            return drawn
        ink = _PAPER if share > _HALF else _INK
        return drawn + (
            f'<text aria-hidden="true" x="{x + size / 2:.1f}" y="{y + size / 2 + 4.5:.1f}"'
            f' text-anchor="middle" style="fill:{ink};pointer-events:none">{value:.3g}</text>'
        )

    @cached_property
    def _ends(self) -> tuple[float, float]:
        every = [value for row in self.values for value in row]
        return math.log(min(every)), math.log(max(every))

    def _share(self, value: float) -> float:
        """Returns the position of a value between the smallest and the largest one."""
        low, high = self._ends
        return (math.log(value) - low) / (high - low) if high > low else 0.0


def _mixed(share: float) -> str:
    parts = (
        round(light + (dark - light) * share) for light, dark in zip(_LIGHT, _DARK, strict=True)
    )
    return "#" + "".join(f"{part:02x}" for part in parts)
