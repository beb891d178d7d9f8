"""The angle measured on the image against the one that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cloudgan.validation.figure import Figure
from cloudgan.validation.plot_curves import means
from cloudgan.validation.plot_panels import Panel, draw_panels
from cloudgan.validation.plot_response import trend_edges
from cloudgan.validation.plot_shapes import distribution

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from cloudgan.validation.observables import Observables
    from cloudgan.validation.plot_samples import Samples

    Floats = NDArray[np.float64]

FAMILY = "Angle"


def angle_figures(samples: Samples) -> Iterator[Figure]:
    """Measured against requested angle, and how far single showers are from it.

    A reference that does not know the true angle was asked for what is measured on its images:
    there the distribution of the measured angle itself is shown.
    """
    edges = trend_edges(_requested_deg(samples.reference))
    panels = [
        Panel(
            means(_requested_deg, _measured_deg, edges), edges, "requested angle (degrees)",
            "measured (degrees)", form="points", compare="difference", from_zero=False,
            difference_label="difference (°)",
        ),
        distribution(samples, _away_deg, "measured minus requested (degrees)")
        if samples.reference.angle_known
        else distribution(samples, _measured_deg, "measured angle (degrees)"),
    ]  # fmt: skip
    yield Figure(
        "angle",
        FAMILY,
        draw_panels("angle", "Measured against requested angle", panels, samples),
        "The angle is measured on the image as the 3DGAN authors do (mtheta); empty showers are left"
        " out.",
    )


def _requested_deg(sample: Observables) -> Floats:
    return np.rad2deg(sample.requested_rad)


def _measured_deg(sample: Observables) -> Floats:
    return np.where(sample.sum_gev > 0, np.rad2deg(sample.angle_rad), np.nan)


def _away_deg(sample: Observables) -> Floats:
    return _measured_deg(sample) - _requested_deg(sample)
