"""Bins of energy and angle, and weighted sums of shower observables in each bin.

Array shapes: R weight vectors, E energy bins, A angle bins, K columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cloudgan.validation.observables.cells import ratio
from cloudgan.validation.observables.observables import Observables
from cloudgan.validation.observables.overlap import OverlapRegion

Floats = NDArray[np.float64]


_FINE_SHOWERS, _FINE, _COARSE = 3000, 9, 3
"""Minimum sample size for nine energy bins instead of three: each has as many showers as a third of 1,000, with which
the default gates can tell. With fewer, more showers would make the verdict "cannot tell": 2,000 in nine bins do."""
_REPEATED = 5
"""Showers of each energy, if energies are discrete."""
_ANGLE_BINS = 3
_ONE_VALUE = 1e-3


@dataclass(frozen=True)
class Bins:
    """Bin edges that both samples share.

    Attributes:
        energy_gev: Ascending; two equal edges if there is one energy.
        theta_deg: Ascending; empty if the angle is unknown.
    """

    energy_gev: tuple[float, ...]
    theta_deg: tuple[float, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Number of energy and angle bins, at least one each."""
        return len(self.energy_gev) - 1, max(len(self.theta_deg) - 1, 1)

    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Labels of the energy bins, and of the angle bins if there are two or more."""
        angles = _names(self.theta_deg, "deg") if self.shape[1] > 1 else ()
        return _names(self.energy_gev, "GeV"), angles

    def bin_numbers(self, sample: Observables) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Energy and angle bin of each shower, (N,) each, with under- and overflow in the outer bins."""
        energy = np.searchsorted(self.energy_gev[1:-1], sample.energy_gev, side="right")
        theta = np.searchsorted(self.theta_deg[1:-1], np.rad2deg(sample.requested_rad), "right")
        return energy, theta


def bins_for(overlap: OverlapRegion, energy_bins: int | None = None) -> Bins:
    """Chooses equal bins over the range of both samples, its ends rounded outwards.

    Of two to nine energies that repeat, each has a bin of its own.

    Args:
        overlap: Two samples.
        energy_bins: Number of energy bins. Default: 9 if both have 3,000 showers or more, else 3.
    """
    samples = (overlap.generated, overlap.reference)
    if energy_bins is None:
        energy_bins = _FINE if min(map(len, samples)) >= _FINE_SHOWERS else _COARSE
    energy = np.concatenate([sample.energy_gev for sample in samples])
    theta: tuple[float, ...] = ()
    if overlap.angle_known:
        angles = np.rad2deg(np.concatenate([sample.requested_rad for sample in samples]))
        theta = _edges(angles, _ANGLE_BINS)
    values, counts = np.unique(np.float32(energy), return_counts=True)
    if 1 < len(values) <= _FINE and counts.min() >= _REPEATED:
        middles = (values[1:] + values[:-1]) / 2
        return Bins(tuple(map(float, (values[0], *middles, values[-1]))), theta)
    return Bins(_edges(energy, energy_bins), theta)


def _edges(values: Floats, bins: int) -> tuple[float, ...]:
    low, high = float(values.min()), float(values.max())
    span = high - low
    if span <= _ONE_VALUE * abs(high):
        return (low, high)
    unit = 10.0 ** np.floor(np.log10(span)) / 10
    # Tolerance for rounded values of a file, such as 120.00001.
    low, high = np.floor(low / unit + 0.1) * unit, np.ceil(high / unit - 0.1) * unit
    return tuple(float(edge) for edge in np.linspace(low, high, bins + 1))


def _names(edges: tuple[float, ...], unit: str) -> tuple[str, ...]:
    if f"{edges[0]:.4g}" == f"{edges[-1]:.4g}":
        return (f"{edges[0]:.4g} {unit}",)
    return tuple(f"{a:.4g}-{b:.4g} {unit}" for a, b in pairwise(edges))


_CHUNK = 5000  # showers whose columns are in memory at once


