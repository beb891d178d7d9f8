"""The energy response and its width, against the energy and the angle of the primary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cloudgan.validation.bins import bins_for
from cloudgan.validation.figure import Figure
from cloudgan.validation.plot_curves import common_edges, means, shares, widths_percent
from cloudgan.validation.plot_panels import Panel, draw_panels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from cloudgan.validation.observables import Observables
    from cloudgan.validation.plot_samples import Samples

    Floats = NDArray[np.float64]

FAMILY = "Energy response"
_BINS = 9
_FEWEST_IN_BIN = 15
_DISTRIBUTIONS = 3
_ENERGY, _ANGLE = "energy of the primary (GeV)", "requested angle (degrees)"


def response_figures(samples: Samples) -> Iterator[Figure]:
    """Mean and width of Esum/E in bins of energy and of angle, and its distribution."""
    yield Figure(
        "response-energy",
        FAMILY,
        draw_panels("response-energy", "Energy response and resolution against the energy",
                    _trends(_energy_gev, samples, _ENERGY), samples),
        "Left: mean of Esum/E, the energy in all cells over that of the primary. Right: its standard"
        " deviation over its mean, the resolution.",
    )  # fmt: skip
    yield Figure(
        "response-angle",
        FAMILY,
        draw_panels("response-angle", "Energy response and resolution against the angle",
                    _trends(_requested_deg, samples, _ANGLE), samples),
        "The same in bins of the requested angle.",
    )  # fmt: skip
    yield Figure(
        "response-shares",
        FAMILY,
        draw_panels("response-shares", "Distribution of the energy response",
                    list(_distributions(samples)), samples),
        "Esum/E of single showers, in bins of the energy of the primary.",
    )  # fmt: skip


def _trends(at: Callable[[Observables], Floats], samples: Samples, label: str) -> list[Panel]:
    edges = trend_edges(at(samples.reference))
    return [
        Panel(means(at, _percent, edges), edges, label, "mean Esum/E (%)", form="points",
              from_zero=False),
        Panel(widths_percent(at, _percent, edges), edges, label, "resolution (% of mean)",
              form="points"),
    ]  # fmt: skip


def trend_edges(values: Floats) -> Floats:
    """Equal bins over a range, few enough that each holds enough showers."""
    bins = int(np.clip(len(values) // _FEWEST_IN_BIN, 1, _BINS))
    low, high = float(values.min()), float(values.max())
    if high - low < 1e-6 * max(abs(high), 1e-6):
        return np.array([low - 0.5, high + 0.5])
    return np.linspace(low, high, bins + 1)


def _distributions(samples: Samples) -> Iterator[Panel]:
    bins = bins_for(samples.common, _DISTRIBUTIONS)
    for number, name in enumerate(bins.names()[0]):

        def values(sample: Observables, number: int = number) -> Floats:
            return np.where(bins.places(sample)[0] == number, _percent(sample), np.nan)

        edges = common_edges((values(samples.reference), values(samples.generated)))
        label = f"Esum/E (%), {name}"
        yield Panel(shares(values, edges), edges, label, "share of all showers")


def _energy_gev(sample: Observables) -> Floats:
    return sample.energy_gev


def _requested_deg(sample: Observables) -> Floats:
    return np.rad2deg(sample.requested_rad)


def _percent(sample: Observables) -> Floats:
    return 100 * sample.response
