"""Where the energy is: mean profiles along x, y and depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cloudgan.data.showers import CELL_MM
from cloudgan.validation.figure import Figure
from cloudgan.validation.plot_curves import mean_rows
from cloudgan.validation.plot_panels import Panel, draw_panels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from cloudgan.validation.observables import Observables
    from cloudgan.validation.plot_samples import Samples

    Floats = NDArray[np.float64]

FAMILY = "Profiles"
_MEV = 1000.0


def profile_figures(samples: Samples) -> Iterator[Figure]:
    """Mean energy per layer and per column, linear and logarithmic."""
    yield Figure(
        "profiles",
        FAMILY,
        draw_panels("profiles", "Longitudinal and lateral profiles of the energy",
                    _panels(samples, log=False), samples),
        "Mean energy per layer, and per column of cells along y (in which the axis of the shower"
        " tilts) and x, for each GeV of the primary.",
    )  # fmt: skip
    yield Figure(
        "profiles-log",
        FAMILY,
        draw_panels("profiles-log", "The profiles on a logarithmic scale",
                    _panels(samples, log=True), samples),
        "The same, logarithmic: the lateral tails.",
    )  # fmt: skip


def _panels(samples: Samples, *, log: bool) -> list[Panel]:
    labels = {"z": "layer", "y": "y (mm)", "x": "x (mm)"}
    unit = {"z": "E per layer (MeV/GeV)"}
    return [
        Panel(
            mean_rows(_Profile(axis), _MEV), _edges(axis, _Profile(axis)(samples.reference)), label,
            unit.get(axis, "E per column (MeV/GeV)"), log_y=log,
        )
        for axis, label in labels.items()
    ]  # fmt: skip


class _Profile:
    """Reads the profile along one axis over the energy of the primary, (N, bins).

    Else the spread of the energies would hide what the bins say.
    """

    def __init__(self, axis: str) -> None:
        self._name = f"profile_{axis}_gev"

    def __call__(self, sample: Observables) -> Floats:
        found: Floats = getattr(sample, self._name) / sample.energy_gev[:, None]
        return found


def _edges(axis: str, profile: Floats) -> Floats:
    """Layers are numbered from 1; columns lie around the middle of the image, in mm."""
    bins = int(profile.shape[1])
    if axis == "z":
        return np.linspace(0.5, bins + 0.5, bins + 1)
    return np.linspace(-bins / 2, bins / 2, bins + 1) * CELL_MM
