"""Single cells: how many are hit, how empty the image is, how the energies are spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cloudgan.validation.figure import Figure
from cloudgan.validation.observables import SPECTRUM_EDGES_GEV
from cloudgan.validation.plot_curves import mean_rows
from cloudgan.validation.plot_panels import Panel, draw_panels
from cloudgan.validation.plot_shapes import distribution

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from cloudgan.validation.observables import Observables
    from cloudgan.validation.plot_samples import Samples

    Floats = NDArray[np.float64]

FAMILY = "Cells"
_HIT_MEV = 0.3


def cell_figures(samples: Samples) -> Iterator[Figure]:
    """Hits, layer of the maximum, largest cell, spectrum and sparsity."""
    panels = [
        distribution(samples, _hits, "cells above 0.3 MeV (hits)", whole=True),
        distribution(samples, _maximum, "layer with the most energy", whole=True),
        distribution(samples, _largest_mev, "largest cell (MeV)"),
    ]
    yield Figure(
        "cells",
        FAMILY,
        draw_panels("cells", "Hits, position of the maximum and largest cell", panels, samples),
        "Per shower: cells that about one particle or more crossed, the layer of the shower maximum,"
        " the energy of the largest cell.",
    )
    bins = _held(samples)
    edges = SPECTRUM_EDGES_GEV[bins.start : bins.stop + 1] * 1000
    spectrum = Panel(mean_rows(_spectrum(bins)), edges, "energy of a cell (MeV)",
                     "cells per shower and bin", log_x=True, log_y=True, marks=(_HIT_MEV,))  # fmt: skip
    sparsity = Panel(mean_rows(_above(bins)), edges, "threshold (MeV)",
                     "cells above it per shower", log_x=True, log_y=True, marks=(_HIT_MEV,))  # fmt: skip
    yield Figure(
        "spectrum",
        FAMILY,
        draw_panels("spectrum", "Spectrum of the cell energies, and sparsity", [spectrum, sparsity],
                    samples),
        "Left: energies of single cells. Right: how many cells are above a threshold, the sparsity."
        " Dotted: 0.3 MeV, a hit.",
    )  # fmt: skip


def _hits(sample: Observables) -> Floats:
    return sample.hits


def _maximum(sample: Observables) -> Floats:
    return np.where(sample.sum_gev > 0, sample.layer_of_maximum + 1, np.nan)


def _largest_mev(sample: Observables) -> Floats:
    return 1000 * sample.largest_gev


def _held(samples: Samples) -> slice:
    """The bins of the spectrum in which any sample has a cell."""
    found = sum(sample.spectrum.sum(0) for sample in (samples.reference, samples.generated))
    held = np.flatnonzero(found)
    return slice(int(held[0]), int(held[-1]) + 1) if held.size else slice(0, len(found))


def _spectrum(bins: slice) -> Callable[[Observables], Floats]:
    return lambda sample: sample.spectrum[:, bins].astype(np.float64)


def _above(bins: slice) -> Callable[[Observables], Floats]:
    """Cells above the lower edge of each bin."""
    return lambda sample: sample.spectrum[:, ::-1].astype(np.float64).cumsum(1)[:, ::-1][:, bins]
