"""Can a classifier tell generated from reference showers? AUC, and JSD of calibrated scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.isotonic import IsotonicRegression
from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Table = NDArray[np.floating]

MOST = 10_000
"""Showers of each sample that are looked at."""

FOLDS = 5
TREES = 100


class Told(NamedTuple):
    """How well two samples are told apart.

    Attributes:
        auc: Area under the receiver operating characteristic: 0.5 not at all, 1 always.
        auc_error: Standard error of the mean over the folds, at least that of counting.
        jsd: Jensen-Shannon divergence in bits: 0 not at all, 1 always; around 0 it may be negative.
        jsd_error: Standard error of the mean over the folds.
    """

    auc: float
    auc_error: float
    jsd: float
    jsd_error: float


def tell_apart(ours: Table, theirs: Table, *, seed: int) -> Told:
    """Trains gradient-boosted trees on five folds, each time on the other four, and tests on it.

    No shower is judged by a model that saw it. Scores become probabilities by isotonic regression on
    the scores of the other folds, which were made the same way; then the divergence is 1 + the mean
    of log2 of the probability of the true class, the classes weighing the same (calibration before
    the JSD: CaloChallenge, arXiv:2410.21611).

    Args:
        ours: Features (N, d).
        theirs: Features (M, d).
        seed: Of the choice of showers, the folds and the trees.
    """
    random = np.random.default_rng(seed)
    x = np.concatenate([_some(ours, random), _some(theirs, random)])
    truth = np.zeros(len(x), np.int64)
    truth[-min(len(theirs), MOST) :] = 1
    fold = np.empty(len(x), np.int64)
    for label in (0, 1):  # the same share of both classes in each fold
        rows = random.permutation(np.flatnonzero(truth == label))
        fold[rows] = np.arange(len(rows)) % FOLDS
    weight = np.where(truth == 1, 0.5 / truth.mean(), 0.5 / (1 - truth.mean()))
    score = _scores(x, truth, fold, seed)
    auc = [_auc(score[fold == k], truth[fold == k]) for k in range(FOLDS)]
    jsd = [_divergence(score, truth, fold, weight, k) for k in range(FOLDS)]
    area = float(np.mean(auc))
    # Of ranks where nothing is told apart, and less towards 1: folds agree too well by chance.
    counting = np.sqrt((len(x) + 1) / (12 * truth.sum() * (len(x) - truth.sum())))
    counting *= 2 * np.sqrt(max(area * (1 - area), 0.0))
    return Told(area, max(_error(auc), float(counting)), float(np.mean(jsd)), _error(jsd))


def _some(sample: Table, random: np.random.Generator) -> Table:
    return sample[random.permutation(len(sample))[:MOST]]


def _scores(x: Table, truth: NDArray[np.int64], fold: NDArray[np.int64], seed: int) -> Floats:
    """Of each shower, from the model that did not see it; in units of log odds.

    With one thread: of several OpenMP threads each spins while it waits for the others, on a busy
    machine a hundred times slower; and scikit-learn sets the process's warning filters while it
    fits, so that fits in several threads at a time disturb each other.
    """
    score = np.empty(len(x))
    with threadpool_limits(1):
        for k in range(FOLDS):
            model = HistGradientBoostingClassifier(
                max_iter=TREES, max_leaf_nodes=15, early_stopping=False, random_state=seed
            )
            model.fit(x[fold != k], truth[fold != k])  # with weights, ten times slower
            score[fold == k] = model.decision_function(x[fold == k])
    return score


def _auc(score: Floats, truth: NDArray[np.int64]) -> float:
    """Mann and Whitney's: how often a reference shower scores higher; ties count half."""
    positive = int(truth.sum())
    negative = len(truth) - positive
    ranks = stats.rankdata(score)[truth == 1].sum()
    return float((ranks - positive * (positive + 1) / 2) / (positive * negative))


def _divergence(
    score: Floats, truth: NDArray[np.int64], fold: NDArray[np.int64], weight: Floats, k: int
) -> float:
    other, here = fold != k, fold == k
    calibration = IsotonicRegression(out_of_bounds="clip")
    calibration.fit(score[other], truth[other], sample_weight=weight[other])
    # Nobody can know a probability nearer to 0 or 1 than the number of showers allows.
    least = 1.0 / (other.sum() + 2)
    probability = np.clip(calibration.predict(score[here]), least, 1 - least)
    right = np.where(truth[here] == 1, probability, 1 - probability)
    return float(1 + np.average(np.log2(right), weights=weight[here]))


def _error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
