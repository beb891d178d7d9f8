"""Horizontal stacked bars."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from cloudgan.reports.plot_frame import (
    COLOURS,
    Axis,
    Entry,
    Scale,
    Sheet,
    colour,
    fit,
    plot_html,
    shortened,
    text_width,
    tick_text,
    title,
)
from cloudgan.reports.table import UNKNOWN, Cell, Number, Table, number_text

_THICK = 18.0
_STEP = 52.0
_TOP = 8.0
_STRIPES = ((), (0.5,), (0.3, 0.7))
"""Positions of stripes in heights of a bar: colours repeat with stripes."""


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        label: Name.
        values: One per part, zero or more; None is unknown.
        detail: Other values, one per line.
    """

    label: str
    values: tuple[float | None, ...]
    detail: str = ""

    def known(self) -> float:
        """Returns the sum of the known parts."""
        return sum(value for value in self.values if value is not None)


@dataclass(frozen=True)
class StackedBars:
    """Bars whose parts add up.

    Attributes:
        title: Title of the plot.
        x: Linear axis; bars start at zero.
        parts: Names, in the order of the legend, which omits parts that no bar shows.
        bars: From top to bottom.
        caption: Text below the plot.
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
            if any(value is not None and not 0 <= value < float("inf") for value in bar.values):
                raise ValueError(f"{bar.label!r} has a negative or infinite value")

    def html(self, name: str) -> str:
        """Returns the figure; `name` is unique in the page."""
        entries = [
            Entry(number, self.parts[part], _swatch(number))
            for number, part in enumerate(self._drawn_parts())
        ]
        return plot_html(
            name,
            heading=self.title,
            caption=self.caption,
            entries=entries,
            draw=self._draw,
            data=self.data(),
        )

    def data(self) -> Table:
        """Returns bars as rows, parts as columns, and the total."""
        return Table(
            ("name", *self.parts, f"total, {self.x.label}"),
            tuple(
                (
                    " · ".join((bar.label, *bar.detail.splitlines())),
                    *(None if value is None else float(value) for value in bar.values),
                    self._total(bar),
                )
                for bar in self.bars
            ),
            self.title,
            "l" + "r" * (len(self.parts) + 1),
            interactive=True,
        )

    def total_text(self, bar: Bar) -> str:
        """Returns the sum, or for example ``at least 3.1 (unknown: x, y)``."""
        if all(value is None for value in bar.values):
            return UNKNOWN
        unknown = [
            part for part, value in zip(self.parts, bar.values, strict=True) if value is None
        ]
        known = number_text(float(bar.known()))
        return f"at least {known} (unknown: {', '.join(unknown)})" if unknown else known

    def _total(self, bar: Bar) -> Cell:
        # An incomplete sum cannot be sorted among complete ones.
        return Number(None if None in bar.values else bar.known(), self.total_text(bar))

    def _draw(self, sheet: Sheet) -> tuple[str, float]:
        longest = max((bar.known() for bar in self.bars), default=0.0)
        scale = fit(self.x, [0.0, longest or 1.0], 1.0, sheet.width - 24.0, sheet.most_x_ticks)
        bottom = _TOP + _STEP * len(self.bars)
        drawn = [self._grid(scale, bottom, sheet)]
        for row, bar in enumerate(self.bars):
            drawn.append(self._bar(scale, sheet, bar, _TOP + _STEP * row))
        return "".join(drawn), bottom + 48

    def _grid(self, scale: Scale, bottom: float, sheet: Sheet) -> str:
        ticks = "".join(
            f'<path class="grid" d="M{scale.place(tick):.1f} {_TOP:.1f}V{bottom:.1f}"/>'
            f'<text x="{scale.place(tick):.1f}" y="{bottom + 20:.1f}"'
            f' text-anchor="{"middle" if tick else "start"}">{tick_text(tick)}</text>'
            for tick in scale.ticks
        )
        return (
            f'<g aria-hidden="true">{ticks}<text class="label" x="{sheet.width / 2:.1f}"'
            f' y="{bottom + 42:.1f}" text-anchor="middle">{escape(self.x.label)}</text></g>'
        )

    def _bar(self, scale: Scale, sheet: Sheet, bar: Bar, top: float) -> str:
        total = shortened(self.total_text(bar), 0.62 * sheet.width)
        label = shortened(bar.label, sheet.width - text_width(total) - 30)
        drawn = (
            f'<g aria-hidden="true"><text class="name" x="0" y="{top + 16:.1f}">{escape(label)}'
            f'</text><text x="{sheet.width:.1f}" y="{top + 16:.1f}" text-anchor="end">'
            f"{escape(total)}</text></g>"
        )
        begin = 0.0
        for number, part in enumerate(self._drawn_parts()):
            value = bar.values[part]
            if value:
                left, right = scale.place(begin), scale.place(begin + value)
                text = self._title(bar, self.parts[part], value)
                drawn += _part(number, left, right, top + 24, text)
                begin += value
        return drawn

    def _drawn_parts(self) -> tuple[int, ...]:
        """Returns the indices of parts with a length in any bar."""
        places = range(len(self.parts))
        return tuple(n for n in places if any(bar.values[n] for bar in self.bars))

    def _title(self, bar: Bar, part: str, value: float) -> str:
        whole = "the known parts" if None in bar.values else "the bar"
        return title(
            f"{bar.label}: {part}",
            f"{self.x.label}: {number_text(float(value))}",
            f"{value / bar.known():.1%} of {whole}",
            f"whole bar: {self.total_text(bar)}",
            bar.detail,
        )


def _part(number: int, left: float, right: float, top: float, text: str) -> str:
    rect = (
        f'<rect class="point part" role="img" data-series="{number}"'
        f' data-x="{(left + right) / 2:.1f}" data-y="{top + _THICK / 2:.1f}" x="{left:.2f}"'
        f' y="{top:.1f}" width="{right - left:.2f}" height="{_THICK:.1f}"'
        f' fill="{colour(number)}">{text}</rect>'
    )
    return rect + _stripes(number, left, right, top, _THICK)


def _swatch(number: int) -> str:
    rect = f'<rect width="24" height="12" fill="{colour(number)}"/>'
    return rect + _stripes(number, 0.0, 24.0, 0.0, 12.0)


def _stripes(number: int, left: float, right: float, top: float, height: float) -> str:
    places = _STRIPES[number // len(COLOURS) % len(_STRIPES)]
    path = "".join(f"M{left:.2f} {top + height * place:.1f}H{right:.2f}" for place in places)
    if not path:
        return ""
    return (
        f'<path class="stripe" aria-hidden="true" data-series="{number}"'
        f' stroke-width="{height / 6:.1f}" d="{path}"/>'
    )
