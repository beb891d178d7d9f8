"""Matplotlib figures as inline SVG, and line and bar charts of named series.

Uses Matplotlib's objects, never its global state. Text stays text, ids are unique in the page, nothing
is loaded, and the text colour is `currentColor`, for light and dark pages.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from xml.sax.saxutils import escape, quoteattr

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from cloudgan.reports.plot_frame import COLOURS, GREY, tick_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


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


_WIDE = 30
"""Ratio of the ends of a logarithmic axis from which only powers of ten have a label."""


def log_ticks(axis: Axis, most: int = 7) -> None:
    """Labels a logarithmic axis with ordinary numbers, on a short one also 2 and 5 of each decade."""
    low, high = sorted(axis.get_view_interval())
    short = low > 0 and high / low < _WIDE
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if short else (1.0,), numticks=most))
    axis.set_minor_locator(LogLocator(subs=(0.2, 0.5), numticks=3 * most))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
    axis.set_minor_formatter(NullFormatter())


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
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # groups and images need no id
    text = re.sub(r'(<image [^>]*?)id="[^"]*" ', r"\1", text)
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


Values = Mapping[str, Sequence[float | None]]


def lines(
    chart: Chart,
    x: Sequence[float],
    series: Values,
    dashed: Values | None = None,
    styles: tuple[str, str] = ("", ""),
) -> str:
    """Draws each of `series` against `x`; None is a gap.

    Args:
        chart: Title and axes.
        x: Places of the values.
        series: Values by label, a colour each.
        dashed: A second line of some labels, in the same colour.
        styles: What the solid and the dashed lines are, for the legend.

    Raises:
        ValueError: The length of a series differs from that of `x`.
    """
    with Drawing(height_inches=chart.height_inches) as drawing:
        (axes,) = drawing.axes()
        for number, (label, values) in enumerate(series.items()):
            line = ("-", "--", ":")[number // len(COLOURS) % 3] if dashed is None else "-"
            for shown, style in ((values, line), ((dashed or {}).get(label), "--")):
                if shown is None:
                    continue
                if len(shown) != len(x):
                    raise ValueError(f"{label!r} has {len(shown)} values, expected {len(x)}")
                axes.plot(
                    x,
                    [float("nan") if value is None else value for value in shown],
                    label=plain(label) if shown is values else None,
                    color=COLOURS[number % len(COLOURS)],
                    linestyle=style,
                    marker="o" if len(x) <= 12 else "",  # noqa: PLR2004 (more would touch)
                )
        if dashed is not None:
            axes.add_line(Line2D([], [], color=INK, linestyle="-", label=styles[0]))
            axes.add_line(Line2D([], [], color=INK, linestyle="--", label=styles[1]))
        if len(x) == 1:
            axes.set_xticks(x)
        elif _are_whole(x) and not chart.log_x:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if _are_whole(value for values in series.values() for value in values):
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        _finish(axes, chart, legend=len(series) > 1 or dashed is not None)
        return drawing.svg(chart.name, chart.title)


def _are_whole(values: Iterable[float | None]) -> bool:
    return all(value is None or float(value).is_integer() for value in values)


def bars(chart: Chart, labels: Sequence[str], series: Values) -> str:
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
            log_ticks(axes.xaxis)
        axes.set_xlabel(plain(chart.x_label))
        axes.set_ylabel(plain(chart.y_label))
        if len(series) > 1:
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return drawing.svg(chart.name, chart.title)


def _finish(axes: Axes, chart: Chart, *, legend: bool) -> None:
    if chart.log_x:
        axes.set_xscale("log")
        log_ticks(axes.xaxis)
    if chart.log_y:
        axes.set_yscale("log", nonpositive="mask")
        log_ticks(axes.yaxis)
    elif chart.from_zero:
        most = axes.dataLim.ymax
        axes.set_ylim(0, 1.06 * most if 0 < most < math.inf else 1.0)
    axes.set_xlabel(plain(chart.x_label))
    axes.set_ylabel(plain(chart.y_label))
    if legend:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
