"""The normals of cells for `cloudgan.gan.cell_marginals`: exponents of their hits, and what neighbours share.

In Geant4 showers the hits of neighbouring cells come together. With independent cells layers would be too regular: their
places and widths would fluctuate too little.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]
Block = tuple[Floats, NDArray[np.bool_]]
"""Thresholds of cells, (B, Z, Y, X), and which of them are hit; in an empty layer a threshold is -inf."""

_CORRELATIONS = np.linspace(-0.65, 0.65, 131)
"""Of neighbours: a cell that shares with its neighbours only has less than 0.71."""
_PRIOR = 3.0
"""Weight of all layers in the correlation of one; a pair of cells that are hit as often as not counts 0.16."""
_THRESHOLDS = np.linspace(-4.5, 4.5, 91)
_EXPONENTS = np.exp(np.linspace(np.log(0.3), np.log(8.0), 80))
_TINY = 1e-12
_X, _Y = 3, 2
"""Axes of a block."""


def neighbour_shares(blocks: Iterable[Block], layers: int, *, is_ring: bool) -> Floats:
    """Returns the share of each neighbour's normal in that of a cell, along x and y in each layer, (2, Z).

    Hits that are rarer or more frequent together than the thresholds of two cells say are those of correlated normals.
    Where few hits are, those of all layers count.
    """
    sums = sum((_sums(*block, is_ring=is_ring) for block in blocks), np.zeros((4, 2, layers)))
    every = sums.sum(2, keepdims=True)
    sums = sums + _PRIOR * every / np.maximum(every[1:2], _TINY)
    products, *terms = sums
    found = np.zeros((2, layers))
    for at in np.ndindex(2, layers):
        # Mehler's series of the joint probability of two hits.
        first, second, third = (term[at] for term in terms)
        first = first + _TINY  # without hits, neighbours are independent
        expected = _CORRELATIONS * (
            first + _CORRELATIONS * (second / 2 + _CORRELATIONS * third / 6)
        )
        found[at] = np.interp(products[at], np.maximum.accumulate(expected), _CORRELATIONS)
    # Of the correlation of (a, 1, a) with itself one cell on, 2 a / (1 + 2 a^2).
    return np.asarray(found / (1 + np.sqrt(1 - 2 * found**2)))


def _sums(threshold: Floats, is_hit: NDArray[np.bool_], *, is_ring: bool) -> Floats:
    """Sums over pairs of neighbours, (4, 2, Z): of the products of their hits less the mean, and of the series' terms."""
    density = np.exp(-(threshold**2) / 2) / np.sqrt(2 * np.pi)
    b = np.where(density > 0, threshold, 0.0)
    each = (is_hit - ndtr(threshold), density, density * b, density * (b**2 - 1))
    return np.array(
        [[_pairs(one, axis, closed=is_ring and axis == _Y) for axis in (_X, _Y)] for one in each]
    )


def _pairs(values: Floats, axis: int, *, closed: bool) -> Floats:
    """Sums of the products of neighbours along an axis, (Z,); of a closed one the last and the first are neighbours."""
    other, last = np.roll(values, -1, axis), slice(None) if closed else slice(-1)
    at = (slice(None), slice(None), *((last,) if axis == _Y else (slice(None), last)))
    return np.asarray((values[at] * other[at]).sum((0, 2, 3)))


def exponents(threshold: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Exponent k of each cell, and the mean of ``(h + b)**k`` for a normal h above -b, the threshold.

    `spread` is the mean square of a hit over its squared mean.
    """
    levels = (np.arange(400) + 0.5) / 400
    moments = np.empty((len(_THRESHOLDS), len(_EXPONENTS)))
    ratios = np.empty_like(moments)
    for number, b in enumerate(_THRESHOLDS):
        excess = np.maximum(ndtri(1 - levels * ndtr(b)) + b, _TINY)
        powers = excess ** _EXPONENTS[:, None]
        moments[number] = powers.mean(1)
        ratios[number] = (powers**2).mean(1) / moments[number] ** 2
    nearest = np.rint((np.clip(threshold, _THRESHOLDS[0], _THRESHOLDS[-1]) - _THRESHOLDS[0]) / 0.1)
    found = np.empty_like(spread)
    for number in range(len(_THRESHOLDS)):
        chosen = nearest == number
        found[chosen] = np.interp(spread[chosen], ratios[number], _EXPONENTS)
    moment = RegularGridInterpolator((_THRESHOLDS, np.log(_EXPONENTS)), np.log(moments))
    places: Any = np.stack(
        [np.clip(threshold, _THRESHOLDS[0], _THRESHOLDS[-1]), np.log(found)], axis=-1
    )
    return found, np.exp(moment(places))
