"""Weighted means and covariances of features, for many weightings at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_CHUNK = 5000  # showers whose products are in memory at a time


class Covariances(NamedTuple):
    """Of d features under R weightings.

    Attributes:
        mean: (R, d).
        covariance: (R, d, d), of the sample (divided by the sum of the weights).
    """

    mean: Floats
    covariance: Floats

    def correlation(self) -> Floats:
        """(R, d, d); 0 where a feature does not vary."""
        spread = np.sqrt(np.maximum(np.diagonal(self.covariance, axis1=1, axis2=2), 0.0))
        product = spread[:, :, None] * spread[:, None, :]
        found = np.zeros_like(self.covariance)
        np.divide(self.covariance, product, out=found, where=product > 0)
        return found

    def residual_variance(self, given: int) -> Floats:
        """Variance of the features from `given` on, about the best line in those before, (R, d')."""
        inner = self.covariance[:, :given, :given]
        cross = self.covariance[:, :given, given:]
        # Conditions that do not vary explain nothing: the pseudo-inverse leaves them out.
        explained = np.einsum(
            "rif,rij,rjf->rf", cross, np.linalg.pinv(inner, rcond=1e-10, hermitian=True), cross
        )
        variance = np.diagonal(self.covariance, axis1=1, axis2=2)[:, given:]
        return np.asarray(np.maximum(variance - explained, 0.0))


def covariances(features: Floats, weights: NDArray[np.float32]) -> Covariances:
    """Of `features` (N, d) under `weights` (R, N)."""
    dimensions = features.shape[1]
    middle = features.mean(0)  # sums of squares around it lose no digits
    row, column = np.triu_indices(dimensions)
    sums = np.zeros((len(weights), dimensions))
    products = np.zeros((len(weights), len(row)))
    for first in range(0, len(features), _CHUNK):
        away = features[first : first + _CHUNK] - middle
        some = weights[:, first : first + _CHUNK].astype(np.float64)
        sums += some @ away
        products += some @ (away[:, row] * away[:, column])
    total = np.maximum(weights.sum(1, dtype=np.float64), 1e-30)[:, None]
    mean = sums / total
    flat = products / total - mean[:, row] * mean[:, column]
    full = np.empty((len(weights), dimensions, dimensions))
    full[:, row, column] = flat
    full[:, column, row] = flat
    return Covariances(mean + middle, full)
