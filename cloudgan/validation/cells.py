"""From the cells of images to what is measured on them; n showers of X x Y x Z cells.

Of 65,025 cells a shower fills about a thousand: only those are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cloudgan.core.errors import DataError
from cloudgan.data.showers import angle_of_layers
from cloudgan.validation.quotients import over

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Numbers = NDArray[np.int64]

NOISE_GEV = 2e-6
"""Cells below 2 keV are left out: a network's output is small where it should be 0."""

HIT_LEVELS_GEV = {"hits_low": 1e-4, "hits": 3e-4, "hits_high": 3e-3}
"""A cell above 0.3 MeV is a hit, about one crossing particle; the cut of the 3DGAN authors."""

CORE_CELLS = 4
"""The lateral tails begin beyond this many columns from the middle one, 23 mm."""

SPECTRUM_EDGES_GEV = np.logspace(-5.5, 0.5, 49)
"""Bins of the spectrum of cell energies, eight per decade; the unit is GeV."""


class Filled(NamedTuple):
    """The cells that hold energy, and where: F of them.

    Attributes:
        images: Shape of the images, (n, X, Y, Z).
        shower: Row of each cell, (F,).
        x: Its place, (F,).
        y: Its place, (F,).
        layer: Its place, (F,).
        gev: Its energy, float32 (F,).
    """

    images: tuple[int, ...]
    shower: Numbers
    x: Numbers
    y: Numbers
    layer: Numbers
    gev: NDArray[np.float32]

    def sums(self, weight: NDArray[np.floating], axis: str = "") -> Floats:
        """Sums a (F,) weight per shower, (n,), or per shower and place along an axis, (n, places)."""
        count = self.images[0]
        if not axis:
            return np.bincount(self.shower, weight, count).astype(np.float64)
        size = self.images["nxyz".index(axis)]
        place = {"x": self.x, "y": self.y, "z": self.layer}[axis]
        found = np.bincount(self.shower * size + place, weight, count * size)
        return found.reshape(count, size).astype(np.float64)

    def how_many(self, chosen: NDArray[np.bool_]) -> Floats:
        """How many of the `chosen` cells each shower has, (n,)."""
        return np.bincount(self.shower[chosen], minlength=self.images[0]).astype(np.float64)


def measure(
    ecal: NDArray[np.float32], name: str, numbers: Numbers
) -> dict[str, NDArray[np.floating]]:
    """Measures images (n, X, Y, Z), GeV; the keys are fields of `Observables`.

    Args:
        ecal: Energies.
        name: Stands for the showers in errors.
        numbers: Under which errors name them, (n,).

    Raises:
        DataError: A cell is no number, or below zero.
    """
    filled = _filled(ecal, name, numbers)
    layers = _layers(filled)
    hits = {key: filled.how_many(filled.gev > level) for key, level in HIT_LEVELS_GEV.items()}
    x_away, y_away = (_from_middle(filled, axis) for axis in "xy")
    outside = (np.abs(x_away) > CORE_CELLS) | (np.abs(y_away) > CORE_CELLS)
    single = np.float32
    return {
        "sum_gev": filled.sums(filled.gev),
        "profile_x_gev": filled.sums(filled.gev, "x").astype(single),
        "profile_y_gev": filled.sums(filled.gev, "y").astype(single),
        **layers,
        "cells": filled.how_many(np.ones(filled.gev.size, np.bool_)),
        **hits,
        "largest_gev": ecal.max((1, 2, 3), initial=0.0).astype(np.float64),
        "tail_gev": filled.sums(filled.gev * outside),
        "spectrum": _spectrum(filled).astype(single),
    }


def _filled(ecal: NDArray[np.float32], name: str, numbers: Numbers) -> Filled:
    flat = ecal.reshape(len(ecal), -1)
    lowest, highest = flat.min(1), flat.max(1)
    good = (lowest >= -NOISE_GEV) & (highest < np.inf)  # NaN fails both
    if not good.all():
        row = int(np.argmin(good))
        raise DataError(
            f"{name}: shower {numbers[row]} holds a cell of {lowest[row]} GeV (or one that is no"
            " number); expected 0 or more"
        )
    number = np.flatnonzero(flat >= np.float32(NOISE_GEV))
    column, layer = np.divmod(number, ecal.shape[3])
    plane, y = np.divmod(column, ecal.shape[2])
    shower, x = np.divmod(plane, ecal.shape[1])
    return Filled(ecal.shape, shower, x, y, layer, flat.reshape(-1)[number])


def _from_middle(filled: Filled, axis: str) -> Floats:
    """Columns from the middle one."""
    place, size = (filled.x, filled.images[1]) if axis == "x" else (filled.y, filled.images[2])
    return place.astype(np.float64) - size // 2


def _layers(filled: Filled) -> dict[str, NDArray[np.floating]]:
    gev = filled.gev.astype(np.float64)
    total = filled.sums(gev, "z")
    moment, mean, variance = {}, {}, np.zeros(total.shape)
    for axis, size in (("x", filled.images[1]), ("y", filled.images[2])):
        place = (filled.x if axis == "x" else filled.y) - (size - 1) / 2
        moment[axis] = filled.sums(gev * place, "z")
        mean[axis] = over(moment[axis], total)
        variance += over(filled.sums(gev * place**2, "z"), total) - mean[axis] ** 2
    single = np.float32
    return {
        "profile_z_gev": total.astype(single),
        "layer_x_cells": mean["x"].astype(single),
        "layer_y_cells": mean["y"].astype(single),
        "layer_width_cells": np.sqrt(np.maximum(variance, 0.0)).astype(single),
        "angle_rad": angle_of_layers(total, moment["x"], moment["y"]).astype(np.float64),
    }


def _spectrum(filled: Filled) -> Floats:
    bins = len(SPECTRUM_EDGES_GEV) - 1
    number = np.searchsorted(SPECTRUM_EDGES_GEV, filled.gev, side="right") - 1
    inside = (number >= 0) & (number < bins)
    found = np.bincount(
        filled.shower[inside] * bins + number[inside], minlength=filled.images[0] * bins
    )
    return found.reshape(-1, bins).astype(np.float64)
