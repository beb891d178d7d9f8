"""Quality of generated digits: Fréchet distance, total variation of classes, classes covered.

Both sides are measured with the features and classes of one classifier. The Fréchet distance is that
of Heusel et al. 2017 (arXiv:1706.08500, equation 6), with 64 features of a small classifier of digits
in place of the Inception network's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np
from threadpoolctl import ThreadpoolController

from cloudgan.coevolution.task import Quality

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

COVERED_SHARE: Final = 0.01
"""A class is covered if more than this share of the samples belongs to it."""


@dataclass(frozen=True)
class Gaussian:
    """Mean (F,) and covariance (F, F) of features."""

    mean: Floats
    covariance: Floats

    @classmethod
    def of(cls, features: NDArray[np.floating]) -> Self:
        """Measures features, (N, F); the covariance of one sample is zero."""
        values = features.astype(np.float64)
        mean = values.mean(axis=0)
        centred = values - mean
        return cls(mean, centred.T @ centred / max(1, len(values) - 1))


def square_root(covariance: Floats) -> Floats:
    """Returns the symmetric square root of a covariance; rounding errors below zero count as zero."""
    values, vectors = np.linalg.eigh(covariance)
    root: Floats = (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T
    return root


def frechet_distance(a: Gaussian, b: Gaussian, *, root: Floats | None = None) -> float:
    """Returns the squared Fréchet distance of two Gaussians.

    The trace of ``(A B)^(1/2)`` is that of ``(A^(1/2) B A^(1/2))^(1/2)``, the root of a symmetric
    matrix.

    Args:
        a: The first.
        b: The second.
        root: Square root of the covariance of `a`, if it is known.
    """
    root = square_root(a.covariance) if root is None else root
    common = np.sqrt(np.clip(np.linalg.eigvalsh(root @ b.covariance @ root), 0, None)).sum()
    spread = np.trace(a.covariance) + np.trace(b.covariance) - 2 * common
    return max(0.0, float(np.sum((a.mean - b.mean) ** 2) + spread))


def class_shares(probabilities: NDArray[np.floating]) -> Floats:
    """Returns the share of samples of each class, (C,), for class probabilities, (N, C)."""
    count = np.bincount(probabilities.argmax(axis=1), minlength=probabilities.shape[1])
    return count / len(probabilities)


def total_variation(a: Floats, b: Floats) -> float:
    """Returns half the sum of the differences of two sets of shares: 0 if equal, at most 1."""
    return float(np.abs(a - b).sum() / 2)


def classes_covered(shares: Floats) -> int:
    """Returns how many classes hold more than 1 % of the samples."""
    return int((shares > COVERED_SHARE).sum())


NO_DIGITS: Final = Quality(math.inf, {"total_variation": 1.0, "classes_covered": 0.0})
"""Of samples that are not finite: they belong to no class."""


class Reference:
    """Held-out digits, measured once."""

    def __init__(self, features: NDArray[np.floating], probabilities: NDArray[np.floating]) -> None:
        """Measures features (N, F) and class probabilities (N, C)."""
        # For matrices of this size the threads of BLAS cost more than they save: 30 ms instead of 1 ms
        # while TensorFlow's threads are busy.
        self._blas = ThreadpoolController().select(user_api="blas")
        with self._blas.limit(limits=1):
            self._gaussian = Gaussian.of(features)
            self._root = square_root(self._gaussian.covariance)
        self._shares = class_shares(probabilities)

    def quality(
        self, features: NDArray[np.floating], probabilities: NDArray[np.floating]
    ) -> Quality:
        """Returns the quality of samples; its score is the Fréchet distance."""
        with self._blas.limit(limits=1):
            distance = frechet_distance(self._gaussian, Gaussian.of(features), root=self._root)
        shares = class_shares(probabilities)
        return Quality(
            distance,
            {
                "total_variation": total_variation(self._shares, shares),
                "classes_covered": float(classes_covered(shares)),
            },
        )
