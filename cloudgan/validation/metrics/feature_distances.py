"""FPD and KPD: Frechet and kernel distance of shower features (arXiv:2211.10295), and weighted covariances."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Weights = NDArray[np.float32]


_CHUNK = 5000  # showers whose products are in memory at once


class Covariances(NamedTuple):
    """Mean and covariance of d features under R weight vectors.

    Attributes:
        mean: (R, d).
        covariance: (R, d, d), divided by the sum of the weights.
    """

    mean: Floats
    covariance: Floats

    def correlation(self) -> Floats:
        """Correlation matrices, (R, d, d); 0 where a feature does not vary."""
        spread = np.sqrt(np.maximum(np.diagonal(self.covariance, axis1=1, axis2=2), 0.0))
        product = spread[:, :, None] * spread[:, None, :]
        found = np.zeros_like(self.covariance)
        np.divide(self.covariance, product, out=found, where=product > 0)
        return found

    def residual_variance(self, given: int) -> Floats:
        """Variance of the features from `given` on, about their linear fit on those before, (R, d')."""
        inner = self.covariance[:, :given, :given]
        cross = self.covariance[:, :given, given:]
        # The pseudo-inverse leaves out conditions that do not vary.
        explained = np.einsum(
            "rif,rij,rjf->rf", cross, np.linalg.pinv(inner, rcond=1e-10, hermitian=True), cross
        )
        variance = np.diagonal(self.covariance, axis1=1, axis2=2)[:, given:]
        return np.asarray(np.maximum(variance - explained, 0.0))


def covariances(features: Floats, weights: NDArray[np.float32]) -> Covariances:
    """Returns the covariances of `features` (N, d) under `weights` (R, N)."""
    dimensions = features.shape[1]
    middle = features.mean(0)  # centred for numerical precision
    row, column = np.triu_indices(dimensions)
    sums = np.zeros((len(weights), dimensions))
    products = np.zeros((len(weights), len(row)))
    for first in range(0, len(features), _CHUNK):
        deviation = features[first : first + _CHUNK] - middle
        some = weights[:, first : first + _CHUNK].astype(np.float64)
        sums += some @ deviation
        products += some @ (deviation[:, row] * deviation[:, column])
    total = np.maximum(weights.sum(1, dtype=np.float64), 1e-30)[:, None]
    mean = sums / total
    flat = products / total - mean[:, row] * mean[:, column]
    full = np.empty((len(weights), dimensions, dimensions))
    full[:, row, column] = flat
    full[:, column, row] = flat
    return Covariances(mean + middle, full)


SPLITS = 4
"""Random halvings of both samples for the extrapolation."""


def frechet(ours: Covariances, theirs: Covariances) -> Floats:
    """|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)), (R,): the squared Wasserstein-2 of two Gaussians."""
    root = _root(ours.covariance)
    inner = np.linalg.eigvalsh(root @ theirs.covariance @ root)
    cross = np.sqrt(np.maximum(inner, 0.0)).sum(1)
    trace = np.trace(ours.covariance, axis1=1, axis2=2) + np.trace(
        theirs.covariance, axis1=1, axis2=2
    )
    return np.asarray(((ours.mean - theirs.mean) ** 2).sum(1) + trace - 2 * cross)


def fpd(
    ours: Floats, our_weights: Weights, theirs: Floats, their_weights: Weights, *, seed: int
) -> Floats:
    """FPD of features, extrapolated to infinite samples, (R,).

    The distance of finite samples has a bias in 1/N, which doubles with halves of both samples. The line
    through both, at 1/N = 0, is 2 F(N) - F(N/2), where F(N/2) is the mean over random halvings. Kansal et
    al. fit the same line to more and larger samples.

    Args:
        ours: (N, d), scaled.
        our_weights: (R, N).
        theirs: (M, d), scaled.
        their_weights: (R, M).
        seed: Seed of the halvings.
    """
    random = np.random.default_rng(seed)
    whole = frechet(covariances(ours, our_weights), covariances(theirs, their_weights))
    halves = []
    for _ in range(SPLITS):
        mine, other = _half(our_weights, random), _half(their_weights, random)
        halves += [
            frechet(covariances(ours, our_weights * a), covariances(theirs, their_weights * b))
            for a, b in ((mine, other), (1 - mine, 1 - other))
        ]
    return np.asarray(2 * whole - np.mean(halves, axis=0))


def scaled(features: Floats, reference: Floats) -> Floats:
    """Divides each feature by its largest absolute value in the reference."""
    largest = np.abs(reference).max(0)
    return features / np.where(largest > 0, largest, 1.0)


def _half(weights: Weights, random: np.random.Generator) -> Weights:
    half = np.zeros(weights.shape[1], np.float32)
    half[random.permutation(weights.shape[1])[: weights.shape[1] // 2]] = 1
    return half


def _root(matrices: Floats) -> Floats:
    values, vectors = np.linalg.eigh(matrices)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return np.asarray(roots @ vectors.transpose(0, 2, 1))


MAX_SHOWERS = 3000
"""Maximum number of showers of each sample: time and memory are quadratic."""

GROUPS = 10
"""Groups of the jackknife, each left out once."""

_DEGREE = 4


class Estimate(NamedTuple):
    """A value and its standard error."""

    value: float
    error: float


def kpd(ours: Floats, theirs: Floats, *, seed: int) -> Estimate:
    """Unbiased squared maximum mean discrepancy under the kernel (x.y / d + 1)^4.

    Mean of k(x, x') plus that of k(y, y') minus twice that of k(x, y) over different showers (Gretton et
    al., JMLR 13 (2012) 723, eq. 3); it can be negative. The error is the jackknife's.

    Args:
        ours: (N, d), scaled.
        theirs: (M, d), scaled.
        seed: Seed of the sampling above `MAX_SHOWERS`.
    """
    random = np.random.default_rng(seed)
    x, y = (_some(sample, random) for sample in (ours, theirs))
    sums = {"xx": _sums(x, x), "yy": _sums(y, y), "xy": _sums(x, y)}
    sizes = [np.array([len(part) for part in np.array_split(s, GROUPS)]) for s in (x, y)]
    every = np.ones(GROUPS, np.bool_)
    whole = _discrepancy(sums, sizes, every)
    without = [_discrepancy(sums, sizes, every & (np.arange(GROUPS) != g)) for g in range(GROUPS)]
    scatter = np.sum((np.array(without) - np.mean(without)) ** 2)
    return Estimate(whole, float(np.sqrt((GROUPS - 1) / GROUPS * scatter)))


def kernel(x: Floats, y: Floats) -> Floats:
    """(x.y / d + 1)^4 of each pair, (N, M)."""
    return np.asarray((x @ y.T / x.shape[1] + 1.0) ** _DEGREE)


def _some(sample: Floats, random: np.random.Generator) -> Floats:
    return sample[random.permutation(len(sample))[:MAX_SHOWERS]]


def _sums(x: Floats, y: Floats) -> Floats:
    """Sums of the kernel over groups, (GROUPS, GROUPS), without a shower and itself."""
    same = x is y
    found = np.empty((GROUPS, GROUPS))
    columns = np.cumsum([0] + [len(part) for part in np.array_split(y, GROUPS)])[:-1]
    for row, part in enumerate(np.array_split(x, GROUPS)):
        found[row] = np.add.reduceat(kernel(part, y).sum(0), columns)
        if same:
            found[row, row] -= (
                (np.einsum("nd,nd->n", part, part) / x.shape[1] + 1.0) ** _DEGREE
            ).sum()
    return found


def _discrepancy(
    sums: dict[str, Floats], sizes: list[NDArray[np.int64]], kept: NDArray[np.bool_]
) -> float:
    total = {name: float(found[np.ix_(kept, kept)].sum()) for name, found in sums.items()}
    n, m = (int(size[kept].sum()) for size in sizes)
    return total["xx"] / (n * (n - 1)) + total["yy"] / (m * (m - 1)) - 2 * total["xy"] / (n * m)
