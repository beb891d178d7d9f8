"""Weights of showers for values, bootstrap errors and MC-MC baselines.

Row 0 is all ones and gives the value, bootstrap samples give its error, two halves of the reference its
baseline. One matrix product sums the observables under all weight vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cloudgan.validation.observables.overlap import OverlapRegion

    Weights = NDArray[np.float32]

_BOOTSTRAP, _HALVES = 0, 1  # streams of random numbers


@dataclass(frozen=True)
class BootstrapWeights:
    """Weights per shower, one row per weight vector: R = 1 + bootstrap samples, H halvings.

    Attributes:
        generated: (R, N); row 0 is all ones.
        reference: (R, M); row 0 is all ones.
        first: (H, M), 1 where a reference shower is in the first half, else 0.
        second: (H, M), the other half.
    """

    generated: Weights
    reference: Weights
    first: Weights
    second: Weights


def unit_weights(overlap: OverlapRegion) -> BootstrapWeights:
    """Returns one weight vector of ones, without errors and baselines."""
    ours, theirs = (
        np.ones((1, len(s)), np.float32) for s in (overlap.generated, overlap.reference)
    )
    return BootstrapWeights(ours, theirs, theirs[:0], theirs[:0])


def draw_weights(
    overlap: OverlapRegion, *, bootstraps: int, halvings: int, seed: int
) -> BootstrapWeights:
    """Draws bootstrap samples and halvings.

    If showers are matched in energy, so are bootstrap samples and halves: energy fluctuations cancel.

    Args:
        overlap: Two samples.
        bootstraps: Number of Poisson bootstrap samples (weights are Poisson numbers of mean 1).
        halvings: Number of halvings of the reference.
        seed: Random seed.
    """
    draw = np.random.default_rng([seed, _BOOTSTRAP])
    ours, theirs = len(overlap.generated), len(overlap.reference)
    reference = draw.poisson(1.0, (bootstraps, theirs)).astype(np.float32)
    if overlap.matched:
        generated = reference
    else:
        generated = draw.poisson(1.0, (bootstraps, ours)).astype(np.float32)
    halves = [
        _halves(overlap.reference.energy_gev, overlap.matched, [seed, _HALVES, number])
        for number in range(halvings)
    ]
    first, second = (np.stack(half) for half in zip(*halves, strict=True))
    return BootstrapWeights(_with_ones(generated), _with_ones(reference), first, second)


def _halves(
    energy_gev: NDArray[np.float64], paired: bool, seed: list[int]
) -> tuple[Weights, Weights]:
    """Two halves of equal size; if `paired`, neighbours in energy are in different halves."""
    random = np.random.default_rng(seed)
    count = len(energy_gev)
    order = np.argsort(energy_gev, kind="stable") if paired else random.permutation(count)
    pairs = order[: 2 * (count // 2)].reshape(-1, 2)
    side, rows = random.integers(0, 2, len(pairs)), np.arange(len(pairs))
    first, second = np.zeros((2, count), np.float32)
    first[pairs[rows, side]] = 1
    second[pairs[rows, 1 - side]] = 1
    return first, second


def _with_ones(weights: Weights) -> Weights:
    return np.concatenate([np.ones((1, weights.shape[1]), np.float32), weights])
