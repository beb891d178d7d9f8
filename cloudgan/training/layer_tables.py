"""Measures the tables of the layers' energies for `cloudgan.gan.cell_marginals`, and the values of a table at its bins' middles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from cloudgan.gan.shower_frame import (
    LEAST_DEPTH,
    QUANTILES,
    REACH,
    Conditions,
    given_terms,
    layer_roots,
    layer_terms,
)

Floats = NDArray[np.float64]

_TINY = 1e-12
_LEAST_SHARE = 1e-5
PARTS = 4
"""Places in a bin at which a table is read."""
_ROUNDS = 4
"""Corrections of the values of a table."""
_DRAWN = 20_000
_NEVER_EMPTY = -10.0
"""A root that no layer is below."""


def layer_tables(conditions: Conditions, energy: Floats, layers: Floats) -> dict[str, Floats]:
    """Mean, spread, quantiles and correlations of the roots, and the roots of empty layers.

    A root is that of a layer's share of the energy, or of their sum's.

    Args:
        conditions: Of the training showers.
        energy: Of their primaries in GeV, (N,).
        layers: Energies in GeV, (N, Z).
    """
    root = np.sqrt(np.concatenate([layers, layers.sum(1, keepdims=True)], 1) / energy[:, None])
    terms = layer_terms(conditions, _depth_normals(conditions, layers), np)
    mean, spread, relative = _standardised(terms, root)
    normal = _normal_scores(relative)
    correlation = normal.T @ normal / len(normal)
    scale = np.sqrt(np.maximum(np.diag(correlation), _TINY))
    correlation = correlation / scale / scale[:, None]
    # Fewer showers than layers leave directions without any spread.
    size = len(correlation)
    shrink = size / (size + len(normal))
    correlation = (1 - shrink) * correlation + shrink * np.eye(size)
    tables: dict[str, Floats] = {
        "layer_mean": mean,
        "layer_spread": spread,
        "layer_quantiles": quantiles(relative),
        "layer_factor": np.asarray(np.linalg.cholesky(correlation)),
    }
    return tables | {"layer_least": _least_roots(conditions, layers, tables)}


def quantiles(values: Floats) -> Floats:
    """Values (N, K) at the nodes of a quantile function, (K, `QUANTILES`)."""
    return np.quantile(values, ndtr(_NODES), axis=0).T


_NODES = np.linspace(-REACH, REACH, QUANTILES)


def _depth_normals(conditions: Conditions, layers: Floats) -> Floats:
    """How late each shower is at its energy and angle: normal scores of its mean depth, (N, 1)."""
    depth = np.arange(layers.shape[1]) + 0.5
    mean = layers @ depth / np.maximum(layers.sum(1), _TINY)
    log_mean = np.log(np.maximum(mean, LEAST_DEPTH))[:, None]
    _, _, relative = _standardised(given_terms(conditions, np), log_mean)
    return _normal_scores(relative)


def _standardised(terms: Floats, values: Floats) -> tuple[Floats, Floats, Floats]:
    """Fits mean and spread of values (N, K) as functions of terms (N, T).

    Returns:
        Factors of the mean, and of the logarithm of the spread, (T, K); deviations over the spread, (N, K).
    """
    mean = np.asarray(np.linalg.lstsq(terms, values, rcond=None)[0], np.float64)
    deviation = values - terms @ mean
    floor = 1e-3 * np.sqrt(np.mean(deviation**2)) + _TINY
    log_spread = np.log(np.abs(deviation) + floor)
    spread = np.asarray(np.linalg.lstsq(terms, log_spread, rcond=None)[0], np.float64)
    return mean, spread, np.asarray(deviation / np.exp(terms @ spread))


def _normal_scores(values: Floats) -> Floats:
    """Normals of the ranks in each column, (N, K)."""
    ranks = np.argsort(np.argsort(values, axis=0), axis=0)
    return np.asarray(ndtri((ranks + 0.5) / len(values)))


def _least_roots(conditions: Conditions, layers: Floats, tables: dict[str, Floats]) -> Floats:
    """Root up to which a layer is empty, (Z,): of roots drawn from the tables as many are below it as layers are empty."""
    random = np.random.default_rng(0)
    count, depth = layers.shape
    drawn = []
    for _ in range(-(-_DRAWN // count)):
        terms = layer_terms(conditions, random.standard_normal((count, 1)), np)
        normal = random.standard_normal((count, depth + 1)) @ tables["layer_factor"].T
        deviation = [
            np.interp(each, _NODES, nodes)
            for each, nodes in zip(normal.T, tables["layer_quantiles"], strict=True)
        ]
        factors = tables["layer_mean"], tables["layer_spread"]
        drawn.append(layer_roots(terms, np.stack(deviation, 1), *factors, np))
    empty = np.mean(layers <= 0, axis=0)
    roots = np.concatenate(drawn)[:, :depth].T
    least = [np.quantile(root, share) for root, share in zip(roots, empty, strict=True)]
    return np.where(empty > 0, least, _NEVER_EMPTY)


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
