"""Classifier two-sample test: AUC, and JSD of calibrated scores.

scikit-learn and scipy.stats are imported on use: a training run that compares no showers starts sooner.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Floats = NDArray[np.float64]
Table = NDArray[np.floating]

MAX_SHOWERS = 10_000
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

    Args:
        ours: Features (N, d).
        theirs: Features (M, d).
        seed: Seed of the sampling, the folds and the trees.
    """
    random = np.random.default_rng(seed)
    chosen = [random.permutation(len(sample))[:MAX_SHOWERS] for sample in (ours, theirs)]
    x = np.concatenate([ours[chosen[0]], theirs[chosen[1]]])
    truth = np.zeros(len(x), np.int64)
    truth[-min(len(theirs), MAX_SHOWERS) :] = 1
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
