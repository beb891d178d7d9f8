"""Weights of showers: row 0 is all ones and gives the value, bootstrap samples give its error.

One matrix product sums the observables under all weight vectors.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cloudgan.validation.observables.observables import Observables
from cloudgan.validation.observables.overlap import OverlapRegion

Weights = NDArray[np.float32]

_BOOTSTRAP, _HALVES = 0, 1  # streams of random numbers


def draw_weights(overlap: OverlapRegion, *, bootstraps: int, seed: int) -> tuple[Weights, Weights]:
    """Draws Poisson bootstrap samples of the generated showers, (1 + bootstraps, N), and of the reference.

    If showers are matched in energy, so are bootstrap samples: energy fluctuations cancel.
    """
    draw = np.random.default_rng([seed, _BOOTSTRAP])
    reference = _with_ones(draw.poisson(1.0, (bootstraps, len(overlap.reference))))
    if overlap.matched:
        return reference, reference
    return _with_ones(draw.poisson(1.0, (bootstraps, len(overlap.generated)))), reference


def halves(
    overlap: OverlapRegion, *, count: int, seed: int
) -> Iterator[tuple[Observables, Observables]]:
    """Yields random halves of the reference; if showers are matched, neighbours in energy are in different halves."""
    energy = overlap.reference.energy_gev
    for number in range(count):
        random = np.random.default_rng([seed, _HALVES, number])
        order = (
            np.argsort(energy, kind="stable")
            if overlap.matched
            else random.permutation(len(energy))
        )
        pairs = order[: 2 * (len(order) // 2)].reshape(-1, 2)
        side, rows = random.integers(0, 2, len(pairs)), np.arange(len(pairs))
        first, second = np.sort(pairs[rows, side]), np.sort(pairs[rows, 1 - side])
        yield overlap.reference[first], overlap.reference[second]


def _with_ones(weights: NDArray[np.int64]) -> Weights:
    return np.concatenate([np.ones((1, weights.shape[1]), np.float32), weights.astype(np.float32)])
