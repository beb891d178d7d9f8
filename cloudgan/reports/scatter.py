"""Points on two axes, with a Pareto front, or with lines and their uncertainty bands."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cloudgan.reports.plot_frame import (
    LEFT_OUT,
    Axis,
    Entry,
    Frame,
    Sheet,
    Style,
    colour,
    frame,
    line,
    mark,
    plot_html,
    reading,
    title,
)
from cloudgan.reports.table import Cell, Table, number_text


@dataclass(frozen=True)
class Point:
    """A point of a plot.

    Attributes:
        x: In the unit of the axis.
        y: In the unit of the axis.
        label: Name.
        detail: Other values, one per line.
    """

    x: float
    y: float
    label: str
    detail: str = ""


@dataclass(frozen=True)
class PointSeries:
    """Points of one kind; without a style, shape and colour are those of the series' number."""

    label: str
    points: tuple[Point, ...]
    style: Style | None = None


@dataclass(frozen=True)
class _PointPlot:
    """A plot of points on two axes."""

    title: str
    x: Axis
    y: Axis

    def _figure(
        self,
        name: str,
        series: tuple[PointSeries, ...],
        entries: list[Entry],
        caption: str,
        *,
        draw: Callable[[Sheet], tuple[str, float]],
        data: Table,
    ) -> str:
        """Returns the figure; `entries` follow those of the series in the legend."""
        points = [
            Entry(number, one.label, mark(number, 12, 6, classes="mark", style=one.style))
            for number, one in enumerate(series)
        ]
        missing = sum(not self._placed(p.x, p.y) for one in series for p in one.points)
        text = f"{caption} {LEFT_OUT.format(missing)}" if missing else caption
        return plot_html(
            name,
            heading=self.title,
            caption=text.strip(),
            entries=points + entries,
            draw=draw,
            data=data,
        )

    def _title(self, point: Point, *more: str) -> str:
        x, y = reading(self.x, point.x), reading(self.y, point.y)
        return title(point.label, x, y, point.detail, *more)

    def _placed(self, x: float, y: float) -> bool:
        return self.x.holds(x) and self.y.holds(y)


@dataclass(frozen=True)
class Scatter(_PointPlot):
    """Series of points.

    Attributes:
        title: Title of the plot.
        x: Axis.
        y: Axis.
        series: In the order of the legend; suited to hundreds of points, not thousands.
        front: Pareto-optimal points (smaller is better on both axes), in any order; drawn as steps.
        front_label: Legend entry.
        caption: Text below the plot.
    """

    series: tuple[PointSeries, ...]
    front: tuple[tuple[float, float], ...] = ()
    front_label: str = "Pareto front"
    caption: str = ""

    def html(self, name: str) -> str:
        """Returns the figure; `name` is unique in the page."""
        entries = []
        if self.front:
            swatch = '<path class="front" d="M1 3H10V9H23"/>'
            entries.append(Entry(len(self.series), self.front_label, swatch))
        return self._figure(
            name, self.series, entries, self.caption, draw=self._draw, data=self.data()
        )

    def data(self) -> Table:
        """Returns the points as rows, with a column for the front."""
        front = set(self.front)
        return Table(
            ("name", self.x.label, self.y.label, "series", *((self.front_label,) if front else ())),
            tuple(
                (
                    " · ".join((p.label, *p.detail.splitlines())), float(p.x), float(p.y), s.label,
                    *((((p.x, p.y) in front),) if front else ()),
                )
                for s in self.series
                for p in s.points
            ),
            self.title,
            "lrrl" + "l" * bool(front),
            interactive=True,
        )  # fmt: skip

    def _draw(self, sheet: Sheet) -> tuple[str, float]:
        points = [p for s in self.series for p in s.points if self._placed(p.x, p.y)]
        front = sorted(place for place in self.front if self._placed(*place))
        xs = [p.x for p in points] + [x for x, _ in front]
        ys = [p.y for p in points] + [y for _, y in front]
        axes = frame(sheet, self.x, self.y, xs, ys)
        drawn = [axes.svg()]
        if front:
            drawn.append(
                f'<path class="front" data-series="{len(self.series)}" d="{_steps(axes, front)}"/>'
            )
        best = set(front)
        for number, series in enumerate(self.series):
            # Draw the front on top.
            ordered = sorted(series.points, key=lambda p: ((p.x, p.y) in best, p.x, p.y))
            drawn += [
                self._mark(axes, number, series, point, best=(point.x, point.y) in best)
                for point in ordered
                if self._placed(point.x, point.y)
            ]
        return "".join(drawn), sheet.height

    def _mark(
        self, axes: Frame, number: int, series: PointSeries, point: Point, *, best: bool
    ) -> str:
        text = self._title(point, f"on the {self.front_label}" if best else "")
        classes = "point best" if best else "point"
        x, y = axes.x.place(point.x), axes.y.place(point.y)
        return mark(number, x, y, text, classes, style=series.style)


