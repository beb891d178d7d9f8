"""Panels of a figure: curve of each sample above, ratio to the Monte Carlo below, MC-MC baseline as a band.

Drawn in the style of high-energy physics: histograms as steps, ticks inward on all four sides. The band is
the root mean square difference of two samples of Monte Carlo of the compared sizes, from random halves of the
reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from cloudgan.reports.charts import GREY, INK
from cloudgan.reports.drawing import Drawing, log_ticks, plain
from cloudgan.validation.measures import MIN_SHOWERS_PER_BIN, equal_bins
from cloudgan.validation.observables import Observables, ratio
from cloudgan.validation.samples import DrawnSample, Samples

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Figure:
    """An SVG figure with its caption.

    The name is unique in the page, the family is the heading of its section.
    """

    name: str
    family: str
    svg: str
    caption: str


_BAND_ALPHA = 0.35
BASELINE_NAME = "MC-MC baseline"
_RATIO_SPANS = (0.05, 0.1, 0.2, 0.5, 1.0)
_DIFFERENCE_SPANS = tuple(factor * 10.0**power for power in range(-4, 4) for factor in (1, 2, 5))
_SHOWN = 0.9
"""Share of the points that the lower axis must show."""
_BELOW_ALL = 1e3
"""Factor by which a filled area extends below its minimum on a logarithmic axis."""
_OPEN = 1e3
"""Half-width of the band where the baseline is unknown: beyond the axis."""
_WIDTH_INCHES, _LEGEND_INCHES = 9.0, 0.26
_LEFT_INCHES, _RIGHT_INCHES, _BELOW_INCHES = 0.74, 0.16, 0.54
_CURVE_INCHES, _GAP_INCHES, _RATIO_INCHES = 2.1, 0.07, 0.8
_ROW_INCHES = _BELOW_INCHES + _RATIO_INCHES + _GAP_INCHES + _CURVE_INCHES + 0.12
_COLUMNS, _TICKS = 3, 5
"""Maximum number of panels in a row, and of tick labels on an axis."""


class Curve(NamedTuple):
    """Values per bin and their standard errors; nan where unknown."""

    values: Floats
    errors: Floats


@dataclass(frozen=True)
class Panel:
    """One curve of all samples.

    Attributes:
        edges: Bin edges, ascending.
        form: Steps for histograms and profiles, points for means per bin.
        compare: Ratio to the reference, or difference where a ratio is not meaningful.
        log_y: Logarithmic y axis; bins of zero are left out.
        from_zero: A linear y axis starts at zero.
        difference_label: Label with unit of the lower axis where differences are shown.
        marks: Positions on the x axis drawn as dotted lines.
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
        """Reference line of the lower panel: 1 for ratios, 0 for differences."""
        return 1.0 if self.compare == "ratio" else 0.0

    @property
    def middles(self) -> Floats:
        """Bin centres on the scale of the axis."""
        low, high = self.edges[:-1], self.edges[1:]
        return np.sqrt(low * high) if self.log_x else (low + high) / 2

    def shown(self, values: Floats) -> Floats:
        """Values that the y axis can show; nan for the rest."""
        return np.where(values > 0, values, np.nan) if self.log_y else values

    def against(self, ours: Curve, theirs: Curve) -> Curve:
        """Ratio or difference of two curves, with the errors of both."""
        if self.compare == "difference":
            return Curve(ours.values - theirs.values, np.hypot(ours.errors, theirs.errors))
        values = ratio(ours.values, theirs.values)
        error = np.hypot(
            ratio(ours.errors, theirs.values),
            values * ratio(theirs.errors, theirs.values),
        )
        return Curve(values, error)

    def baseline(self, samples: Samples) -> Floats:
        """Root mean square difference of two samples of Monte Carlo of the compared sizes, per bin; nan: unknown.

        It is that of the halves of the reference, scaled to these sizes. For ratios it is relative to the
        whole reference, so that an empty half is harmless.
        """
        deviation = [
            self.measure(one).values - self.measure(other).values for one, other in samples.halves
        ]
        found: Floats = samples.baseline_scale * np.sqrt(np.square(deviation).mean(0))
        if self.compare == "difference":
            return found
        whole = self.measure(samples.reference).values
        return ratio(found, whole)


