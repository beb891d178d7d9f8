"""Line and bar charts of named series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.reports.drawing import COLOURS, Drawing, plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Chart:
    """What a chart says around its data.

    Attributes:
        name: Unique in the page; letters, digits and hyphens.
        title: What it shows, read aloud and not drawn.
        x_label: With unit.
        y_label: With unit.
        log_x: Logarithmic x axis.
        log_y: Logarithmic y axis; values of zero or less are left out.
        from_zero: The y axis begins at zero.
        height_inches: Of a width of 9; bars choose their own.
    """

    name: str
    title: str
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False
    from_zero: bool = False
    height_inches: float = 3.6


def lines(chart: Chart, x: Sequence[float], series: Mapping[str, Sequence[float | None]]) -> str:
    """Draws each of `series` against `x`; None is a gap.

    Raises:
        ValueError: A series has another length than `x`.
    """
    with Drawing(height_inches=chart.height_inches) as drawing:
        (axes,) = drawing.axes()
        for number, (label, values) in enumerate(series.items()):
            if len(values) != len(x):
                raise ValueError(f"{label!r} has {len(values)} values at {len(x)} places")
            shown = [float("nan") if value is None else value for value in values]
            axes.plot(
                x,
                shown,
                label=plain(label),
                color=COLOURS[number % len(COLOURS)],
                linestyle=("-", "--", ":")[number // len(COLOURS) % 3],
                marker="o" if len(x) <= 12 else "",  # noqa: PLR2004 (more would touch)
            )
        _finish(axes, chart, legend=len(series) > 1)
        return drawing.svg(chart.name, chart.title)


def bars(chart: Chart, labels: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> str:
    """Draws horizontal bars, one group per label and one colour per series; None is "unknown".

    Raises:
        ValueError: A series has another length than `labels`.
    """
    height = max(1.4, 0.7 + 0.3 * len(labels) * max(1, len(series)))
    with Drawing(height_inches=height) as drawing:
        (axes,) = drawing.axes()
        thick = 0.8 / max(1, len(series))
        for number, (label, values) in enumerate(series.items()):
            if len(values) != len(labels):
                raise ValueError(f"{label!r} has {len(values)} values for {len(labels)} labels")
            place = [row - 0.4 + (number + 0.5) * thick for row in range(len(labels))]
            drawn = axes.barh(
                place,
                [value or 0.0 for value in values],
                height=0.9 * thick,
                label=plain(label),
                color=COLOURS[number % len(COLOURS)],
            )
            texts = ["unknown" if value is None else f"{value:,.4g}" for value in values]
            axes.bar_label(drawn, texts, padding=3, fontsize=9)
        axes.set_yticks(range(len(labels)), [plain(label) for label in labels])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.margins(x=0.12)
        if chart.log_x:
            axes.set_xscale("log")
        axes.set_xlabel(plain(chart.x_label))
        axes.set_ylabel(plain(chart.y_label))
        if len(series) > 1:
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return drawing.svg(chart.name, chart.title)


def _finish(axes: Axes, chart: Chart, *, legend: bool) -> None:
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log", nonpositive="mask")
    elif chart.from_zero:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(plain(chart.x_label))
    axes.set_ylabel(plain(chart.y_label))
    if legend:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