def _steps(axes: Frame, front: list[tuple[float, float]]) -> str:
    places = [(axes.x.place(x), axes.y.place(y)) for x, y in front]
    path = f"M{places[0][0]:.1f} {places[0][1]:.1f}"
    return path + "".join(f"H{x:.1f}V{y:.1f}" for x, y in places[1:])


@dataclass(frozen=True)
class BandLine:
    """A line and its band.

    Attributes:
        label: Legend entry.
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
class BandPlot(_PointPlot):
    """Lines with bands, and measured points.

    Attributes:
        title: Title of the plot.
        x: Axis.
        y: Axis.
        measured: Series of points; earlier ones are drawn over later ones.
        lines: Drawn below the points.
        band_label: For example ``90 % band``.
        extrapolated_from: The region beyond this x is shaded, lines are dashed.
        caption: Text below the plot.
    """

    measured: tuple[PointSeries, ...]
    lines: tuple[BandLine, ...] = ()
    band_label: str = "band"
    extrapolated_from: float | None = None
    caption: str = ""

    def html(self, name: str) -> str:
        """Returns the figure; `name` is unique in the page."""
        entries = [
            Entry(number, self._line_label(known), _swatch(number, known))
            for number, known in enumerate(self.lines, len(self.measured))
        ]
        return self._figure(
            name, self.measured, entries, self.caption, draw=self._draw, data=self.data()
        )

    def data(self) -> Table:
        """Returns points, then lines, as rows."""
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
        for number, series in reversed(list(enumerate(self.measured))):
            drawn += [
                mark(number, axes.x.place(p.x), axes.y.place(p.y), self._title(p))
                for p in sorted(series.points, key=lambda p: (p.x, p.y))
                if self._placed(p.x, p.y)
            ]
        return "".join(drawn), sheet.height

    def _beyond(self, axes: Frame) -> str:
        """Returns the shaded region without measurements."""
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
            # A lower edge of zero on a logarithmic axis is drawn at its low end.
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
        """Yields the measured part of the line (solid) and the extrapolated part (dashed)."""
        end = math.inf if self.extrapolated_from is None else self.extrapolated_from
        near = [(x, y) for x, y, _ in rows if x <= end]
        far = [(x, y) for x, y, _ in rows if x > end]
        if near:
            yield near, 0
        if far:
            yield [*near[-1:], *far], 1

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


_Row = tuple[float, float, tuple[float, float] | None]


def _rows(known: BandLine) -> list[_Row]:
    edges: list[tuple[float, float] | None] = [*zip(known.low, known.high, strict=True)]
    return list(zip(known.x, known.y, edges or [None] * len(known.x), strict=True))


def _named(point: Point) -> tuple[str]:
    return (" · ".join((point.label, *point.detail.splitlines())),)


def _swatch(number: int, known: BandLine) -> str:
    band = f'<rect class="band" width="24" height="12" fill="{colour(number)}"/>'
    return band * bool(known.low) + line(number, [(1, 6), (23, 6)])