def draw_panels(title: str, panels: Sequence[Panel], samples: Samples) -> str:
    """Draws panels side by side, three in a row. Returns SVG."""
    columns = min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    names = [one.name for one in (samples.shown_reference, *samples.compared)]
    beside = legend_columns([*names, BASELINE_NAME])
    legend = _LEGEND_INCHES * math.ceil((len(names) + 1) / beside)
    height = legend + rows * _ROW_INCHES
    with Drawing(_WIDTH_INCHES, height) as drawing:
        drawing.figure.set_layout_engine("none")  # explicit positions: fast and reproducible
        for number, panel in enumerate(panels):
            row, column = divmod(number, columns)
            left = column * _WIDTH_INCHES / columns + _LEFT_INCHES
            wide = _WIDTH_INCHES / columns - _LEFT_INCHES - _RIGHT_INCHES
            base = height - legend - (row + 1) * _ROW_INCHES + _BELOW_INCHES
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
            [*handles, band], [*names, BASELINE_NAME], loc="upper left", ncols=beside,
            bbox_to_anchor=(_LEFT_INCHES / _WIDTH_INCHES, 1.0), borderpad=0, borderaxespad=0.1,
        )  # fmt: skip
        return drawing.svg(title)


def legend_columns(names: Sequence[str]) -> int:
    """Returns how many of the names fit beside each other in a legend; at least 1."""
    with Drawing(_WIDTH_INCHES, 1.0) as drawing:
        drawing.figure.set_layout_engine("none")
        for columns in range(len(names), 1, -1):
            legend = drawing.figure.legend(
                [Patch()] * len(names), list(map(plain, names)), ncols=columns, borderpad=0,
                loc="upper left",
            )  # fmt: skip
            wide = legend.get_window_extent().width / drawing.figure.dpi
            legend.remove()
            if wide <= _WIDTH_INCHES - _LEFT_INCHES - _RIGHT_INCHES:
                return columns
    return 1


def physics_ticks(axes: Axes) -> None:
    """Ticks inward on all four sides of a closed frame, no grid; also 2 and 5 on logarithmic axes."""
    axes.spines[["top", "right"]].set_visible(True)
    axes.grid(visible=False)
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "linear":
            axis.set_major_locator(MaxNLocator(_TICKS, steps=[1, 2, 5, 10]))
            continue
        log_ticks(axis, _TICKS + 2)
    axes.tick_params(which="both", direction="in", top=True, right=True)
    axes.tick_params(which="major", length=5)
    axes.tick_params(which="minor", length=2.5)


def _draw(above: Axes, below: Axes, panel: Panel, samples: Samples) -> None:
    reference, baseline = panel.measure(samples.reference), panel.baseline(samples)
    _band(below, panel, baseline)
    _curve(above, panel, reference, samples.shown_reference)
    compared = []
    for drawn in samples.compared:
        curve = panel.measure(drawn.sample)
        _curve(above, panel, curve, drawn)
        compared.append(panel.against(curve, reference))
        _compared(below, panel, compared[-1], drawn)
    span = _span(panel, compared[-1], baseline)
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


def _curve(axes: Axes, panel: Panel, curve: Curve, drawn: DrawnSample) -> None:
    """Draws points, or steps: of the Monte Carlo over an area, of the sample under test with errors."""
    is_reference = drawn.colour == INK
    if panel.form == "points":
        _errorbars(axes, panel, curve, drawn, marker="s" if is_reference else "o")
        return
    values = panel.shown(curve.values)
    how: dict[str, Any] = (
        {"linewidth": 1.2} if is_reference else {"linewidth": 1.5, "baseline": None}
    )
    axes.stairs(
        values,
        panel.edges,
        color=drawn.colour,
        linestyle=drawn.line,
        label=plain(drawn.name),
        **how,
    )
    if is_reference:
        lowest = _lowest(values) / _BELOW_ALL if panel.log_y else 0.0
        axes.stairs(
            np.nan_to_num(values, nan=lowest), panel.edges, baseline=lowest, fill=True, color=GREY,
            alpha=0.22, linewidth=0,
        )  # fmt: skip
    elif drawn.is_tested:
        _errorbars(axes, panel, Curve(values, curve.errors), drawn)


def _compared(axes: Axes, panel: Panel, curve: Curve, drawn: DrawnSample) -> None:
    if drawn.is_tested:
        _errorbars(axes, panel, curve, drawn, marker="o")
    else:
        axes.stairs(
            curve.values, panel.edges, baseline=None, color=drawn.colour, linestyle=drawn.line,
            linewidth=1.1,
        )  # fmt: skip


def _errorbars(
    axes: Axes, panel: Panel, curve: Curve, drawn: DrawnSample, marker: str = ""
) -> None:
    known = np.isfinite(curve.values)
    places = panel.middles[known]
    points = panel.form == "points"
    widths = np.abs(np.stack([panel.edges[:-1][known], panel.edges[1:][known]]) - places)
    axes.errorbar(
        places, curve.values[known], np.nan_to_num(curve.errors[known]), widths if points else None,
        color=drawn.colour, marker=marker, markersize=3.8 if points else 2.4, linestyle="none",
        elinewidth=0.9, label=plain(drawn.name) if points else None,
    )  # fmt: skip


