"""Weights of showers, and null distributions.

Row 0 of the weights is all ones and gives the value, bootstrap samples give its error, permuted labels of the pooled showers
what Monte Carlo against Monte Carlo of the same size gives: where both samples come from one distribution, every labelling
is equally likely. If the samples have the same energies and angles row by row, labels are exchanged within the pairs. The
test is exact for any statistic and any sample size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudgan.validation.assessment import (
    IDEALS,
    ONE_SIDED,
    PERMUTATIONS,
    QUADRATIC,
    SIGNIFICANCE,
)
from cloudgan.validation.observables import Observables, join_observables
from cloudgan.validation.overlap import OverlapRegion

Floats = NDArray[np.float64]
Key = tuple[str, str]
Weights = NDArray[np.float32]

_BOOTSTRAP, _HALVES, _PERMUTE = 0, 1, 2  # streams of random numbers


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


MAX_SHOWERS = 5000
"""Showers of each sample in the tests; larger samples are thinned evenly."""

_TAIL = 0.99


@dataclass(frozen=True)
class Pool:
    """Showers of both samples, N in all, the generated ones first.

    Attributes:
        sample: All showers.
        labels: 1 of a generated shower, else 0, (1 + permutations, N); row 0 is the truth.
        rows: Rows of the generated sample, and of the reference, that are in the pool.
        angle_known: The requested angle of both samples is known.
    """

    sample: Observables
    labels: NDArray[np.float32]
    rows: tuple[NDArray[np.int64], NDArray[np.int64]]
    angle_known: bool

    def thinned(self, showers: int) -> NDArray[np.int64]:
        """Returns rows of the pool with at most so many showers of each sample, evenly spaced."""
        counts = [len(rows) for rows in self.rows]
        ours, theirs = (_evenly(count, showers) for count in counts)
        return np.concatenate([ours, counts[0] + theirs])


def pool(overlap: OverlapRegion, *, seed: int, permutations: int = PERMUTATIONS) -> Pool:
    """Pools both samples and permutes their labels."""
    random = np.random.default_rng([seed, _PERMUTE])
    rows = tuple(_evenly(len(s), MAX_SHOWERS) for s in (overlap.generated, overlap.reference))
    ours, theirs = map(len, rows)
    labels = np.zeros((permutations + 1, ours + theirs), np.float32)
    labels[0, :ours] = 1
    if overlap.matched:
        labels[1:, :ours] = random.integers(0, 2, (permutations, ours))
        labels[1:, ours:] = 1 - labels[1:, :ours]
    else:
        labels[1:] = random.permuted(np.repeat(labels[:1], permutations, 0), axis=1)
    both = join_observables([overlap.generated[rows[0]], overlap.reference[rows[1]]])
    return Pool(both, labels, (rows[0], rows[1]), overlap.angle_known)


class Null(NamedTuple):
    """What Monte Carlo against Monte Carlo of this size gives, for one measure.

    Attributes:
        baseline: Mean of the measure.
        baseline_error: Its standard deviation.
        deviation: Mean distance from the ideal.
        widths: How far the measured value is beyond the usual one, in standard deviations.
        p: Share of permutations in which any measure is as unusual as this one is: corrected for the number of
            measures (maximum statistic of Westfall and Young, 1993).
        detectable: Least deviation, beyond `deviation`, that is significant.
    """

    baseline: float
    baseline_error: float
    deviation: float
    widths: float
    p: float
    detectable: float


def nulls(rows: Mapping[Key, Floats], family: Callable[[Key], bool]) -> dict[Key, Null]:
    """Returns the null distribution of each measure from its values under all labellings, (1 + permutations,) each.

    For the correction each deviation (of squares of a difference: its root) is centred on its median and scaled by the
    distance of its 99th percentile, so that measures with long tails count as much as others. What fluctuates below its
    ideal does so here: cut off at the ideal, a measure that is rarely above it would have next to no scale, and each of
    its values would be more unusual than any of another measure. Measures without a value are left out.

    Args:
        rows: Values; row 0 is the truth.
        family: Whether the correction counts a measure: whether a gate can fail because of it.
    """
    distances = {}
    for key, values in rows.items():
        if np.isfinite(values[1:]).sum() > 1 and not np.isnan(values[0]):
            middle = np.median(values[np.isfinite(values)])
            distances[key] = _beyond(key[0], np.nan_to_num(values, nan=middle, posinf=np.inf))
    if not distances:
        return {}
    table = np.stack([_root(d) if key[0] in QUADRATIC else d for key, d in distances.items()])
    centre = np.median(table, 1, keepdims=True)
    finite = np.where(np.isfinite(table), table, np.nan)
    tail, most = (
        np.nanquantile(finite, _TAIL, 1, keepdims=True),
        np.nanmax(finite, 1, keepdims=True),
    )
    scale = np.where(tail > centre, tail, most) - centre
    varies, scale = scale[:, 0] > 0, np.where(scale > 0, scale, 1.0)
    unusual = (table - centre) / scale
    counted = unusual[[family(key) for key in distances]][:, 1:]
    most_unusual = np.sort(np.where(np.isfinite(counted), counted, -np.inf).max(0, initial=0.0))
    count = len(most_unusual)
    above = count - np.searchsorted(most_unusual, unusual[:, 0] * (1 - 1e-12), side="left")
    # So many permutations may be above a significant value; with fewer than 100, none is significant.
    allowed = int(np.ceil(SIGNIFICANCE * (count + 1))) - 1
    least_unusual = np.append(most_unusual, np.inf)[count - allowed]
    critical = centre[:, 0] + np.where(varies, least_unusual, 0.0) * scale[:, 0]
    found = {}
    for row, (key, each) in enumerate(distances.items()):
        drawn = rows[key][1:][np.isfinite(rows[key][1:])]
        away = each[1:][np.isfinite(each[1:])]
        spread = float(away.std())
        usual = float(np.maximum(away, 0.0).mean())
        least = max(critical[row], 0.0) ** (2 if key[0] in QUADRATIC else 1)
        found[key] = Null(
            float(drawn.mean()),
            float(drawn.std(ddof=1)),
            usual,
            float(each[0] - away.mean()) / spread if spread > 0 else 0.0,
            float(1 + above[row]) / (count + 1),
            float(least - usual),
        )
    return found


def _beyond(name: str, values: Floats) -> Floats:
    """Distance of values from the ideal; negative below that of a classifier or a squared distance."""
    away = values - IDEALS[name]
    return away if name in ONE_SIDED else np.abs(away)


def _root(squares: Floats) -> Floats:
    """Roots with the signs of the squares."""
    return np.sign(squares) * np.sqrt(np.abs(squares))


def _evenly(count: int, most: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))
