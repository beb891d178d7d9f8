"""The shape of single showers: first and second moments along each axis, and the maximum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cloudgan.data.showers import CELL_MM
from cloudgan.validation.figure import Figure
from cloudgan.validation.plot_curves import common_edges, shares, whole_edges
from cloudgan.validation.plot_panels import Panel, draw_panels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from cloudgan.validation.observables import Observables
    from cloudgan.validation.plot_samples import Samples

    Floats = NDArray[np.float64]
    Values = Callable[[Observables], Floats]

FAMILY = "Shape"
_SHARE = "share of the showers"


def shape_figures(samples: Samples) -> Iterator[Figure]:
    """Barycentre and width along each axis, layer of the maximum."""
    first = [
        distribution(samples, moment(axis, 1), f"barycentre along {label}")
        for axis, label in (("z", "depth (layer)"), ("y", "y (mm)"), ("x", "x (mm)"))
    ]
    second = [
        distribution(samples, moment(axis, 2), f"rms width along {label}")
        for axis, label in (("z", "depth (layers)"), ("y", "y (mm)"), ("x", "x (mm)"))
    ]
    yield Figure(
        "moments",
        FAMILY,
        draw_panels("moments", "First and second moments of the showers", first + second, samples),
        "Above: energy-weighted mean position of each shower. Below: root mean square distance from"
        " it, the tilt of the axis included.",
    )


def distribution(samples: Samples, values: Values, label: str, *, whole: bool = False) -> Panel:
    """A panel with the distribution of one number per shower; nan is unknown."""
    found = (values(samples.reference), values(samples.generated))
    edges = whole_edges(found) if whole else common_edges(found)
    return Panel(shares(values, edges), edges, label, _SHARE)


def moment(axis: str, order: int) -> Values:
    """Barycentre (1), or rms width (2), along an axis, per shower; nan for empty ones.

    Layers are numbered from 1; x and y are mm from the middle of the window.
    """

    def values(sample: Observables) -> Floats:
        mean, variance = sample.moments(axis)
        unit = 1.0 if axis == "z" else CELL_MM
        cells = sample.image["xyz".index(axis)]
        first = mean + 1 if axis == "z" else (mean - (cells - 1) / 2) * unit
        found = first if order == 1 else np.sqrt(variance) * unit
        return np.where(sample.sum_gev > 0, found, np.nan)

    return values
