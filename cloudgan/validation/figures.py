"""Figures of a validation report: showers, response, profiles, shower shape, cells, angle, correlations, distances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LogNorm
from numpy.typing import NDArray

from cloudgan.data.showers import CELL_MM
from cloudgan.reports.drawing import Drawing, log_ticks, plain
from cloudgan.validation.assessment import Assessment
from cloudgan.validation.comparisons import correlation_figures, distance_figures
from cloudgan.validation.observables import SPECTRUM_EDGES_GEV, Observables
from cloudgan.validation.overlap import bins_for
from cloudgan.validation.panels import (
    Figure,
    Panel,
    draw_panels,
    integer_edges,
    mean_rows,
    means,
    shared_edges,
    shares,
    widths_percent,
)
from cloudgan.validation.samples import Samples

Floats = NDArray[np.float64]
Values = Callable[[Observables], Floats]


_TREND_BINS = 9
_FEWEST_IN_BIN = 15
_DISTRIBUTIONS = 3
_ENERGY, _ANGLE = "energy of the primary (GeV)", "requested angle (degrees)"
_MEV = 1000.0
_HIT_MEV = 0.3
_BAND = (
    "Grey band: the MC-MC baseline, one standard deviation of the difference of two samples of Monte Carlo of"
    " these sizes."
)

Drawn = tuple[str, str, list[Panel], str]
"""Name, title, panels and caption of a figure."""


def figures(samples: Samples, assessment: Assessment) -> Iterator[Figure]:
    """Yields all figures in reading order; those of one family are adjacent."""
    yield from shower_figures(samples)
    for family in FAMILIES:
        yield from family_figures(samples, family)
    yield from correlation_figures(samples)
    yield from distance_figures(assessment)


def family_figures(samples: Samples, family: str) -> Iterator[Figure]:
    """Yields the figures of one of `FAMILIES`."""
    for name, title, panels, caption in FAMILIES[family](samples):
        svg = draw_panels(title, panels, samples)
        yield Figure(name, family, svg, f"{caption} {_BAND}")


def _response(samples: Samples) -> Iterator[Drawn]:
    """Mean and width of Esum/E in bins of energy and of angle, and its distribution."""
    yield (
        "response-energy", "Energy response and resolution against energy",
        _trends(lambda sample: sample.energy_gev, samples, _ENERGY),
        ("Left: mean of Esum/E, the energy in all cells over that of the primary. Right: resolution, its"
        " standard deviation over its mean."),
    )  # fmt: skip
    yield (
        "response-angle", "Energy response and resolution against angle",
        _trends(_requested_deg, samples, _ANGLE), "The same in bins of the requested angle.",
    )  # fmt: skip
    yield (
        "response-shares", "Distribution of the energy response", list(_distributions(samples)),
        "Esum/E of single showers, in bins of the energy of the primary.",
    )  # fmt: skip


def _trends(at: Values, samples: Samples, label: str) -> list[Panel]:
    edges = trend_edges(at(samples.reference))
    return [
        Panel(means(at, _percent, edges), edges, label, "mean Esum/E (%)", form="points",
              from_zero=False),
        Panel(widths_percent(at, _percent, edges), edges, label, "resolution (% of mean)",
              form="points"),
    ]  # fmt: skip


def trend_edges(values: Floats) -> Floats:
    """Edges of equal bins over a range, few enough that each holds enough showers."""
    bins = int(np.clip(len(values) // _FEWEST_IN_BIN, 1, _TREND_BINS))
    low, high = float(values.min()), float(values.max())
    if high - low < 1e-6 * max(abs(high), 1e-6):
        return np.array([low - 0.5, high + 0.5])
    return np.linspace(low, high, bins + 1)


def _distributions(samples: Samples) -> Iterator[Panel]:
    bins = bins_for(samples.overlap, _DISTRIBUTIONS)
    for number, name in enumerate(bins.names()[0]):

        def values(sample: Observables, number: int = number) -> Floats:
            return np.where(bins.bin_numbers(sample)[0] == number, _percent(sample), np.nan)

        label = f"Esum/E (%), {name}"
        yield distribution(samples, values, label, share="share of all showers")


def _requested_deg(sample: Observables) -> Floats:
    return np.rad2deg(sample.requested_rad)


def _percent(sample: Observables) -> Floats:
    return 100 * sample.response


def _profiles(samples: Samples) -> Iterator[Drawn]:
    """Mean energy per layer and per column, for each GeV, linear and logarithmic."""

    def panel(axis: str, label: str, *, log: bool) -> Panel:
        def profile(sample: Observables) -> Floats:
            # The division removes the spread of the energies from the errors.
            found: Floats = getattr(sample, f"profile_{axis}_gev") / sample.energy_gev[:, None]
            return found

        bins = samples.reference.image["xyz".index(axis)]
        edges = np.linspace(-bins / 2, bins / 2, bins + 1) * CELL_MM  # around the middle
        if axis == "z":  # layers are numbered from 1
            edges = np.linspace(0.5, bins + 0.5, bins + 1)
        per = "layer" if axis == "z" else "column"
        return Panel(mean_rows(profile, _MEV), edges, label, f"E per {per} (MeV/GeV)", log_y=log)

    labels = {"z": "layer", "y": "y (mm)", "x": "x (mm)"}
    yield (
        "profiles", "Longitudinal and lateral profiles of the energy",
        [panel(axis, label, log=False) for axis, label in labels.items()],
        ("Mean energy per layer, and per column of cells along y (in which the axis of the shower"
        " tilts) and x, for each GeV of the primary."),
    )  # fmt: skip
    yield (
        "profiles-log", "The profiles on a logarithmic scale",
        [panel(axis, label, log=True) for axis, label in labels.items()],
        "The same profiles on a logarithmic scale show the lateral tails.",
    )  # fmt: skip


def distribution(
    samples: Samples,
    values: Values,
    label: str,
    *,
    whole: bool = False,
    share: str = "share of the showers",
) -> Panel:
    """Returns a panel with the distribution of one number per shower; nan is unknown."""
    found = (values(samples.reference), values(samples.generated))
    edges = integer_edges(found) if whole else shared_edges(found)
    return Panel(shares(values, edges), edges, label, share)


def _shape(samples: Samples) -> Iterator[Drawn]:
    """Barycentre and width along each axis."""
    places = (("z", "depth", "layer"), ("y", "y", "mm"), ("x", "x", "mm"))
    panels = [
        distribution(samples, moment(axis, 1), f"barycentre along {word} ({unit})")
        for axis, word, unit in places
    ]
    panels += [
        distribution(
            samples, moment(axis, 2), f"rms width along {word} ({unit}{'s' * (axis == 'z')})"
        )
        for axis, word, unit in places
    ]
    yield (
        "moments", "First and second moments of the showers", panels,
        ("Above: energy-weighted mean position of each shower. Below: root mean square distance from"
        " it, including the tilt of the axis."),
    )  # fmt: skip


def moment(axis: str, order: int) -> Values:
    """Returns barycentre (1) or rms width (2) along an axis, per shower; nan for empty showers.

    Layers are numbered from 1; x and y are in mm from the centre of the window.
    """

    def values(sample: Observables) -> Floats:
        mean, variance = sample.moments(axis)
        unit = 1.0 if axis == "z" else CELL_MM
        cells = sample.image["xyz".index(axis)]
        first = mean + 1 if axis == "z" else (mean - (cells - 1) / 2) * unit
        found = first if order == 1 else np.sqrt(variance) * unit
        return np.where(sample.sum_gev > 0, found, np.nan)

    return values


def _cells(samples: Samples) -> Iterator[Drawn]:
    """Hits, layer of the maximum, largest cell, spectrum and sparsity."""

    def maximum(sample: Observables) -> Floats:
        return np.where(sample.sum_gev > 0, sample.layer_of_maximum + 1, np.nan)

    yield (
        "cells", "Hits, position of the maximum and largest cell",
        [
            distribution(samples, lambda s: s.hits, "cells above 0.3 MeV (hits)", whole=True),
            distribution(samples, maximum, "layer with the most energy", whole=True),
            distribution(samples, lambda s: 1000 * s.largest_gev, "largest cell (MeV)"),
        ],
        ("Per shower: cells crossed by about one particle or more, layer of the shower maximum, energy"
        " of the largest cell."),
    )  # fmt: skip
    counts = sum(sample.spectrum.sum(0) for sample in (samples.reference, samples.generated))
    held = np.flatnonzero(counts)  # bins in which either sample has a cell
    bins = (
        slice(int(held[0]), int(held[-1]) + 1)
        if held.size
        else slice(0, len(SPECTRUM_EDGES_GEV) - 1)
    )
    edges = SPECTRUM_EDGES_GEV[bins.start : bins.stop + 1] * 1000
    how: dict[str, Any] = {"log_x": True, "log_y": True, "marks": (_HIT_MEV,)}

    def above(sample: Observables) -> Floats:
        """Cells above the lower edge of each bin."""
        return sample.spectrum[:, ::-1].astype(np.float64).cumsum(1)[:, ::-1][:, bins]

    yield (
        "spectrum", "Spectrum of the cell energies, and sparsity",
        [
            Panel(mean_rows(lambda s: s.spectrum[:, bins].astype(np.float64)), edges,
                  "energy of a cell (MeV)", "cells per shower and bin", **how),
            Panel(mean_rows(above), edges, "threshold (MeV)", "cells above it per shower", **how),
        ],
        ("Left: energies of single cells. Right: sparsity, the number of cells above a threshold."
        " Dotted: 0.3 MeV, the hit threshold."),
    )  # fmt: skip


def _angles(samples: Samples) -> Iterator[Drawn]:
    """Measured against requested angle, and its deviation for single showers.

    If the requested angle of the reference is the measured one, the distribution of the measured angle is
    shown instead.
    """

    def measured(sample: Observables) -> Floats:
        return np.where(sample.sum_gev > 0, np.rad2deg(sample.angle_rad), np.nan)

    edges = trend_edges(_requested_deg(samples.reference))
    known = samples.reference.angle_known
    panels = [
        Panel(
            means(_requested_deg, measured, edges), edges, _ANGLE,
            "measured (degrees)", form="points", compare="difference", from_zero=False,
            difference_label="difference (°)",
        ),
        distribution(samples, lambda s: measured(s) - _requested_deg(s), "measured minus requested (degrees)")
        if known
        else distribution(samples, measured, "measured angle (degrees)"),
    ]  # fmt: skip
    yield (
        "angle", "Measured against requested angle", panels,
        "Angle measured on the image as by the 3DGAN authors (mtheta); empty showers are left out.",
    )  # fmt: skip


FAMILIES: dict[str, Callable[[Samples], Iterator[Drawn]]] = {
    "Energy response": _response,
    "Profiles": _profiles,
    "Shape": _shape,
    "Cells": _cells,
    "Angle": _angles,
}
"""Figures of panels by family, in reading order."""


_LEAST_MEV = 0.1
_COLOURS = 64
_VIEWS = (
    ("depth", 0, "layer", "y (mm)", "Showers from the side: energy summed over x."),
    ("front", 2, "x (mm)", "y (mm)", "The same showers from the front: energy summed over all layers."),
)  # fmt: skip


def shower_figures(samples: Samples) -> Iterator[Figure]:
    """Yields the showers from the side and from the front, a pair in each column; nothing without pairs."""
    pairs, names = samples.pairs, (samples.generated_name, samples.reference_name)
    for name, axis, x_label, y_label, caption in _VIEWS if pairs else ():
        # Rows of a map are y: from the side (y, z), from the front (x, y) transposed.
        sums = [[1000 * shower.ecal_gev.sum(axis) for shower in pair] for pair in pairs]
        maps = [[one.T if axis else one for one in pair] for pair in sums]
        most = max(float(one.max()) for pair in maps for one in pair)
        scale = LogNorm(_LEAST_MEV, max(most, 10 * _LEAST_MEV))
        with Drawing(9.0, 4.4 if axis else 3.9) as drawing:
            axes = drawing.figure.subplots(2, len(pairs), sharex=True, sharey=True, squeeze=False)
            for column, (pair, drawn) in enumerate(zip(pairs, maps, strict=True)):
                for row, (shower, energies) in enumerate(zip(pair, drawn, strict=True)):
                    one = axes[row][column]
                    image = one.imshow(
                        np.where(energies >= _LEAST_MEV, energies, np.nan),
                        cmap=colormaps["viridis"].resampled(_COLOURS), norm=scale, origin="lower",
                        extent=_extent(energies.shape, axis), interpolation="none",
                        aspect="equal" if axis else "auto",
                    )  # fmt: skip
                    one.set_title(str(shower), fontsize=9)
                    one.grid(visible=False)
                    one.spines[["top", "right"]].set_visible(True)
            for row, what in enumerate(names):
                axes[row][0].set_ylabel(f"{plain(what)}\n{y_label}", fontsize=9)
            for one in axes[1]:
                one.set_xlabel(x_label)
            bar = drawing.figure.colorbar(image, ax=axes, label="energy (MeV)", pad=0.02)
            log_ticks(bar.ax.yaxis)
            bar.ax.grid(visible=False)
            svg = drawing.svg(caption)
        equal = all(str(ours) == str(theirs) for ours, theirs in pairs)
        note = (
            f" Above: {names[0]}; below: {names[1]}, of {'the same' if equal else 'nearly the same'} energy and"
            f" angle. Blank: less than {_LEAST_MEV} MeV."
        )
        yield Figure(f"showers-{name}", "Showers", svg, caption + note)


def _extent(shape: tuple[int, ...], axis: int) -> tuple[float, float, float, float]:
    """Edges of a map whose rows are y: layers are numbered from 1, x and y are around the middle."""
    high, wide = shape[0] * CELL_MM / 2, shape[1] * CELL_MM / 2
    return (-wide, wide, -high, high) if axis else (0.5, shape[1] + 0.5, -high, high)
