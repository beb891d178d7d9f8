"""Features per shower for classifiers, distances and histograms; N showers of Z layers.

No feature is a single cell: a voxel classifier is more sensitive and needs its own gates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloudgan.validation.observables.observables import Observables

Floats = NDArray[np.float64]

HIGH_LEVEL = (
    "Esum/E",
    "M1 x",
    "M1 y",
    "M1 z",
    "M2 x",
    "M2 y",
    "M2 z",
    "first 6 layers",
    "last 8 layers",
    "layer of the maximum",
    "hits above 0.1 MeV",
    "hits above 3 MeV",
    "largest cell",
    "measured angle",
    "energy",
)
"""Columns of `high_level`: fourteen shower shapes and the requested energy."""


def high_level(sample: Observables) -> Floats:
    """Returns the 15 high-level features of `HIGH_LEVEL`, (N, 15).

    Energies in GeV, moments in cells and cells squared, layers from 0, angles in rad.
    """
    shapes = histogram_features(sample)
    columns = [sample.energy_gev if name == "energy" else shapes[name] for name in HIGH_LEVEL]
    return np.stack(columns, axis=1)


def low_level(sample: Observables) -> NDArray[np.float32]:
    """Returns the low-level features, (N, 4 Z + 2): 102 for 25 layers.

    Per layer: share of the energy, barycentre along x and y in cells from the centre of the window, lateral
    rms in cells; then Esum/E and the energy of the primary in GeV.
    """
    parts = (
        sample.shares_z,
        sample.layer_x_cells,
        sample.layer_y_cells,
        sample.layer_width_cells,
        sample.response[:, None],
        sample.energy_gev[:, None],
    )
    return np.concatenate([part.astype(np.float32) for part in parts], axis=1)


def histogram_features(sample: Observables) -> dict[str, Floats]:
    """Returns the features compared as one-dimensional distributions, (N,) each, by name."""
    moments = {axis: sample.moments(axis) for axis in "xyz"}
    return {
        "Esum/E": sample.response,
        **{f"M1 {axis}": first for axis, (first, _) in moments.items()},
        **{f"M2 {axis}": second for axis, (_, second) in moments.items()},
        "first 6 layers": sample.first_layers_share,
        "last 8 layers": sample.last_layers_share,
        "layer of the maximum": sample.layer_of_maximum,
        "hits above 0.1 MeV": sample.hits_low,
        "hits above 0.3 MeV": sample.hits,
        "hits above 3 MeV": sample.hits_high,
        "filled cells": sample.cells,
        "largest cell": sample.largest_gev,
        "tail": sample.tail_share,
        "measured angle": sample.angle_rad,
    }