@dataclass(frozen=True)
class BinnedSums:
    """Weighted sums of the observables in `columns`.

    Attributes:
        sums: (R, E, A, K).
        slices: Slice of each name among the K columns.
    """

    sums: Floats
    slices: dict[str, slice]

    def total(self, name: str, *, energy: int | None = None, angle: int | None = None) -> Floats:
        """Sum of a column, (R,), or of several, (R, k); over all bins or in one of them."""
        some = self.sums[:, :, :, self.slices[name]]
        some = some[:, :, angle] if angle is not None else some.sum(2)
        some = some[:, energy] if energy is not None else some.sum(1)
        return some[:, 0] if some.shape[1] == 1 else some

    def mean(
        self,
        name: str,
        per: str = "non-empty",
        *,
        energy: int | None = None,
        angle: int | None = None,
    ) -> Floats:
        """Sum of a column over the sum of another; nan where the latter is 0."""
        above, below = (self.total(n, energy=energy, angle=angle) for n in (name, per))
        below = below.reshape(below.shape + (1,) * (above.ndim - below.ndim))
        return ratio(above, below)


def binned_sums(sample: Observables, weights: NDArray[np.float32], bins: Bins) -> BinnedSums:
    """Sums the columns of `sample` under `weights`, (R, N)."""
    energy, angle = bins.bin_numbers(sample)
    bin_of = energy * bins.shape[1] + angle
    sums, slices = None, {}
    for first in range(0, len(sample), _CHUNK):
        some = slice(first, first + _CHUNK)
        found = columns(sample[some])
        table = np.concatenate([v.reshape(len(v), -1) for v in found.values()], axis=1)
        if sums is None:
            slices = _slices(found)
            sums = np.zeros((len(weights), *bins.shape, table.shape[1]))
            flat = sums.reshape(len(weights), -1, table.shape[1])
        for number in np.unique(bin_of[some]):
            rows = np.flatnonzero(bin_of[some] == number)
            flat[:, number] += weights[:, first + rows].astype(np.float64) @ table[rows]
    if sums is None:
        raise ValueError("no showers to sum")
    return BinnedSums(sums, slices)


def columns(sample: Observables) -> dict[str, Floats]:
    """Summed observables by name, (N,) or (N, k). Shapes of empty showers are 0."""
    non_empty = sample.sum_gev > 0
    response = sample.response
    found: dict[str, Floats] = {
        "showers": np.ones(len(sample)),
        "non-empty": non_empty.astype(np.float64),
        "energy": sample.energy_gev,
        "sum": sample.sum_gev,
        "response": response,
        "response squared": response**2,
        "profile x": sample.profile_x_gev.astype(np.float64),
        "profile y": sample.profile_y_gev.astype(np.float64),
        "profile z": sample.profile_z_gev.astype(np.float64),
        "spectrum": sample.spectrum.astype(np.float64),
        "hits 0.1 MeV": sample.hits_low,
        "hits 0.3 MeV": sample.hits,
        "hits 3 MeV": sample.hits_high,
        "cells": sample.cells,
        "tail": sample.tail_gev,
        "last layer": sample.profile_z_gev[:, -1].astype(np.float64),
        "first layers": sample.first_layers_share * sample.sum_gev,
        "last layers": sample.last_layers_share * sample.sum_gev,
        "largest share": sample.largest_share,
        "maximum": sample.layer_of_maximum * non_empty,
        "angle": sample.angle_rad * non_empty,
    }
    for axis in "xyz":
        first, second = sample.moments(axis)
        found |= {f"M1 {axis}": first, f"M2 {axis}": second, f"rms {axis}": np.sqrt(second)}
    return found


def _slices(found: dict[str, Floats]) -> dict[str, slice]:
    ends = np.cumsum([1 if v.ndim == 1 else v.shape[1] for v in found.values()])
    starts = np.concatenate([[0], ends[:-1]])
    return {
        name: slice(int(start), int(end))
        for name, start, end in zip(found, starts, ends, strict=True)
    }
