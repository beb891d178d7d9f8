"""Every number of an assessment is computed under many weightings of the same showers.

The first is all ones: the number itself. Bootstrap samples give its error, two halves of the
reference its floor. So images and features are never made again, and one product of matrices gives
the sums of all weightings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cloudgan.validation.overlap import Common

    Weights = NDArray[np.float32]

_BOOTSTRAP, _HALVES = 0, 1  # streams of random numbers


@dataclass(frozen=True)
class Weightings:
    """Weights per shower, a row for each way of weighting: R = 1 + bootstrap samples, H halvings.

    Attributes:
        generated: (R, N); row 0 is all ones.
        reference: (R, M); row 0 is all ones.
        first: (H, M), 1 where a shower of the reference is in the first half, else 0.
        second: (H, M), the other half.
    """

    generated: Weights
    reference: Weights
    first: Weights
    second: Weights


def plain(common: Common) -> Weightings:
    """One weighting, no errors and no floors."""
    ours, theirs = (np.ones((1, len(s)), np.float32) for s in (common.generated, common.reference))
    return Weightings(ours, theirs, theirs[:0], theirs[:0])


def weightings(common: Common, *, bootstraps: int, halvings: int, seed: int) -> Weightings:
    """Draws bootstrap samples and halvings.

    Where showers are matched in energy, so are the bootstrap samples and the halves: their
    energies' fluctuations cancel in both.

    Args:
        common: Two samples.
        bootstraps: Poisson bootstrap samples: each shower counts as often as a Poisson number of
            mean 1 says.
        halvings: Of the reference.
        seed: Of all of it.
    """
    draw = np.random.default_rng([seed, _BOOTSTRAP])
    ours, theirs = len(common.generated), len(common.reference)
    reference = draw.poisson(1.0, (bootstraps, theirs)).astype(np.float32)
    if common.matched:
        generated = reference
    else:
        generated = draw.poisson(1.0, (bootstraps, ours)).astype(np.float32)
    halves = [
        _halves(common.reference.energy_gev, common.matched, [seed, _HALVES, number])
        for number in range(halvings)
    ]
    first, second = (np.stack(half) for half in zip(*halves, strict=True))
    return Weightings(_with_ones(generated), _with_ones(reference), first, second)


def _halves(
    energy_gev: NDArray[np.float64], paired: bool, seed: list[int]
) -> tuple[Weights, Weights]:
    """Two halves of equal size; where `paired`, neighbours in energy are never in the same."""
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
