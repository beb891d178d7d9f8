"""Matplotlib figures as inline SVG, and the charts of `charts.py`.

Uses Matplotlib's objects, never its global state. Text stays text, ids are unique in the page, nothing
is loaded, and the text colour is `currentColor`, for light and dark pages.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Literal, Self
from xml.sax.saxutils import escape, quoteattr

from matplotlib import axis as mpl_axis
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure as MplFigure
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from cloudgan.reports.charts import (
    COLOURS,
    GREY,
    INK,
    Axis,
    Chart,
    Figure,
    HeatMap,
    Plot,
    StackedBars,
    Style,
)

_DIGITS = re.compile(r"(\d\.\d\d)\d+")
"""Rounds to a hundredth of a pixel."""

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "cloudgan",  # reproducible ids
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10.0,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10.5,
    "grid.color": GREY,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 1.2,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
}


class Drawing:
    """Context manager of a figure; call `svg` or `png` inside the block."""

    def __init__(self, width_inches: float = 9.0, height_inches: float = 4.0) -> None:
        self._size = (width_inches, height_inches)

    def __enter__(self) -> Self:
        self._context = rc_context(_STYLE)  # type: ignore[arg-type]  # stubs list every key
        self._context.__enter__()
        self.figure = MplFigure(figsize=self._size, layout="constrained")
        return self

    def __exit__(self, *_: object) -> None:
        self._context.__exit__(None, None, None)

    def axes(self) -> Axes:
        """Returns axes that fill the figure."""
        return self.figure.subplots()

    def svg(self, title: str) -> str:
        """Returns the SVG element; the title is for screen readers."""
        text = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(self.figure).print_svg(text, metadata=nothing)  # type: ignore[no-untyped-call]
        return _inline(text.getvalue(), title)

    def png(self) -> bytes:
        """Returns a PNG image of 150 dots per inch, black on white."""
        picture = io.BytesIO()
        self.figure.set_dpi(150)
        FigureCanvasAgg(self.figure).print_png(picture)  # type: ignore[no-untyped-call]
        return picture.getvalue()


def _inline(text: str, title: str) -> str:
    """Converts a standalone SVG to an inline element; its ids begin with a digest of its content."""
    text = text[text.index("<svg") :]
    name = f"f{hashlib.sha256((title + text).encode()).hexdigest()[:8]}"
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
    text = re.sub(r"fill: ?#ffffff(?=[;\"])", "fill: none", text).replace(INK, "currentColor")
    head, rest = text.split(">", 1)
    view = re.search(r'viewBox="[^"]+"', head)
    opening = f'<svg {view.group() if view else ""} role="img" aria-label={quoteattr(title)}'
    return f"{opening}><title>{escape(title)}</title>{rest}".strip()


_NOTHING = "\u200b"  # a space without width


def plain(label: str) -> str:
    """Escapes dollar signs, which Matplotlib reads as mathematics, and `_`, which it leaves out of a legend."""
    shown = label.replace("$", r"\$")
    return _NOTHING + shown if label.startswith("_") else shown


_POWERS_BELOW, _POWERS_FROM = 1e-4, 1e6
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def tick_text(value: float) -> str:
    """Returns a tick label: ``0.02``, ``1,500``, ``2·10⁶``."""
    size = abs(value)
    if size == 0 or _POWERS_BELOW <= size < _POWERS_FROM:
        return f"{value:,.10g}"
    power = math.floor(math.log10(size) + 1e-9)
    factor = value / 10.0**power
    prefix = "" if math.isclose(factor, 1) else f"{factor:.4g}·"
    return f"{prefix}10{str(power).translate(_SUPERSCRIPT)}"


_WIDE = 30
"""Ratio of the ends of a logarithmic axis from which only powers of ten have a label."""


def log_ticks(axis: mpl_axis.Axis, most: int = 7) -> None:
    """Labels a logarithmic axis with ordinary numbers, on a short one also 2 and 5 of each decade."""
    low, high = sorted(axis.get_view_interval())
    short = low > 0 and high / low < _WIDE
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if short else (1.0,), numticks=most))
    axis.set_minor_locator(LogLocator(subs=(0.2, 0.5), numticks=3 * most))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
    axis.set_minor_formatter(NullFormatter())


BROAD, SLIM = 9.0, 4.2
"""Widths of the two drawings of a chart in inches; the style of the page shows one of them."""
_PER_INCH = 11.5
"""Characters of a label per inch."""


def chart_svg(chart: Chart, width_inches: float) -> str:
    """Draws a chart."""
    with Drawing(width_inches, _height(chart, width_inches)) as drawing:
        axes = drawing.axes()
        draw(chart, axes)
        handles, names = axes.get_legend_handles_labels()
        if len(names) > 1 and axes.get_legend() is None:
            columns, _ = _legend(names, width_inches)
            drawing.figure.legend(handles, names, loc="outside lower left", ncols=columns)
        return drawing.svg(chart.title)


def _legend(names: Sequence[str], width: float) -> tuple[int, int]:
    """Returns columns and rows of a legend."""
    columns = int(width * _PER_INCH // (max(map(len, names), default=0) + 7))
    columns = max(1, min(len(names), columns))
    return columns, math.ceil(len(names) / columns)


def _height(chart: Chart, width: float) -> float:
    match chart:
        case Plot():
            names = [one.label for one in chart.series] + [one.label for one in chart.lines]
            return (3.6 if width == BROAD else 2.9) + 0.18 * _legend(names, width)[1]
        case StackedBars():
            return 0.8 + 0.5 * len(chart.bars) + 0.18 * _legend(chart.parts, width)[1]
        case HeatMap():
            return 0.7 + min(0.62, (width - 1.0) / len(chart.columns)) * len(chart.rows)
        case Figure():
            return chart.height_inches


def draw(chart: Chart, axes: Axes) -> None:
    """Draws a chart on axes."""
    match chart:
        case Plot():
            _draw_plot(chart, axes)
        case StackedBars():
            _draw_bars(chart, axes)
        case HeatMap():
            _draw_heat_map(chart, axes)
        case Figure():
            chart.draw(axes)


_MARKS = "os^D"
_DASHES = ("-", "--", ":")


def _draw_plot(chart: Plot, axes: Axes) -> None:
    for number, series in enumerate(chart.series):
        style = series.style or Style(number)
        shown = [p for p in series.points if chart.x.holds(p.x) and chart.y.holds(p.y)]
        axes.plot(
            [p.x for p in shown],
            [p.y for p in shown],
            linestyle="",
            marker=_MARKS[style.number % len(_MARKS)],
            color=COLOURS[style.number % len(COLOURS)],
            fillstyle="none" if style.second else "full",
            label=plain(series.label),
            zorder=4 - number / 100,  # over the lines
        )
        for point in shown:
            if point.text:
                axes.annotate(plain(point.text), (point.x, point.y), (4, 4), fontsize=9, zorder=5,
                              textcoords="offset points")  # fmt: skip
    for number, line in enumerate(chart.lines, len(chart.series)):
        style = line.style or Style(number)
        colour = COLOURS[style.number % len(COLOURS)]
        dash = "--" if style.second else _DASHES[style.number // len(COLOURS) % len(_DASHES)]
        y = [math.nan if v is None or not chart.y.holds(v) else v for v in line.y]
        # The extrapolated part is dashed; it begins at the last measured value.
        end = next((n for n, x in enumerate(line.x) if chart.is_beyond(x)), len(line.x))
        few = "o" if len(line.x) <= 12 and not chart.series else ""  # noqa: PLR2004 (more would touch)
        name = f"{line.label}, {chart.band_label}" if line.low else line.label
        if line.low:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(line.x[:end], y[:end], dash, color=colour, marker=few, label=plain(name))
        if end < len(line.x):
            axes.plot(line.x[max(end - 1, 0) :], y[max(end - 1, 0) :], "--", color=colour)
    if chart.front:
        axes.step(*zip(*sorted(chart.front), strict=True), where="post", color=INK, linewidth=1,
                  label="Pareto front")  # fmt: skip
    xs = [p.x for one in chart.series for p in one.points]
    xs += [x for line in chart.lines for x in line.x]
    ys = [p.y for one in chart.series for p in one.points]
    ys += [y for line in chart.lines for y in line.y if y is not None]
    _scale(chart.x, axes, "x", xs)
    _scale(chart.y, axes, "y", ys)
    if chart.extrapolated_from is not None and any(map(chart.is_beyond, xs)):
        right = axes.get_xlim()[1]
        axes.axvspan(chart.extrapolated_from, right, color=GREY, alpha=0.15, linewidth=0)
        axes.set_xlim(right=right)
        axes.text(0.99, 0.98, "extrapolated", style="italic", ha="right", va="top",
                  transform=axes.transAxes)  # fmt: skip


def _scale(axis: Axis, axes: Axes, which: Literal["x", "y"], values: Iterable[float]) -> None:
    """Sets scale, ends, ticks and label of an axis."""
    held = [value for value in values if axis.holds(value)]
    drawn = axes.xaxis if which == "x" else axes.yaxis
    if axis.log:
        axes.set(**{f"{which}scale": "log"}, **({} if held else {f"{which}lim": (0.1, 1.0)}))
    elif axis.from_zero:
        most = max(held, default=0.0)
        axes.set(**{f"{which}lim": (min(0.0, *held, 0.0), 1.06 * most if most > 0 else 1.0)})
    if axis.ticks:
        drawn.set_major_locator(FixedLocator(axis.ticks, nbins=9 if _width(axes) >= BROAD else 5))
        drawn.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
        drawn.set_minor_locator(NullLocator())
    elif axis.log:
        log_ticks(drawn)
    elif held and all(float(value).is_integer() for value in held):
        one = len(set(held)) == 1 and which == "x"
        drawn.set_major_locator(FixedLocator(held[:1]) if one else MaxNLocator(integer=True))
    axes.set(**{f"{which}label": textwrap.fill(plain(axis.label), 32)})


def _draw_bars(chart: StackedBars, axes: Axes) -> None:
    room = int(_width(axes) * _PER_INCH)
    begins = [0.0] * len(chart.bars)
    shown = [n for n in range(len(chart.parts)) if any(bar.values[n] for bar in chart.bars)]
    for number, part in enumerate(shown):
        widths = [bar.values[part] or 0.0 for bar in chart.bars]
        hatch = ("", "//", "..")[number // len(COLOURS) % 3]
        axes.barh(range(len(widths)), widths, 0.4, begins, color=COLOURS[number % len(COLOURS)],
                  hatch=hatch, label=plain(chart.parts[part]))  # fmt: skip
        begins = [begin + width for begin, width in zip(begins, widths, strict=True)]
    for row, bar in enumerate(chart.bars):
        total = _cut(chart.total_text(bar), int(0.6 * room))
        label = _cut(bar.label, room - len(total) - 4)
        across = axes.get_yaxis_transform()
        axes.text(0, row - 0.26, plain(label), va="bottom", transform=across)
        axes.text(1, row - 0.26, plain(total), va="bottom", ha="right", transform=across)
    axes.set_xlim(0, 1.04 * max(begins, default=0.0) or 1.0)
    axes.set_ylim(len(chart.bars) - 0.7, -0.75)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
    axes.set_xlabel(plain(chart.x.label))


def _width(axes: Axes) -> float:
    figure = axes.get_figure(root=True)
    return float(figure.get_figwidth()) if figure else BROAD


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: max(most, 4) - 1].rstrip()}…"


_BLUES = LinearSegmentedColormap.from_list("blues", ("#e8f0fa", "#16488c"))


def _draw_heat_map(chart: HeatMap, axes: Axes) -> None:
    every = [value for row in chart.values for value in row]
    norm = LogNorm(min(every), max(every))
    axes.imshow(chart.values, norm=norm, cmap=_BLUES, interpolation="none")
    side = (_width(axes) - 1.0) / len(chart.columns)
    for row, values in enumerate(chart.values if side > 0.42 else ()):  # noqa: PLR2004 (inches of a number)
        for column, value in enumerate(values):
            ink = "#ffffee" if norm(value) > 0.5 else "#1c2733"  # noqa: PLR2004 (half dark)
            axes.text(column, row, f"{value:.3g}", color=ink, ha="center", va="center", fontsize=9)
    step = max(1, math.ceil(0.25 / side))
    axes.set_xticks(
        range(0, len(chart.columns), step), [_cut(n, 12) for n in chart.columns[::step]]
    )
    axes.set_yticks(range(0, len(chart.rows), step), [_cut(n, 16) for n in chart.rows[::step]])
    axes.xaxis.tick_top()
    axes.set_ylabel(plain(chart.corner))
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
