"""Lines with the band that they are known to, beside the points that were measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.reports.number import number_text
from cloudgan.reports.plot_frame import (
    LEFT_OUT,
    Entry,
    Frame,
    colour,
    frame,
    line,
    mark,
    plot_html,
    reading,
    title,
)
from cloudgan.reports.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.reports.axis import Axis
    from cloudgan.reports.plot_frame import Sheet
    from cloudgan.reports.scatter import Point, PointSeries
    from cloudgan.reports.table import Cell


@dataclass(frozen=True)
class BandLine:
    """A line and its band.

    Attributes:
        label: In the legend.
        x: Ascending.
        y: One per `x`.
        low: Lower edge of the band, one per `x`; empty for none.
        high: Upper edge.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        lengths = {len(values) for values in (self.x, self.y, self.low, self.high) if values}
        if len(lengths) > 1 or bool(self.low) != bool(self.high):
            raise ValueError(f"x, y, low and high of {self.label!r} differ in length")
        if list(self.x) != sorted(self.x):
            raise ValueError(f"x of {self.label!r} does not ascend")


@dataclass(frozen=True)
class BandPlot:
    """Lines with bands, and measured points.

    Attributes:
        title: What the plot shows.
        x: Axis.
        y: Axis.
        measured: Series of points.
        lines: Drawn beneath the points.
        band_label: What the bands are, such as ``90 % band``.
        extrapolated_from: Beyond this x nothing was measured: shaded, lines dashed.
        caption: What the plot says.
    """

    title: str
    x: Axis
    y: Axis
    measured: tuple[PointSeries, ...]
    lines: tuple[BandLine, ...] = ()
    band_label: str = "band"
    extrapolated_from: float | None = None
    caption: str = ""

    def html(self, name: str) -> str:
        """Returns the figure; `name` is unique in the page."""
        entries = [
            Entry(number, series.label, mark(number, 12, 6, classes="mark"))
            for number, series in enumerate(self.measured)
        ]
        entries += [
            Entry(number, self._line_label(known), _swatch(number, known))
            for number, known in enumerate(self.lines, len(self.measured))
        ]
        missing = sum(not self._placed(p.x, p.y) for s in self.measured for p in s.points)
        said = f"{self.caption} {LEFT_OUT.format(missing)}" if missing else self.caption
        return plot_html(
            name,
            heading=self.title,
            caption=said.strip(),
            entries=entries,
            draw=self._draw,
            data=self.data(),
        )

    def data(self) -> Table:
        """Points, then lines, as rows."""
        rows: list[tuple[Cell, ...]] = [
            (series.label, *_named(point), float(point.x), float(point.y), "", "")
            for series in self.measured
            for point in series.points
        ]
        for known in self.lines:
            rows += [
                (known.label, self._remark(x), float(x), float(y), *(edges or ("", "")))
                for x, y, edges in _rows(known)
            ]
        heads = ("series", "name", self.x.label, self.y.label)
        edges = (f"{self.band_label}, low", f"{self.band_label}, high")
        return Table((*heads, *edges), tuple(rows), self.title, "llrrrr", interactive=True)

    def _draw(self, sheet: Sheet) -> tuple[str, float]:
        points = [p for s in self.measured for p in s.points if self._placed(p.x, p.y)]
        xs = [p.x for p in points] + [x for known in self.lines for x in known.x]
        ys = [p.y for p in points]
        ys += [y for known in self.lines for y in (*known.y, *known.low, *known.high)]
        axes = frame(sheet, self.x, self.y, xs, ys)
        drawn = [self._beyond(axes), axes.svg()]
        for number, known in enumerate(self.lines, len(self.measured)):
            drawn.append(self._line(axes, number, known))
        for number, series in enumerate(self.measured):
            drawn += [
                mark(number, axes.x.place(p.x), axes.y.place(p.y), self._told(p))
                for p in sorted(series.points, key=lambda p: (p.x, p.y))
                if self._placed(p.x, p.y)
            ]
        return "".join(drawn), sheet.height

    def _beyond(self, axes: Frame) -> str:
        """The region where nothing was measured."""
        if self.extrapolated_from is None or not self.x.holds(self.extrapolated_from):
            return ""
        left = max(axes.x.place(self.extrapolated_from), axes.x.start)
        if left >= axes.x.end:
            return ""
        return (
            f'<rect class="beyond" x="{left:.1f}" y="{axes.y.end:.1f}" '
            f'width="{axes.x.end - left:.1f}" height="{axes.y.start - axes.y.end:.1f}"/>'
            f'<text class="beyond" x="{axes.x.end - 6:.1f}" y="{axes.y.end + 16:.1f}"'
            ' text-anchor="end">extrapolated</text>'
        )

    def _line(self, axes: Frame, number: int, known: BandLine) -> str:
        held = [row for row in _rows(known) if self._placed(row[0], row[1])]
        if not held:
            return ""
        drawn = ""
        edges = [(x, *edge) for x, _, edge in held if edge]
        if edges:
            # A lower edge of zero has no place on a logarithmic axis: it is the axis' low end.
            def height(y: float) -> float:
                return axes.y.place(y if self.y.holds(y) else axes.y.low)

            there = [f"{axes.x.place(x):.1f} {height(low):.1f}" for x, low, _ in edges]
            back = [f"{axes.x.place(x):.1f} {height(high):.1f}" for x, _, high in reversed(edges)]
            drawn += (
                f'<path class="band" data-series="{number}" fill="{colour(number)}"'
                f' d="M{"L".join(there + back)}z"/>'
            )
        for run, dash in self._runs(held):
            drawn += line(number, [(axes.x.place(x), axes.y.place(y)) for x, y in run], dash=dash)
        for x, y, edge in held:
            drawn += mark(
                number,
                axes.x.place(x),
                axes.y.place(y),
                title(
                    known.label,
                    reading(self.x, x),
                    reading(self.y, y),
                    self._band_text(edge),
                    self._remark(x),
                ),
                "point knot",
            )
        return drawn

    def _runs(self, rows: list[_Row]) -> Iterator[tuple[list[tuple[float, float]], int]]:
        """The line as far as it was measured, solid, and beyond, dashed."""
        end = math.inf if self.extrapolated_from is None else self.extrapolated_from
        near = [(x, y) for x, y, _ in rows if x <= end]
        far = [(x, y) for x, y, _ in rows if x > end]
        if near:
            yield near, 0
        if far:
            yield [*near[-1:], *far], 1

    def _told(self, point: Point) -> str:
        return title(point.label, reading(self.x, point.x), reading(self.y, point.y), point.detail)

    def _band_text(self, edge: tuple[float, float] | None) -> str:
        if edge is None:
            return ""
        low, high = (number_text(float(value)) for value in edge)
        return f"{self.band_label}: {low} to {high}"

    def _remark(self, x: float) -> str:
        beyond = self.extrapolated_from is not None and x > self.extrapolated_from
        return "extrapolated" if beyond else ""

    def _line_label(self, known: BandLine) -> str:
        return f"{known.label}, {self.band_label}" if known.low else known.label

    def _placed(self, x: float, y: float) -> bool:
        return self.x.holds(x) and self.y.holds(y)


_Row = tuple[float, float, tuple[float, float] | None]


def _rows(known: BandLine) -> list[_Row]:
    edges: list[tuple[float, float] | None] = [*zip(known.low, known.high, strict=True)]
    return list(zip(known.x, known.y, edges or [None] * len(known.x), strict=True))


def _named(point: Point) -> tuple[str]:
    return (" · ".join((point.label, *point.detail.splitlines())),)


def _swatch(number: int, known: BandLine) -> str:
    band = f'<rect class="band" width="24" height="12" fill="{colour(number)}"/>'
    return band * bool(known.low) + line(number, [(1, 6), (23, 6)])
