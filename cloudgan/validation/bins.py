"""Bins of energy and angle in which showers are looked at."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cloudgan.validation.observables import Observables
    from cloudgan.validation.overlap import Common

    Floats = NDArray[np.float64]

_FINE_SHOWERS, _FINE, _COARSE = 1800, 9, 3
"""From so many showers on, 10 to 100 GeV is looked at in nine bins of 10 GeV, else in three."""
_ANGLE_BINS = 3
_ONE_VALUE = 1e-3


@dataclass(frozen=True)
class Bins:
    """Edges that both samples share.

    Attributes:
        energy_gev: Rising; equal ends where there is one energy.
        theta_deg: Rising; empty where the angle is unknown.
    """

    energy_gev: tuple[float, ...]
    theta_deg: tuple[float, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """How many of energy and of angle, at least one each."""
        return len(self.energy_gev) - 1, max(len(self.theta_deg) - 1, 1)

    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What the bins are called: of energy, and of angle if there are two or more."""
        angles = _names(self.theta_deg, "deg") if self.shape[1] > 1 else ()
        return _names(self.energy_gev, "GeV"), angles

    def places(self, sample: Observables) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number of the bin of each shower, energy and angle, (N,) each; the ends are open."""
        energy = np.searchsorted(self.energy_gev[1:-1], sample.energy_gev, side="right")
        theta = np.searchsorted(self.theta_deg[1:-1], np.rad2deg(sample.requested_rad), "right")
        return energy, theta


def bins_for(common: Common, energy_bins: int | None = None) -> Bins:
    """Chooses equal bins over the range of both samples, its ends rounded outwards.

    Args:
        common: Two samples.
        energy_bins: How many. Default: 9 where both have 1,800 showers or more, else 3.
    """
    samples = (common.generated, common.reference)
    if energy_bins is None:
        energy_bins = _FINE if min(map(len, samples)) >= _FINE_SHOWERS else _COARSE
    energy = np.concatenate([sample.energy_gev for sample in samples])
    theta: tuple[float, ...] = ()
    if common.angle_known:
        angles = np.rad2deg(np.concatenate([sample.requested_rad for sample in samples]))
        theta = _edges(angles, _ANGLE_BINS)
    return Bins(_edges(energy, energy_bins), theta)


def _edges(values: Floats, bins: int) -> tuple[float, ...]:
    low, high = float(values.min()), float(values.max())
    span = high - low
    if span <= _ONE_VALUE * abs(high):
        return (low, high)
    unit = 10.0 ** np.floor(np.log10(span)) / 10
    # A hair inwards: 120.00001, a rounded number of the file, is no reason for another unit.
    low, high = np.floor(low / unit + 0.1) * unit, np.ceil(high / unit - 0.1) * unit
    return tuple(float(edge) for edge in np.linspace(low, high, bins + 1))


def _names(edges: tuple[float, ...], unit: str) -> tuple[str, ...]:
    if f"{edges[0]:.4g}" == f"{edges[-1]:.4g}":
        return (f"{edges[0]:.4g} {unit}",)
    return tuple(f"{a:.4g}-{b:.4g} {unit}" for a, b in pairwise(edges))
