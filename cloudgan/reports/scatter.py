"""Points on two axes, and a front of those that no other beats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.reports.plot_frame import (
    LEFT_OUT,
    Entry,
    Frame,
    frame,
    mark,
    plot_html,
    reading,
    title,
)
from cloudgan.reports.table import Table

if TYPE_CHECKING:
    from cloudgan.reports.axis import Axis
    from cloudgan.reports.plot_frame import Sheet


@dataclass(frozen=True)
class Point:
    """Of a plot.

    Attributes:
        x: In the unit of the axis.
        y: In the unit of the axis.
        label: What it is.
        detail: What else is known of it; lines are parted by line ends.
    """

    x: float
    y: float
    label: str
    detail: str = ""


@dataclass(frozen=True)
class PointSeries:
    """Points of one kind."""

    label: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Scatter:
    """Series of points.

    Attributes:
        title: What the plot shows.
        x: Axis.
        y: Axis.
        series: In the order of the legend. Each point is drawn: offer hundreds, not thousands.
        front: Points that no other beats (smaller is better on both axes), in any order. Drawn as
            steps, since nothing is to be had between two of them.
        front_label: In the legend.
        caption: What the plot says.
    """

    title: str
    x: Axis
    y: Axis
    series: tuple[PointSeries, ...]
    front: tuple[tuple[float, float], ...] = ()
    front_label: str = "Pareto front"
    caption: str = ""

    def html(self, name: str) -> str:
        """Returns the figure; `name` is unique in the page."""
        entries = [
            Entry(number, series.label, mark(number, 12, 6, classes="mark"))
            for number, series in enumerate(self.series)
        ]
        if self.front:
            swatch = '<path class="front" d="M1 3H10V9H23"/>'
            entries.append(Entry(len(self.series), self.front_label, swatch))
        missing = sum(not self._placed(p.x, p.y) for s in self.series for p in s.points)
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
        """The points as rows, those on the front marked."""
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
            # The best are drawn last, on top.
            ordered = sorted(series.points, key=lambda p: ((p.x, p.y) in best, p.x, p.y))
            drawn += [
                self._mark(axes, number, point, best=(point.x, point.y) in best)
                for point in ordered
                if self._placed(point.x, point.y)
            ]
        return "".join(drawn), sheet.height

    def _mark(self, axes: Frame, number: int, point: Point, *, best: bool) -> str:
        said = title(
            point.label,
            reading(self.x, point.x),
            reading(self.y, point.y),
            point.detail,
            f"on the {self.front_label}" if best else "",
        )
        classes = "point best" if best else "point"
        x, y = axes.x.place(point.x), axes.y.place(point.y)
        return mark(number, x, y, said, classes)

    def _placed(self, x: float, y: float) -> bool:
        return self.x.holds(x) and self.y.holds(y)


def _steps(axes: Frame, front: list[tuple[float, float]]) -> str:
    places = [(axes.x.place(x), axes.y.place(y)) for x, y in front]
    path = f"M{places[0][0]:.1f} {places[0][1]:.1f}"
    return path + "".join(f"H{x:.1f}V{y:.1f}" for x, y in places[1:])
