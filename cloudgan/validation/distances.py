"""Distances of whole samples: FPD and KPD (arXiv:2211.10295), measures of a pool of both, a classifier.

scikit-learn and scipy.stats are imported on use: a training run that compares no showers starts sooner.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from cloudgan.validation.observables import Observables, high_level, low_level, safe_divide
from cloudgan.validation.resampling import Pool

Floats = NDArray[np.float64]
Weights = NDArray[np.float32]
Table = NDArray[np.floating]
MeasureValues = dict[tuple[str, str], Floats]

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
    Features are scaled, (N, d) and (M, d), weights (R, N) and (R, M).
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


KPD_SHOWERS = 3000
"""Maximum number of showers of each sample: time and memory are quadratic."""

GROUPS = 10
"""Groups of the jackknife, each left out once."""

_DEGREE = 4


def kpd(ours: Floats, theirs: Floats, *, seed: int) -> tuple[float, float]:
    """Returns the unbiased squared maximum mean discrepancy under the kernel (x.y / d + 1)^4, and its error.

    Mean of k(x, x') plus that of k(y, y') minus twice that of k(x, y) over different showers (Gretton et
    al., JMLR 13 (2012) 723, eq. 3); it can be negative. The error is the jackknife's.
    Features are scaled, (N, d) and (M, d).
    """
    random = np.random.default_rng(seed)
    x, y = (sample[random.permutation(len(sample))[:KPD_SHOWERS]] for sample in (ours, theirs))
    sums = {"xx": _sums(x, x), "yy": _sums(y, y), "xy": _sums(x, y)}
    sizes = [np.array([len(part) for part in np.array_split(s, GROUPS)]) for s in (x, y)]
    every = np.ones(GROUPS, np.bool_)
    whole = _discrepancy(sums, sizes, every)
    without = [_discrepancy(sums, sizes, every & (np.arange(GROUPS) != g)) for g in range(GROUPS)]
    scatter = np.sum((np.array(without) - np.mean(without)) ** 2)
    return whole, float(np.sqrt((GROUPS - 1) / GROUPS * scatter))


def kernel(x: Floats, y: Floats) -> Floats:
    """(x.y / d + 1)^4 of each pair, (N, M)."""
    return np.asarray((x @ y.T / x.shape[1] + 1.0) ** _DEGREE)


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


PAIR_SHOWERS = 1500
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
    from scipy.special import ndtri  # noqa: PLC0415
    from scipy.stats import rankdata  # noqa: PLC0415 - takes longer to import than all else here

    rows = pool.thinned(PAIR_SHOWERS)
    sample, labels = pool.sample[rows], pool.labels[:, rows].astype(np.float64)
    ours, theirs = labels.sum(1), (1 - labels).sum(1)
    signed = labels / ours[:, None] - (1 - labels) / theirs[:, None]
    terms = _polynomial(_conditions(pool, sample))
    found: MeasureValues = {}
    for level, features in (
        ("high level", high_level(sample)[:, :-1]),
        ("low level", _layers(sample)),
    ):
        ranks = np.asarray(ndtri((rankdata(features, axis=0) - 0.5) / len(features)))
        rest = _residuals(ranks, terms)
        values, vectors = np.linalg.eigh(np.cov(rest.T))
        x = rest @ vectors / np.sqrt(np.maximum(values, _LEAST_VARIANCE * values.max()))
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
    rest = _residuals(np.stack(list(properties.values()), 1), given)
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


def _residuals(features: Floats, terms: Floats) -> Floats:
    return np.asarray(features - terms @ np.linalg.lstsq(terms, features, rcond=None)[0])


CLASSIFIER_SHOWERS = 10_000
"""Maximum number of showers used of each sample."""

FOLDS = 5
TREES = 100


class ClassifierResult(NamedTuple):
    """Result of a two-sample test.

    Attributes:
        auc: Area under the ROC curve: 0.5 indistinguishable, 1 separated.
        auc_error: Standard error of the mean over the folds, at least the counting error.
        jsd: Jensen-Shannon divergence in bits: 0 indistinguishable, 1 separated; may be negative near 0.
        jsd_error: Standard error of the mean over the folds.
        scores: Held-out score of each shower, log odds, of the first sample (N,) and of the second (M,); nan of those
            that were left out.
        folds: Fold of each; nan of those that were left out.
    """

    auc: float
    auc_error: float
    jsd: float
    jsd_error: float
    scores: tuple[Floats, Floats]
    folds: tuple[Floats, Floats]


def two_sample_test(ours: Table, theirs: Table, *, seed: int) -> ClassifierResult:
    """Trains gradient-boosted trees in five-fold cross-validation and returns AUC and JSD.

    Isotonic regression on the scores of the other folds turns scores into probabilities; the divergence is
    1 + the mean of log2 of the probability of the true class, with equal class weights (calibration before
    the JSD: CaloChallenge, arXiv:2410.21611).
    Features are (N, d) and (M, d).
    """
    random = np.random.default_rng(seed)
    chosen = [random.permutation(len(sample))[:CLASSIFIER_SHOWERS] for sample in (ours, theirs)]
    x = np.concatenate([ours[chosen[0]], theirs[chosen[1]]])
    truth = np.zeros(len(x), np.int64)
    truth[-min(len(theirs), CLASSIFIER_SHOWERS) :] = 1
    fold = np.empty(len(x), np.int64)
    for label in (0, 1):  # the same share of both classes in each fold
        rows = random.permutation(np.flatnonzero(truth == label))
        fold[rows] = np.arange(len(rows)) % FOLDS
    weight = np.where(truth == 1, 0.5 / truth.mean(), 0.5 / (1 - truth.mean()))
    score = _scores(x, truth, fold, seed)
    auc = [_auc(score[fold == k], truth[fold == k]) for k in range(FOLDS)]
    jsd = [_divergence(score, truth, fold, weight, k) for k in range(FOLDS)]
    area = float(np.mean(auc))
    # Rank error at AUC 0.5, smaller towards 1; folds can agree by chance.
    counting = np.sqrt((len(x) + 1) / (12 * truth.sum() * (len(x) - truth.sum())))
    counting *= 2 * np.sqrt(max(area * (1 - area), 0.0))
    ends = [len(ours), len(theirs)]
    found = np.full((2, sum(ends)), np.nan)  # of each shower its score and its fold
    rows = np.concatenate([chosen[0], ends[0] + chosen[1]])
    found[:, rows] = score, fold
    scores, folds = (np.split(each, ends[:1]) for each in found)
    return ClassifierResult(
        area, max(_error(auc), float(counting)), float(np.mean(jsd)), _error(jsd),
        (scores[0], scores[1]), (folds[0], folds[1]),
    )  # fmt: skip


def _scores(x: Table, truth: NDArray[np.int64], fold: NDArray[np.int64], seed: int) -> Floats:
    """Score of each shower from the model that did not see it, in log odds.

    Runs in one thread: OpenMP threads spin while they wait for each other, 100 times slower on a busy
    machine, and scikit-learn sets the warning filters of the process while it fits.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415

    score = np.empty(len(x))
    with threadpool_limits(1):
        for k in range(FOLDS):
            model = HistGradientBoostingClassifier(
                max_iter=TREES, max_leaf_nodes=15, early_stopping=False, random_state=seed
            )
            model.fit(x[fold != k], truth[fold != k])  # weights make it ten times slower
            score[fold == k] = model.decision_function(x[fold == k])
    return score


def _auc(score: Floats, truth: NDArray[np.int64]) -> float:
    """Mann-Whitney estimate: how often a reference shower scores higher; ties count half."""
    from scipy.stats import rankdata  # noqa: PLC0415

    positive = int(truth.sum())
    negative = len(truth) - positive
    ranks = rankdata(score)[truth == 1].sum()
    return float((ranks - positive * (positive + 1) / 2) / (positive * negative))


def _divergence(
    score: Floats, truth: NDArray[np.int64], fold: NDArray[np.int64], weight: Floats, k: int
) -> float:
    from sklearn.isotonic import IsotonicRegression  # noqa: PLC0415

    other, here = fold != k, fold == k
    calibration = IsotonicRegression(out_of_bounds="clip")
    calibration.fit(score[other], truth[other], sample_weight=weight[other])
    # The number of showers limits how near to 0 or 1 a probability can be known.
    least = 1.0 / (other.sum() + 2)
    probability = np.clip(calibration.predict(score[here]), least, 1 - least)
    right = np.where(truth[here] == 1, probability, 1 - probability)
    return float(1 + np.average(np.log2(right), weights=weight[here]))


def _error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
