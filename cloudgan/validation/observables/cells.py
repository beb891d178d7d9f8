"""Observables computed from the cells of images; n showers of X x Y x Z cells.

A shower fills about a thousand of 65,025 cells; only these are processed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import DataError
from cloudgan.data.showers import angle_of_layers

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def safe_divide(above: NDArray[np.floating], below: NDArray[np.floating]) -> Floats:
    """Returns `above / below` in float64, 0 where `below` is not positive."""
    above, below = np.broadcast_arrays(above, below)
    found: Floats = np.zeros(above.shape)
    np.divide(above, below, out=found, where=below > 0, dtype=np.float64)
    return found


def ratio(above: Floats, below: Floats) -> Floats:
    """Returns `above / below`, nan where `below` is not positive."""
    return np.where(below > 0, safe_divide(above, below), np.nan)


NOISE_GEV = 2e-6
"""Cells below 2 keV count as empty: a network's output is small where it should be 0."""

HIT_LEVELS_GEV = {"hits_low": 1e-4, "hits": 3e-4, "hits_high": 3e-3}
"""A cell above 0.3 MeV is a hit, about one crossing particle; cut of the 3DGAN authors."""

CORE_CELLS = 4
"""The lateral tail starts beyond this many columns from the central one, 23 mm."""

SPECTRUM_EDGES_GEV = np.logspace(-5.5, 0.5, 49)
"""Bin edges of the spectrum of cell energies, eight bins per decade, GeV."""


class HitCells(NamedTuple):
    """Non-empty cells of images; F of them.

    Attributes:
        images: Shape of the images, (n, X, Y, Z).
        shower: Row of each cell, (F,).
        x: Index along x, (F,).
        y: Index along y, (F,).
        layer: Layer, (F,).
        gev: Energy, float32 (F,).
    """

    images: tuple[int, ...]
    shower: Integers
    x: Integers
    y: Integers
    layer: Integers
    gev: NDArray[np.float32]

    def sums(self, weight: NDArray[np.floating], axis: str = "") -> Floats:
        """Sums a (F,) weight per shower, (n,), or per shower and index along an axis, (n, size)."""
        count = self.images[0]
        if not axis:
            return np.bincount(self.shower, weight, count).astype(np.float64)
        size = self.images["nxyz".index(axis)]
        place = {"x": self.x, "y": self.y, "z": self.layer}[axis]
        found = np.bincount(self.shower * size + place, weight, count * size)
        return found.reshape(count, size).astype(np.float64)

    def count_cells(self, selected: NDArray[np.bool_]) -> Floats:
        """Number of selected cells per shower, (n,)."""
        return np.bincount(self.shower[selected], minlength=self.images[0]).astype(np.float64)


def measure(
    ecal: NDArray[np.float32], name: str, numbers: Integers
) -> dict[str, NDArray[np.floating]]:
    """Measures images (n, X, Y, Z), GeV; the keys are fields of `Observables`.

    Args:
        ecal: Energies.
        name: Name of the sample in errors.
        numbers: Shower numbers in errors, (n,).

    Raises:
        DataError: A cell is NaN, infinite or negative.
    """
    hit_cells = _hit_cells(ecal, name, numbers)
    layers = _layers(hit_cells)
    hits = {
        key: hit_cells.count_cells(hit_cells.gev > level) for key, level in HIT_LEVELS_GEV.items()
    }
    x_offset, y_offset = (_offset_from_centre(hit_cells, axis) for axis in "xy")
    outside = (np.abs(x_offset) > CORE_CELLS) | (np.abs(y_offset) > CORE_CELLS)
    single = np.float32
    return {
        "sum_gev": hit_cells.sums(hit_cells.gev),
        "profile_x_gev": hit_cells.sums(hit_cells.gev, "x").astype(single),
        "profile_y_gev": hit_cells.sums(hit_cells.gev, "y").astype(single),
        **layers,
        "cells": hit_cells.count_cells(np.ones(hit_cells.gev.size, np.bool_)),
        **hits,
        "largest_gev": ecal.max((1, 2, 3), initial=0.0).astype(np.float64),
        "tail_gev": hit_cells.sums(hit_cells.gev * outside),
        "spectrum": _spectrum(hit_cells).astype(single),
    }


def _hit_cells(ecal: NDArray[np.float32], name: str, numbers: Integers) -> HitCells:
    flat = ecal.reshape(len(ecal), -1)
    lowest, highest = flat.min(1), flat.max(1)
    good = (lowest >= -NOISE_GEV) & (highest < np.inf)  # NaN fails both
    if not good.all():
        row = int(np.argmin(good))
        raise DataError(
            f"{name}: shower {numbers[row]} has a cell of {lowest[row]} GeV (or NaN or infinity); expected"
            " finite values >= 0"
        )
    number = np.flatnonzero(flat >= np.float32(NOISE_GEV))
    column, layer = np.divmod(number, ecal.shape[3])
    plane, y = np.divmod(column, ecal.shape[2])
    shower, x = np.divmod(plane, ecal.shape[1])
    return HitCells(ecal.shape, shower, x, y, layer, flat.reshape(-1)[number])


def _offset_from_centre(hit_cells: HitCells, axis: str) -> Floats:
    """Columns from the central one."""
    place, size = (
        (hit_cells.x, hit_cells.images[1]) if axis == "x" else (hit_cells.y, hit_cells.images[2])
    )
    return place.astype(np.float64) - size // 2


def _layers(hit_cells: HitCells) -> dict[str, NDArray[np.floating]]:
    gev = hit_cells.gev.astype(np.float64)
    total = hit_cells.sums(gev, "z")
    moment, mean, variance = {}, {}, np.zeros(total.shape)
    for axis, size in (("x", hit_cells.images[1]), ("y", hit_cells.images[2])):
        place = (hit_cells.x if axis == "x" else hit_cells.y) - (size - 1) / 2
        moment[axis] = hit_cells.sums(gev * place, "z")
        mean[axis] = safe_divide(moment[axis], total)
        variance += safe_divide(hit_cells.sums(gev * place**2, "z"), total) - mean[axis] ** 2
    single = np.float32
    return {
        "profile_z_gev": total.astype(single),
        "layer_x_cells": mean["x"].astype(single),
        "layer_y_cells": mean["y"].astype(single),
        "layer_width_cells": np.sqrt(np.maximum(variance, 0.0)).astype(single),
        "angle_rad": angle_of_layers(total, moment["x"], moment["y"]).astype(np.float64),
    }


def _spectrum(hit_cells: HitCells) -> Floats:
    bins = len(SPECTRUM_EDGES_GEV) - 1
    number = np.searchsorted(SPECTRUM_EDGES_GEV, hit_cells.gev, side="right") - 1
    inside = (number >= 0) & (number < bins)
    found = np.bincount(
        hit_cells.shower[inside] * bins + number[inside], minlength=hit_cells.images[0] * bins
    )
    return found.reshape(-1, bins).astype(np.float64)
