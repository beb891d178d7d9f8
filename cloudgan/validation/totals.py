"""Sums over showers, per weighting and per bin of energy and angle: what means are made of.

R weightings, E bins of energy, A bins of angle, K columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cloudgan.validation.quotients import ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cloudgan.validation.bins import Bins
    from cloudgan.validation.observables import Observables

    Floats = NDArray[np.float64]

_CHUNK = 5000  # showers whose columns are in memory at a time


@dataclass(frozen=True)
class Totals:
    """Weighted sums of everything in `columns`.

    Attributes:
        sums: (R, E, A, K).
        places: Where each name stands among the K.
    """

    sums: Floats
    places: dict[str, slice]

    def of(self, name: str, *, energy: int | None = None, angle: int | None = None) -> Floats:
        """Sum of a column, (R,), or of several, (R, k); over all bins or in one of them."""
        some = self.sums[:, :, :, self.places[name]]
        some = some[:, :, angle] if angle is not None else some.sum(2)
        some = some[:, energy] if energy is not None else some.sum(1)
        return some[:, 0] if some.shape[1] == 1 else some

    def mean(
        self, name: str, per: str = "alive", *, energy: int | None = None, angle: int | None = None
    ) -> Floats:
        """Sum of a column over the sum of another; nan where there is nothing."""
        above, below = (self.of(n, energy=energy, angle=angle) for n in (name, per))
        below = below.reshape(below.shape + (1,) * (above.ndim - below.ndim))
        return ratio(above, below)


def totals(sample: Observables, weights: NDArray[np.float32], bins: Bins) -> Totals:
    """Sums the columns of `sample` under `weights`, (R, N)."""
    energy, angle = bins.places(sample)
    bin_of = energy * bins.shape[1] + angle
    sums, places = None, {}
    for first in range(0, len(sample), _CHUNK):
        some = slice(first, first + _CHUNK)
        found = columns(sample[some])
        table = np.concatenate([v.reshape(len(v), -1) for v in found.values()], axis=1)
        if sums is None:
            places = _places(found)
            sums = np.zeros((len(weights), *bins.shape, table.shape[1]))
            flat = sums.reshape(len(weights), -1, table.shape[1])
        for number in np.unique(bin_of[some]):
            rows = np.flatnonzero(bin_of[some] == number)
            flat[:, number] += weights[:, first + rows].astype(np.float64) @ table[rows]
    if sums is None:
        raise ValueError("no showers to sum")
    return Totals(sums, places)


def columns(sample: Observables) -> dict[str, Floats]:
    """What is summed: (N,) or (N, k) by name. Shapes of empty showers count as nothing."""
    alive = sample.sum_gev > 0
    response = sample.response
    found: dict[str, Floats] = {
        "showers": np.ones(len(sample)),
        "alive": alive.astype(np.float64),
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
        "maximum": sample.layer_of_maximum * alive,
        "angle": sample.angle_rad * alive,
    }
    for axis in "xyz":
        first, second = sample.moments(axis)
        found |= {f"M1 {axis}": first, f"M2 {axis}": second, f"rms {axis}": np.sqrt(second)}
    return found


def _places(found: dict[str, Floats]) -> dict[str, slice]:
    ends = np.cumsum([1 if v.ndim == 1 else v.shape[1] for v in found.values()])
    starts = np.concatenate([[0], ends[:-1]])
    return {
        name: slice(int(start), int(end))
        for name, start, end in zip(found, starts, ends, strict=True)
    }
