"""Panels of generated over reference: the curve above, its ratio below, the floor as a band.

In the manner of high-energy physics: histograms as steps, ticks inward on all four sides, the ratio
to the Monte Carlo in a panel of its own under the same axis. The band is the same ratio for two
random halves of the reference, as a root mean square over halvings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from cloudgan.reports.drawing import GREY, INK, Drawing, plain
from cloudgan.reports.number import tick_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from cloudgan.validation.observables import Observables
    from cloudgan.validation.plot_samples import Drawn, Samples

    Floats = NDArray[np.float64]

_BAND_ALPHA = 0.35
FLOOR_NAME = "floor: two halves of the Monte Carlo"
_RATIO_SPANS = (0.05, 0.1, 0.2, 0.5, 1.0)
_DIFFERENCE_SPANS = tuple(factor * 10.0**power for power in range(-4, 4) for factor in (1, 2, 5))
_SHOWN = 0.9
"""Share of the points that must lie within the lower axis."""
_BELOW_ALL = 1e3
"""How far a sheet reaches below its least value on a logarithmic axis, which cuts it off."""
_OPEN = 1e3
"""Where the halves say nothing anything goes, and the band reaches beyond the axis."""
_WIDTH_INCHES, _LEGEND_INCHES = 9.0, 0.26
_LEFT_INCHES, _RIGHT_INCHES, _BELOW_INCHES = 0.74, 0.16, 0.54
_CURVE_INCHES, _GAP_INCHES, _RATIO_INCHES = 2.1, 0.07, 0.8
_ROW_INCHES = _BELOW_INCHES + _RATIO_INCHES + _GAP_INCHES + _CURVE_INCHES + 0.12
_TICKS = 5
"""Numbers at an axis, at most."""


class Curve(NamedTuple):
    """Values per bin and their standard errors; nan where nothing is known."""

    values: Floats
    errors: Floats


@dataclass(frozen=True)
class Panel:
    """One curve of all samples.

    Attributes:
        measure: Gives the curve of a sample.
        edges: Of the bins, rising.
        x_label: With unit.
        y_label: With unit.
        form: Steps for histograms and profiles, points for means of bins.
        compare: Ratio to the reference, or difference where a ratio says nothing.
        log_x: Logarithmic x axis.
        log_y: Logarithmic y axis; bins of zero are left out.
        from_zero: A linear y axis begins at zero.
        difference_label: Of the lower axis where differences are shown, with unit.
        marks: Places on the x axis that mean something, drawn dotted.
    """

    measure: Callable[[Observables], Curve]
    edges: Floats
    x_label: str
    y_label: str
    form: Literal["steps", "points"] = "steps"
    compare: Literal["ratio", "difference"] = "ratio"
    log_x: bool = False
    log_y: bool = False
    from_zero: bool = True
    difference_label: str = ""
    marks: tuple[float, ...] = ()

    @property
    def ideal(self) -> float:
        """Where the lower panel has its line: 1 for ratios, 0 for differences."""
        return 1.0 if self.compare == "ratio" else 0.0

    @property
    def middles(self) -> Floats:
        """Of the bins, as the axis shows them."""
        low, high = self.edges[:-1], self.edges[1:]
        return np.sqrt(low * high) if self.log_x else (low + high) / 2

    def shown(self, values: Floats) -> Floats:
        """What has a place on the y axis; nan for the rest."""
        return np.where(values > 0, values, np.nan) if self.log_y else values

    def against(self, ours: Curve, theirs: Curve) -> Curve:
        """Ratio or difference of two curves, with the errors of both."""
        if self.compare == "difference":
            return Curve(ours.values - theirs.values, np.hypot(ours.errors, theirs.errors))
        known = theirs.values > 0
        values = _over(ours.values, theirs.values, known)
        error = np.hypot(
            _over(ours.errors, theirs.values, known),
            values * _over(theirs.errors, theirs.values, known),
        )
        return Curve(values, error)

    def floor(self, samples: Samples) -> Floats:
        """Root mean square distance of the two halves of the reference, per bin; nan: unknown.

        For ratios it is relative to the whole reference, so that an empty half does no harm.
        """
        away = [
            self.measure(one).values - self.measure(other).values for one, other in samples.halves
        ]
        found: Floats = np.sqrt(np.square(away).mean(0))
        if self.compare == "difference":
            return found
        whole = self.measure(samples.reference).values
        return _over(found, whole, whole > 0)


def draw_panels(
    name: str, title: str, panels: Sequence[Panel], samples: Samples, columns: int = 3
) -> str:
    """Draws panels side by side, `columns` in a row; `name` is unique in the page. Returns SVG."""
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    height = _LEGEND_INCHES + rows * _ROW_INCHES
    with Drawing(_WIDTH_INCHES, height) as drawing:
        drawing.figure.set_layout_engine("none")  # places are given: fast, and alike everywhere
        for number, panel in enumerate(panels):
            row, column = divmod(number, columns)
            left = column * _WIDTH_INCHES / columns + _LEFT_INCHES
            wide = _WIDTH_INCHES / columns - _LEFT_INCHES - _RIGHT_INCHES
            base = height - _LEGEND_INCHES - (row + 1) * _ROW_INCHES + _BELOW_INCHES
            below = drawing.figure.add_axes(
                (left / _WIDTH_INCHES, base / height, wide / _WIDTH_INCHES, _RATIO_INCHES / height)
            )
            base += _RATIO_INCHES + _GAP_INCHES
            above = drawing.figure.add_axes(
                (left / _WIDTH_INCHES, base / height, wide / _WIDTH_INCHES, _CURVE_INCHES / height)
            )
            _draw(above, below, panel, samples)
        handles, names = above.get_legend_handles_labels()
        band = Patch(color=GREY, alpha=_BAND_ALPHA, linewidth=0)
        drawing.figure.legend(
            [*handles, band], [*names, FLOOR_NAME], loc="upper left", ncols=4, frameon=False,
            bbox_to_anchor=(_LEFT_INCHES / _WIDTH_INCHES, 1.0), borderpad=0, borderaxespad=0.1,
        )  # fmt: skip
        return drawing.svg(name, title)


def physics_ticks(axes: Axes) -> None:
    """Ticks inward on all four sides of a closed frame, no grid; also 2 and 5 on logarithmic axes."""
    axes.spines[["top", "right"]].set_visible(True)
    axes.grid(visible=False)
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "linear":
            axis.set_major_locator(MaxNLocator(_TICKS, steps=[1, 2, 5, 10]))
            continue
        axis.set_major_locator(LogLocator(numticks=_TICKS + 2))
        axis.set_minor_locator(LogLocator(subs=(0.2, 0.5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
        axis.set_minor_formatter(NullFormatter())
    axes.tick_params(which="both", direction="in", top=True, right=True)
    axes.tick_params(which="major", length=5)
    axes.tick_params(which="minor", length=2.5)


def _draw(above: Axes, below: Axes, panel: Panel, samples: Samples) -> None:
    reference, floor = panel.measure(samples.reference), panel.floor(samples)
    _band(below, panel, floor)
    _reference(above, panel, reference, samples.shown_reference)
    compared = []
    for drawn in samples.compared:
        curve = panel.measure(drawn.sample)
        _curve(above, panel, curve, drawn)
        compared.append(panel.against(curve, reference))
        _compared(below, panel, compared[-1], drawn)
    span = _span(panel, compared[-1], floor)
    below.set_ylim(panel.ideal - span, panel.ideal + span)
    _arrows(below, panel, compared[-1], samples.compared[-1], span)
    for axes in (above, below):
        if panel.log_x:
            axes.set_xscale("log")
        axes.set_xlim(panel.edges[0], panel.edges[-1])
        for mark in panel.marks:
            axes.axvline(mark, color=GREY, linewidth=1, linestyle=":")
    if panel.log_y:
        above.set_yscale("log", nonpositive="mask")
        known = [
            panel.shown(panel.measure(s).values) for s in (samples.reference, samples.generated)
        ]
        above.set_ylim(bottom=min(map(_lowest, known)) / 2)
    elif panel.from_zero:
        above.set_ylim(bottom=0)
    physics_ticks(above)
    physics_ticks(below)
    below.set_yticks([panel.ideal - span / 2, panel.ideal, panel.ideal + span / 2])
    above.tick_params(labelbottom=False)
    above.set_ylabel(plain(panel.y_label))
    below.set_xlabel(plain(panel.x_label))
    below.set_ylabel(plain(panel.difference_label or "ratio to MC"), fontsize=9)


def _reference(axes: Axes, panel: Panel, curve: Curve, drawn: Drawn) -> None:
    if panel.form == "points":
        _errorbars(axes, panel, curve, drawn, marker="s")
        return
    values = panel.shown(curve.values)
    axes.stairs(values, panel.edges, color=drawn.colour, linewidth=1.2, label=plain(drawn.name))
    lowest = _lowest(values) / _BELOW_ALL if panel.log_y else 0.0
    axes.stairs(
        np.nan_to_num(values, nan=lowest), panel.edges, baseline=lowest, fill=True, color=GREY,
        alpha=0.22, linewidth=0,
    )  # fmt: skip


def _curve(axes: Axes, panel: Panel, curve: Curve, drawn: Drawn) -> None:
    if panel.form == "points":
        _errorbars(axes, panel, curve, drawn, marker="o")
        return
    values = panel.shown(curve.values)
    axes.stairs(
        values, panel.edges, color=drawn.colour, linestyle=drawn.line, linewidth=1.5,
        label=plain(drawn.name), baseline=None,
    )  # fmt: skip
    if drawn.is_tested:
        _errorbars(axes, panel, Curve(values, curve.errors), drawn)


def _compared(axes: Axes, panel: Panel, curve: Curve, drawn: Drawn) -> None:
    if drawn.is_tested:
        _errorbars(axes, panel, curve, drawn, marker="o")
    else:
        axes.stairs(
            curve.values, panel.edges, baseline=None, color=drawn.colour, linestyle=drawn.line,
            linewidth=1.1,
        )  # fmt: skip


def _errorbars(axes: Axes, panel: Panel, curve: Curve, drawn: Drawn, marker: str = "") -> None:
    known = np.isfinite(curve.values)
    places = panel.middles[known]
    points = panel.form == "points"
    widths = np.abs(np.stack([panel.edges[:-1][known], panel.edges[1:][known]]) - places)
    axes.errorbar(
        places, curve.values[known], np.nan_to_num(curve.errors[known]), widths if points else None,
        color=drawn.colour, marker=marker, markersize=3.8 if points else 2.4, linestyle="none",
        elinewidth=0.9, label=plain(drawn.name) if points else None,
    )  # fmt: skip


def _band(axes: Axes, panel: Panel, floor: Floats) -> None:
    wide = np.nan_to_num(floor, nan=_OPEN)
    axes.stairs(
        panel.ideal + wide, panel.edges, baseline=panel.ideal - wide, fill=True, color=GREY,
        alpha=_BAND_ALPHA, linewidth=0,
    )  # fmt: skip
    axes.axhline(panel.ideal, color=INK, linewidth=0.8)


def _span(panel: Panel, curve: Curve, floor: Floats) -> float:
    """The narrowest span of the lower axis that shows nearly all of the sample under test."""
    away = np.abs(curve.values[np.isfinite(curve.values)] - panel.ideal)
    usual = float(np.nanmedian(floor)) if np.isfinite(floor).any() else 0.0
    needed = max(float(np.quantile(away, _SHOWN)) if away.size else 0.0, 1.2 * usual)
    spans = _RATIO_SPANS if panel.compare == "ratio" else _DIFFERENCE_SPANS
    return next((span for span in spans if span >= needed), spans[-1])


def _arrows(axes: Axes, panel: Panel, curve: Curve, drawn: Drawn, span: float) -> None:
    """Points beyond the axis are not silently lost: an arrow stands at its end."""
    for sign, marker in ((1, "^"), (-1, "v")):
        beyond = sign * (curve.values - panel.ideal) > span
        places = panel.middles[beyond]
        axes.plot(
            places, np.full(len(places), panel.ideal + sign * span * 0.93), color=drawn.colour,
            marker=marker, markersize=4, linestyle="none",
        )  # fmt: skip


def _lowest(values: Floats) -> float:
    """The least of positive values; 1 where there is none."""
    known = values[np.isfinite(values)]
    return float(known.min()) if known.size else 1.0


def _over(above: Floats, below: Floats, known: NDArray[np.bool_]) -> Floats:
    return np.divide(above, below, out=np.full_like(below, np.nan), where=known)
