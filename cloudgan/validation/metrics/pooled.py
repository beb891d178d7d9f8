"""Measures that compare all showers of a pool with each other, under all labellings; R labellings of N showers.

Energies of shower features, given energy and angle of the primary, become normal ranks, residuals and uncorrelated columns, so
that an outlier weighs little and a correlation as much as a spread.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloudgan.validation.metrics.feature_distances import kernel, scaled
from cloudgan.validation.metrics.permutations import Pool
from cloudgan.validation.observables.cells import safe_divide
from cloudgan.validation.observables.features import high_level, low_level
from cloudgan.validation.observables.observables import Observables

Floats = NDArray[np.float64]
MeasureValues = dict[tuple[str, str], Floats]

MAX_SHOWERS = 1500
"""Showers of each sample; time and memory are quadratic."""
NEIGHBOURS = 5
_LEAST_LAYER_SHARE = 1e-3
_LEAST_VARIANCE = 1e-3  # of the largest
_CLIP = 5.0  # standard deviations


def pair_measures(pool: Pool) -> MeasureValues:
    """Energy distances (Szekely and Rizzo, 2013), coverage and kernel distance.

    coverage: share of the reference showers that have a generated one among their five nearest neighbours, over the same share for
    permuted labels (Naeem et al., arXiv:2002.09797).
    """
    rows = pool.thinned(MAX_SHOWERS)
    sample, labels = pool.sample[rows], pool.labels[:, rows].astype(np.float64)
    ours, theirs = labels.sum(1), (1 - labels).sum(1)
    signed = labels / ours[:, None] - (1 - labels) / theirs[:, None]
    found: MeasureValues = {}
    for level, features in (
        ("high level", high_level(sample)[:, :-1]),
        ("low level", _layers(sample)),
    ):
        x = _whitened(_residuals(_normal_ranks(features), _conditions(pool, sample)))
        squares = (x**2).sum(1)
        apart = np.sqrt(np.maximum(squares[:, None] + squares - 2 * x @ x.T, 0.0))
        found["energy_distance", level] = -((signed @ apart) * signed).sum(1)
        if level == "high level":
            np.fill_diagonal(apart, np.inf)
            near = np.argpartition(apart, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
            covered = labels[:, near].max(2)
            share = ((1 - labels) * covered).sum(1) / theirs
            found["coverage", ""] = share / share[1:].mean()
    table = scaled(high_level(sample), high_level(sample))
    products = kernel(table, table)
    np.fill_diagonal(products, 0.0)
    mine, other = labels @ products, (1 - labels) @ products
    found["kpd", ""] = (
        (mine * labels).sum(1) / (ours * (ours - 1))
        + (other * (1 - labels)).sum(1) / (theirs * (theirs - 1))
        - 2 * (mine * (1 - labels)).sum(1) / (ours * theirs)
    )
    return found


def layer_spreads(pool: Pool) -> MeasureValues:
    """Spread of a property at given energy, angle and energies of all layers, generated over reference: what fluctuates wrongly.

    Residuals of a linear fit to the pool on the square roots of the layers' energies.
    """
    sample = pool.sample
    layers = np.sqrt(sample.profile_z_gev.astype(np.float64))
    given = np.concatenate([_polynomial(_conditions(pool, sample)), layers], 1)
    properties = {
        "hits 0.1 MeV": sample.hits_low,
        "hits 3 MeV": sample.hits_high,
        "filled cells": sample.cells,
        "M2 x": sample.moments("x")[1],
        "M2 y": sample.moments("y")[1],
        "largest cell": sample.largest_gev,
        "tail": sample.tail_share,
    }
    table = np.stack(list(properties.values()), 1)
    rest = table - given @ np.linalg.lstsq(given, table, rcond=None)[0]
    rest = np.clip(safe_divide(rest, rest.std(0)), -_CLIP, _CLIP) ** 2
    labels = pool.labels.astype(np.float64)
    ours, theirs = (each @ rest / each.sum(1, keepdims=True) for each in (labels, 1 - labels))
    ratio = np.sqrt(np.where(theirs > 0, safe_divide(ours, theirs), np.nan))
    return {("layer_spread", name): ratio[:, column] for column, name in enumerate(properties)}


def auc_measure(
    pool: Pool, level: str, scores: tuple[Floats, Floats], folds: tuple[Floats, Floats]
) -> MeasureValues:
    """AUC of the held-out scores of one classifier, mean over its folds, (R,).

    Each score comes from trees that did not see the shower, so that exchanging labels needs no further training.

    Args:
        pool: Both samples.
        level: Of the features.
        scores: Of the generated showers and of the reference; nan of those that were left out.
        folds: Fold of each.
    """
    from scipy.stats import rankdata  # noqa: PLC0415 - takes longer to import than all else here

    score, fold = (
        np.concatenate([each[rows] for each, rows in zip(both, pool.rows, strict=True)])
        for both in (scores, folds)
    )
    areas = []
    for number in np.unique(fold[np.isfinite(fold)]):
        here = fold == number
        truth = 1 - pool.labels[:, here].astype(np.float64)
        positive = truth.sum(1)
        ranks = truth @ rankdata(score[here])
        areas.append(
            safe_divide(ranks - positive * (positive + 1) / 2, positive * (here.sum() - positive))
        )
    return {("auc", level): np.mean(areas, axis=0)}


def _layers(sample: Observables) -> Floats:
    """Low-level features of the layers with energy, without the primary's."""
    kept = np.tile(sample.shares_z.mean(0) > _LEAST_LAYER_SHARE, 4)
    return low_level(sample)[:, :-1][:, np.append(kept, True)].astype(np.float64)


def _normal_ranks(features: Floats) -> Floats:
    from scipy.special import ndtri  # noqa: PLC0415
    from scipy.stats import rankdata  # noqa: PLC0415

    return np.asarray(ndtri((rankdata(features, axis=0) - 0.5) / len(features)))


def _conditions(pool: Pool, sample: Observables) -> Floats:
    """Ln E and, where known, the requested angle, standardized, (N, 1 or 2)."""
    columns = [np.log(sample.energy_gev)] + [sample.requested_rad] * pool.angle_known
    table = np.stack(columns, 1)
    return safe_divide(table - table.mean(0), table.std(0))


def _polynomial(given: Floats) -> Floats:
    """Terms up to the second order."""
    return np.concatenate(
        [np.ones((len(given), 1)), given, given**2, given[:, :1] * given[:, 1:]], 1
    )


def _residuals(features: Floats, given: Floats) -> Floats:
    terms = _polynomial(given)
    return np.asarray(features - terms @ np.linalg.lstsq(terms, features, rcond=None)[0])


def _whitened(table: Floats) -> Floats:
    values, vectors = np.linalg.eigh(np.cov(table.T))
    return np.asarray(table @ vectors / np.sqrt(np.maximum(values, _LEAST_VARIANCE * values.max())))
