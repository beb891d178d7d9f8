"""Figures as inline SVG that follow the page: text stays text, ink takes the page's colour.

Drawn with Matplotlib's objects, never its global state. The SVG has no id that another figure of
the page could have, loads nothing, and reads in light and dark, since its ink is `currentColor`.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Self
from xml.sax.saxutils import escape, quoteattr

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from cloudgan.reports.palette import COLOURS, GREY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

__all__ = ["COLOURS", "GREY", "INK", "Drawing", "plain"]

_INK = "#010203"  # stands for the text colour of the page; no figure uses it otherwise

_DIGITS = re.compile(r"(\d\.\d\d)\d+")
"""A hundredth of a pixel is enough."""

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "cloudgan",  # else every run gives other ids
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
"""Colour that becomes the page's text colour."""


class Drawing:
    """A figure that is being drawn; use it in a `with` block, then ask for `svg`."""

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
        """Returns the SVG element; `name` is unique in the page, `title` is read aloud."""
        text = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(self.figure).print_svg(text, metadata=nothing)  # type: ignore[no-untyped-call]
        return _inline(text.getvalue(), name, title)

    def png(self, dots_per_inch: int = 150) -> bytes:
        """Returns a picture by itself, black on white."""
        picture = io.BytesIO()
        self.figure.set_dpi(dots_per_inch)
        FigureCanvasAgg(self.figure).print_png(picture)  # type: ignore[no-untyped-call]
        return picture.getvalue()


def plain(label: str) -> str:
    """Keeps Matplotlib from reading dollar signs as mathematics."""
    return label.replace("$", r"\$")


def _inline(text: str, name: str, title: str) -> str:
    """Makes a file's SVG fit to stand inside an HTML page beside others."""
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = text.replace("xlink:href=", "href=")
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # nobody asks for a group by its name
    text = re.sub(r"<[^>]*>", lambda tag: _DIGITS.sub(r"\1", tag.group()), text)
    text = re.sub(r"^\s+", "", text, flags=re.MULTILINE)
    # The white sheet behind the axes would hide a dark page.
    text = re.sub(r"fill: ?#ffffff(?=[;\"])", "fill: none", text)
    text = text.replace(_INK, "currentColor")
    head, rest = text.split(">", 1)
    view = re.search(r'viewBox="[^"]+"', head)
    opening = f'<svg {view.group() if view else ""} role="img" aria-label={quoteattr(title)}'
    return f"{opening}><title>{escape(title)}</title>{rest}".strip()
