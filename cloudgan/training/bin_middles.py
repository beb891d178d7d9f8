"""Values of a table at the middles of its bins, such that linear reading gives the measured means."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]

PARTS = 4
"""Places in a bin at which a table is read."""
_ROUNDS = 4
"""Corrections of the values of a table."""
_LEAST_SHARE = 1e-5


def bin_middles(share: Floats, mean: Floats, overlap: Floats, places: int) -> tuple[Floats, Floats]:
    """Returns thresholds and logarithms of the mean energy of hits at the middles of the bins.

    They are read linearly between the middles; so read, the mean over each bin is the measured one.

    Args:
        share: Share of hit cells of each bin, (stages, knots, rows, columns).
        mean: Mean energy of its hits in GeV, alike.
        overlap: Share of each knot in the layers of another, (stages, knot, knot); rows sum to 1.
        places: In a bin, at which the table is read, evenly spread; 1 is its middle.
    """
    bins = share.shape[2:]
    inside = []
    for size in bins:
        place = (np.arange(size * places) + 0.5) / places - 0.5
        place = np.clip(place, 0, size - 1)
        inside.append(np.maximum(0.0, 1 - np.abs(place[:, None] - np.arange(size))))

    def between(values: Floats) -> Floats:
        return np.asarray(inside[0] @ values @ inside[1].T)

    def measured(values: Floats) -> Floats:
        parts = (*share.shape[:2], bins[0], places, bins[1], places)
        return np.einsum("skj,sjrc->skrc", overlap, values.reshape(parts).mean((3, 5)))

    share = np.clip(share, _LEAST_SHARE, 1 - _LEAST_SHARE)
    threshold, log_mean = ndtri(share), np.log(mean)
    energy = share * mean
    for _ in range(_ROUNDS):
        hit = ndtr(between(threshold))
        found = measured(hit)
        log_mean = log_mean + np.clip(
            np.log(energy / measured(hit * np.exp(between(log_mean)))) - np.log(share / found),
            -1,
            1,
        )
        threshold = threshold + np.clip(ndtri(share) - ndtri(found), -1, 1)
    return threshold, log_mean
