"""What a generator does beside the Monte Carlo, as figures for the report; SVG text.

The same colours everywhere: the reference in the ink of the page with a band of its statistical
error, the generator blue, the untrained one orange and dashed. Errors are those of the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.data.showers import CELL_MM
from cloudgan.reports.drawing import COLOURS, GREY, INK, Drawing
from cloudgan.validation.observables import SPECTRUM_EDGES_GEV, Observables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Samples:
    """What is drawn; names go into the legends.

    Attributes:
        reference: Monte Carlo.
        generated: By the trained generator.
        untrained: By the same generator before training, where it was kept.
        reference_name: Of the Monte Carlo.
    """

    reference: Observables
    generated: Observables
    untrained: Observables | None = None
    reference_name: str = "Monte Carlo"

    def __iter__(self) -> Iterator[_Drawn]:
        if self.untrained is not None:
            yield _Drawn(self.untrained, "untrained", COLOURS[1], "--")
        yield _Drawn(self.generated, "generator", COLOURS[0], "-")
        yield _Drawn(self.reference, self.reference_name, INK, "-")


@dataclass(frozen=True)
class _Drawn:
    sample: Observables
    name: str
    colour: str
    line: str

    @property
    def look(self) -> dict[str, Any]:
        return {"color": self.colour, "linestyle": self.line}


def figures(samples: Samples) -> dict[str, str]:
    """Returns all figures by name: response, profiles, hits, angle, spectrum."""
    return {
        "response": response(samples),
        "profiles": profiles(samples),
        "hits": hits(samples),
        "angle": angle(samples),
        "spectrum": spectrum(samples),
    }


def response(samples: Samples, bins: int = 9) -> str:
    """Mean Esum/E against the energy, with its error, and the spread below."""
    energy = samples.reference.energy_gev
    edges = np.linspace(energy.min(), energy.max() * (1 + 1e-9), bins + 1)
    with Drawing(height_inches=4.8) as drawing:
        upper, lower = drawing.axes(2, 1, sharex=True, height_ratios=[2, 1])
        for drawn in samples:
            mean, spread, count = _binned(drawn.sample.energy_gev, drawn.sample.response, edges)
            middle = (edges[1:] + edges[:-1]) / 2
            look: dict[str, Any] = drawn.look | {"marker": "o"}
            error = 100 * spread / np.sqrt(np.maximum(count, 1))
            upper.errorbar(middle, 100 * mean, error, label=drawn.name, capsize=2, **look)
            relative = np.divide(spread, mean, out=np.full_like(mean, np.nan), where=mean > 0)
            lower.plot(middle, 100 * relative, **look)
        upper.set_ylabel("mean Esum/E (%)")
        lower.set_ylabel("spread (% of mean)")
        lower.set_ylim(bottom=0)
        lower.set_xlabel("energy of the primary (GeV)")
        _legend(upper)
        return drawing.svg("response", "Energy response against the energy of the primary")


def profiles(samples: Samples) -> str:
    """Mean energy per layer and per column, ratios to the reference below."""
    with Drawing(height_inches=4.6) as drawing:
        *upper, lower_z, lower_y, lower_x = drawing.axes(2, 3, height_ratios=[2, 1])
        columns = (("z", "layer", lower_z), ("y", "y (mm)", lower_y), ("x", "x (mm)", lower_x))
        for above, (axis, label, below) in zip(upper, columns, strict=True):
            _profile(above, below, samples, axis)
            below.sharex(above)
            above.tick_params(labelbottom=False)
            below.set_xlabel(label)
        upper[0].set_ylabel("mean energy per bin (MeV)")
        lower_z.set_ylabel("ratio to MC")
        handles, names = upper[0].get_legend_handles_labels()
        drawing.figure.legend(
            handles[::-1], names[::-1], loc="outside upper left", ncols=3, frameon=False
        )
        return drawing.svg("profiles", "Longitudinal and lateral profiles of the energy")


def hits(samples: Samples) -> str:
    """How many cells of a shower hold more than 0.3 MeV."""
    top = max(float(np.quantile(drawn.sample.hits, 0.998)) for drawn in samples)
    edges = np.linspace(0, max(top, 1.0), 41)
    with Drawing(height_inches=3.4) as drawing:
        (axes,) = drawing.axes()
        _histograms(axes, samples, "hits", edges)
        axes.set_xlabel("cells above 0.3 MeV per shower")
        axes.set_ylabel("share of the showers")
        _legend(axes)
        return drawing.svg("hits", "Number of cells above 0.3 MeV per shower")


def angle(samples: Samples, bins: int = 12) -> str:
    """Mean measured angle in bins of the requested one, degrees."""
    asked = np.rad2deg(samples.reference.requested_rad)
    low, high = np.quantile(asked, [0.01, 0.99])
    edges = np.linspace(low, high + 1e-9, bins + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    with Drawing(height_inches=4.0) as drawing:
        (axes,) = drawing.axes()
        axes.plot([low, high], [low, high], color=GREY, linewidth=1, label="measured = requested")
        for drawn in samples:
            alive = drawn.sample.sum_gev > 0
            measured = np.rad2deg(drawn.sample.angle_rad[alive])
            mean, spread, count = _binned(asked[alive], measured, edges)
            error = spread / np.sqrt(np.maximum(count, 1))
            axes.errorbar(
                middle, mean, error, color=drawn.colour, linestyle=drawn.line, marker="o",
                capsize=2, label=drawn.name,
            )  # fmt: skip
        axes.set_xlabel("requested angle (degrees)")
        axes.set_ylabel("angle measured on the image (degrees)")
        _legend(axes)
        return drawing.svg("angle", "Measured against requested angle")


def spectrum(samples: Samples) -> str:
    """Cells per shower and bin of cell energy."""
    edges = SPECTRUM_EDGES_GEV * 1000
    with Drawing(height_inches=3.6) as drawing:
        (axes,) = drawing.axes()
        for drawn in samples:
            cells = drawn.sample.spectrum.mean(0)
            axes.stairs(
                np.where(cells > 0, cells, np.nan), edges, color=drawn.colour,
                linestyle=drawn.line, label=drawn.name, linewidth=1.4,
            )  # fmt: skip
        axes.axvline(0.3, color=GREY, linewidth=1, linestyle=":")
        axes.set_xscale("log")
        axes.set_yscale("log", nonpositive="mask")
        axes.set_xlabel("energy of a cell (MeV); dotted: 0.3 MeV, a hit")
        axes.set_ylabel("cells per shower and bin")
        _legend(axes)
        return drawing.svg("spectrum", "Spectrum of cell energies")


def _profile(above: Axes, below: Axes, samples: Samples, axis: str) -> None:
    name = f"profile_{axis}_gev"
    true = getattr(samples.reference, name)
    bins = true.shape[1]
    place = np.arange(1, bins + 1) if axis == "z" else (np.arange(bins) - bins // 2) * CELL_MM
    mean = true.mean(0)
    error = true.std(0) / np.sqrt(len(true))
    relative = np.divide(error, mean, out=np.zeros_like(mean), where=mean > 0)
    below.fill_between(place, 1 - relative, 1 + relative, color=GREY, alpha=0.35, step="mid")
    below.axhline(1, color=INK, linewidth=0.8)
    for drawn in samples:
        profile = getattr(drawn.sample, name)
        ours = profile.mean(0)
        ours_error = profile.std(0) / np.sqrt(len(profile))
        look: dict[str, Any] = drawn.look | {"linewidth": 1.4}
        shown = np.where(ours > 0, ours, np.nan) * 1000
        above.step(place, shown, where="mid", label=drawn.name, **look)
        if drawn.sample is samples.reference:
            continue
        known = mean > 0
        ratio, bar = ours[known] / mean[known], ours_error[known] / mean[known]
        below.errorbar(place[known], ratio, bar, elinewidth=0.8, **look)
    if axis != "z":
        above.set_yscale("log", nonpositive="mask")
    below.set_ylim(0, 2)


def _histograms(axes: Axes, samples: Samples, name: str, edges: Floats) -> None:
    for drawn in samples:
        values = getattr(drawn.sample, name)
        counts, _ = np.histogram(values, edges)
        share, error = counts / len(values), np.sqrt(counts) / len(values)
        axes.stairs(share, edges, color=drawn.colour, linestyle=drawn.line, label=drawn.name,
                    linewidth=1.4)  # fmt: skip
        middle = (edges[1:] + edges[:-1]) / 2
        seen = counts > 0
        axes.errorbar(middle[seen], share[seen], error[seen], color=drawn.colour,
                      linestyle="none", elinewidth=0.8)  # fmt: skip
    axes.set_ylim(bottom=0)


def _binned(at: Floats, values: Floats, edges: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, standard deviation and number of `values` per bin of `at`; nan where there are none."""
    number = np.digitize(at, edges) - 1
    parts = [values[number == row] for row in range(len(edges) - 1)]
    mean = [part.mean() if part.size else np.nan for part in parts]
    spread = [part.std() if part.size else np.nan for part in parts]
    return np.array(mean), np.array(spread), np.array([part.size for part in parts], float)


def _legend(axes: Axes) -> None:
    """A legend beside the plot, the reference first."""
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], loc="upper left", bbox_to_anchor=(1.0, 1.0))
