"""Matplotlib figures as inline SVG, and line and bar charts of named series.

Uses Matplotlib's objects, never its global state. Text stays text, ids are unique in the page, nothing
is loaded, and the text colour is `currentColor`, for light and dark pages.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from xml.sax.saxutils import escape, quoteattr

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cloudgan.reports.plot_frame import COLOURS, GREY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.axes import Axes


_INK = "#010203"  # placeholder for the text colour of the page

_DIGITS = re.compile(r"(\d\.\d\d)\d+")
"""Rounds to a hundredth of a pixel."""

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "cloudgan",  # reproducible ids
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10.0,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10.5,
    "grid.color": GREY,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
}

INK = _INK
"""Colour that is replaced by the text colour of the page."""


class Drawing:
    """Context manager of a figure; call `svg` or `png` inside the block."""

    def __init__(self, width_inches: float = 9.0, height_inches: float = 4.0) -> None:
        self._size = (width_inches, height_inches)

    def __enter__(self) -> Self:
        self._context = rc_context(_STYLE)  # type: ignore[arg-type]  # stubs list every key
        self._context.__enter__()
        self.figure = Figure(figsize=self._size, layout="constrained")
        return self

    def __exit__(self, *_: object) -> None:
        self._context.__exit__(None, None, None)

    def axes(self, rows: int = 1, columns: int = 1, **options: object) -> Iterator[Axes]:
        """Yields the axes, row by row."""
        grid = self.figure.subplots(rows, columns, squeeze=False, **options)  # type: ignore[call-overload]
        yield from grid.flat

    def svg(self, name: str, title: str) -> str:
        """Returns the SVG element; `name` is unique in the page, `title` is for screen readers."""
        text = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(self.figure).print_svg(text, metadata=nothing)  # type: ignore[no-untyped-call]
        return _inline(text.getvalue(), name, title)

    def png(self, dots_per_inch: int = 150) -> bytes:
        """Returns a PNG image, black on white."""
        picture = io.BytesIO()
        self.figure.set_dpi(dots_per_inch)
        FigureCanvasAgg(self.figure).print_png(picture)  # type: ignore[no-untyped-call]
        return picture.getvalue()


def plain(label: str) -> str:
    """Escapes dollar signs, which Matplotlib reads as mathematics."""
    return label.replace("$", r"\$")


def _inline(text: str, name: str, title: str) -> str:
    """Converts a standalone SVG to an inline element with unique ids."""
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = text.replace("xlink:href=", "href=")
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # groups need no id
    text = re.sub(r"<[^>]*>", lambda tag: _DIGITS.sub(r"\1", tag.group()), text)
    text = re.sub(r"^\s+", "", text, flags=re.MULTILINE)
    # Remove the white background.
    text = re.sub(r"fill: ?#ffffff(?=[;\"])", "fill: none", text)
    text = text.replace(_INK, "currentColor")
    head, rest = text.split(">", 1)
    view = re.search(r'viewBox="[^"]+"', head)
    opening = f'<svg {view.group() if view else ""} role="img" aria-label={quoteattr(title)}'
    return f"{opening}><title>{escape(title)}</title>{rest}".strip()


@dataclass(frozen=True)
class Chart:
    """Title, axes and size of a chart.

    Attributes:
        name: Unique in the page; letters, digits and hyphens.
        title: For screen readers, not drawn.
        x_label: With unit.
        y_label: With unit.
        log_x: Logarithmic x axis.
        log_y: Logarithmic y axis; omits zero and negative values.
        from_zero: The y axis starts at zero.
        height_inches: At a width of 9; ignored for bars.
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
        ValueError: The length of a series differs from that of `x`.
    """
    with Drawing(height_inches=chart.height_inches) as drawing:
        (axes,) = drawing.axes()
        for number, (label, values) in enumerate(series.items()):
            if len(values) != len(x):
                raise ValueError(f"{label!r} has {len(values)} values, expected {len(x)}")
            shown = [float("nan") if value is None else value for value in values]
            axes.plot(
                x,
                shown,
                label=plain(label),
                color=COLOURS[number % len(COLOURS)],
                linestyle=("-", "--", ":")[number // len(COLOURS) % 3],
                marker="o" if len(x) <= 12 else "",  # noqa: PLR2004 (more would touch)
            )
        if all(isinstance(value, int) for value in x) and not chart.log_x:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        _finish(axes, chart, legend=len(series) > 1)
        return drawing.svg(chart.name, chart.title)


def bars(chart: Chart, labels: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> str:
    """Draws horizontal bars, one group per label and one colour per series; None is "unknown".

    Raises:
        ValueError: The length of a series differs from that of `labels`.
    """
    height = max(1.4, 0.7 + 0.3 * len(labels) * max(1, len(series)))
    with Drawing(height_inches=height) as drawing:
        (axes,) = drawing.axes()
        thick = 0.8 / max(1, len(series))
        for number, (label, values) in enumerate(series.items()):
            if len(values) != len(labels):
                raise ValueError(f"{label!r} has {len(values)} values, expected {len(labels)}")
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