def _band(axes: Axes, panel: Panel, baseline: Floats) -> None:
    wide = np.nan_to_num(baseline, nan=_OPEN)
    axes.stairs(
        panel.ideal + wide, panel.edges, baseline=panel.ideal - wide, fill=True, color=GREY,
        alpha=_BAND_ALPHA, linewidth=0,
    )  # fmt: skip
    axes.axhline(panel.ideal, color=INK, linewidth=0.8)


def _span(panel: Panel, curve: Curve, baseline: Floats) -> float:
    """Narrowest span of the lower axis that shows nearly all of the sample under test."""
    deviation = np.abs(curve.values[np.isfinite(curve.values)] - panel.ideal)
    usual = float(np.nanmedian(baseline)) if np.isfinite(baseline).any() else 0.0
    needed = max(float(np.quantile(deviation, _SHOWN)) if deviation.size else 0.0, 1.2 * usual)
    spans = _RATIO_SPANS if panel.compare == "ratio" else _DIFFERENCE_SPANS
    return next((span for span in spans if span >= needed), spans[-1])


def _arrows(axes: Axes, panel: Panel, curve: Curve, drawn: DrawnSample, span: float) -> None:
    """Draws an arrow at the end of the axis for each point beyond it."""
    for sign, marker in ((1, "^"), (-1, "v")):
        beyond = sign * (curve.values - panel.ideal) > span
        places = panel.middles[beyond]
        axes.plot(
            places, np.full(len(places), panel.ideal + sign * span * 0.93), color=drawn.colour,
            marker=marker, markersize=4, linestyle="none",
        )  # fmt: skip


def _lowest(values: Floats) -> float:
    """Smallest positive value; 1 if there is none."""
    known = values[np.isfinite(values)]
    return float(known.min()) if known.size else 1.0


Values = Callable[[Observables], Floats]
Measure = Callable[[Observables], Curve]

_TAILS = 0.002


def shares(values: Values, edges: Floats) -> Measure:
    """Share of the showers in each bin, with Poisson errors; unknown values (nan) count in no bin."""

    def measure(sample: Observables) -> Curve:
        counts, _ = np.histogram(values(sample), edges)
        return Curve(counts / len(sample), np.sqrt(counts) / len(sample))

    return measure


def mean_rows(rows: Values, factor: float = 1.0) -> Measure:
    """Mean over the showers of (N, bins) values, such as profiles and spectra, times `factor`."""

    def measure(sample: Observables) -> Curve:
        found = rows(sample)
        return Curve(factor * found.mean(0), factor * found.std(0) / np.sqrt(len(found)))

    return measure


def means(at: Values, values: Values, edges: Floats) -> Measure:
    """Mean of `values` in bins of `at`, with its error."""

    def measure(sample: Observables) -> Curve:
        parts = _parts(at(sample), values(sample), edges)
        found = [(part.mean(), part.std() / np.sqrt(part.size)) for part in parts]
        return Curve(*np.array(found, np.float64).T)

    return measure


def widths_percent(at: Values, values: Values, edges: Floats) -> Measure:
    """Standard deviation over mean, %, in bins of `at`, with the Gaussian error s/sqrt(2n)."""

    def measure(sample: Observables) -> Curve:
        parts = _parts(at(sample), values(sample), edges)
        found = []
        for part in parts:
            width = 100 * part.std() / part.mean() if part.mean() > 0 else np.nan
            found.append((width, width / np.sqrt(2 * part.size)))
        return Curve(*np.array(found, np.float64).T)

    return measure


def shared_edges(samples: tuple[Floats, ...]) -> Floats:
    """Edges of equal bins that contain nearly all of each sample; their number grows with the sample size."""
    known = [values[np.isfinite(values)] for values in samples]
    known = [values for values in known if values.size] or [np.array([0.0, 1.0])]
    low = min(float(np.quantile(values, _TAILS)) for values in known)
    high = max(float(np.quantile(values, 1 - _TAILS)) for values in known)
    return equal_bins(low, high, min(map(len, known)))


def integer_edges(samples: tuple[Floats, ...]) -> Floats:
    """Edges as of `shared_edges`, centred on integers, for counts and layers."""
    fine = shared_edges(samples)
    low, high = np.floor(fine[0]), np.ceil(fine[-1])
    step = max(1.0, np.ceil((high - low + 1) / len(fine)))
    return np.arange(low - 0.5, high + 0.5 + step, step)


def _parts(at: Floats, values: Floats, edges: Floats) -> list[Floats]:
    """Values in each bin; the last bin includes its upper edge, a bin with too few showers is nan."""
    number = np.searchsorted(edges, at, side="right") - 1
    number[at == edges[-1]] = len(edges) - 2
    known = np.isfinite(values)
    parts = (values[(number == row) & known] for row in range(len(edges) - 1))
    return [part if part.size >= MIN_SHOWERS_PER_BIN else np.full(1, np.nan) for part in parts]
