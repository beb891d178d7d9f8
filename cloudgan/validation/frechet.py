"""FPD: the Frechet distance of two samples' features, as if they were Gaussian (arXiv:2211.10295)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cloudgan.validation.covariances import Covariances, covariances

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Weights = NDArray[np.float32]

SPLITS = 4
"""Random halvings of both samples that the extrapolation is made from."""


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
    """FPD of features, extrapolated to endless samples, (R,).

    The distance of finite samples is too large by a term in 1/N. With halves of both samples that
    term is twice as large, so the line through both, at 1/N = 0, is 2 F(N) - F(N/2); F(N/2) is the
    mean over random halvings. Kansal et al. fit the same line to more and larger samples.

    Args:
        ours: (N, d), scaled.
        our_weights: (R, N).
        theirs: (M, d), scaled.
        their_weights: (R, M).
        seed: Of the halvings.
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
    """Divides each feature by the largest absolute value that it has in the reference."""
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
