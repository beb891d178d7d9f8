"""Distances of one-dimensional distributions under many weight vectors, (R,) each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloudgan.validation.observables.features import histogram_features
from cloudgan.validation.observables.observables import Observables

Floats = NDArray[np.float64]
Weights = NDArray[np.float32]
MeasureValues = dict[tuple[str, str], Floats]
WeightedSample = tuple[Observables, Weights]

_BINS = (8, 40)
_TAILS = 1e-3
_INTEGERS = ("layer of the maximum",)


def distribution_measures(
    generated: WeightedSample, reference: WeightedSample, *, wasserstein: bool = True
) -> MeasureValues:
    """Separation and Wasserstein-1 of each histogram of `features.histogram_features`, and their medians."""
    ours, theirs = histogram_features(generated[0]), histogram_features(reference[0])
    found: MeasureValues = {}
    for name in theirs:
        edges = histogram_edges(theirs[name], len(ours[name]), integers=name in _INTEGERS)
        histograms = [
            shares(values[name], weights, edges)
            for values, weights in ((ours, generated[1]), (theirs, reference[1]))
        ]
        found["separation", name] = separation(*histograms)
        if wasserstein:
            distance = wasserstein_1(ours[name], generated[1], theirs[name], reference[1])
            spread = theirs[name].std()
            found["wasserstein", name] = distance / spread if spread > 0 else np.nan * distance
    for measure in ("separation", "wasserstein")[: 1 + wasserstein]:
        values = [value for (name, _), value in found.items() if name == measure]
        found[f"{measure}_median", ""] = _median(np.stack(values))
    return found


def separation(ours: Floats, theirs: Floats) -> Floats:
    """Separation power S = 1/2 sum (h1 - h2)^2 / (h1 + h2) of histograms (R, bins) of sum 1.

    0 for equal histograms, 1 if no bins overlap (CaloChallenge, arXiv:2410.21611).
    """
    both = ours + theirs
    parts = np.divide((ours - theirs) ** 2, both, out=np.zeros_like(both), where=both > 0)
    return np.asarray(parts.sum(1) / 2)


def shares(values: Floats, weights: Weights, edges: Floats) -> Floats:
    """Histograms of sum 1 of `values` (N,) under `weights` (R, N), (R, bins); with under- and overflow."""
    number = np.searchsorted(edges[1:-1], values, side="right")
    bins = len(edges) - 1
    counts = np.stack([np.bincount(number, each, bins) for each in weights])
    return np.asarray(counts / np.maximum(counts.sum(1, keepdims=True), 1e-30))


def histogram_edges(reference: Floats, others: int, *, integers: bool = False) -> Floats:
    """Equal bins over nearly all of the reference; their number grows with the smaller sample.

    Values beyond fall into the outer bins. Rice's rule: 2 n^(1/3) bins. Integers have one bin each.
    """
    low, high = (float(v) for v in np.quantile(reference, [_TAILS, 1 - _TAILS]))
    if integers:
        return np.asarray(np.arange(np.floor(low) - 0.5, np.ceil(high) + 1.0))
    if high - low < 1e-9 * max(abs(high), 1e-9):
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    bins = int(np.clip(2 * min(len(reference), others) ** (1 / 3), *_BINS))
    return np.linspace(low, high, bins + 1)


def wasserstein_1(
    ours: Floats, our_weights: Weights, theirs: Floats, their_weights: Weights
) -> Floats:
    """Exact Wasserstein-1, the area between the distribution functions; unit of the values.

    Args:
        ours: (N,).
        our_weights: (R, N).
        theirs: (M,).
        their_weights: (R, M).
    """
    values = np.concatenate([ours, theirs])
    order = np.argsort(values, kind="stable")
    gaps = np.diff(values[order])
    found = np.empty(len(our_weights))
    for row, (mine, other) in enumerate(zip(our_weights, their_weights, strict=True)):
        signed = np.concatenate(
            [mine / mine.sum(dtype=np.float64), -other / other.sum(dtype=np.float64)]
        )
        found[row] = np.abs(np.cumsum(signed[order])[:-1]) @ gaps
    return found


def _median(values: Floats) -> Floats:
    """Median over the known histograms, (R,)."""
    known = values[~np.isnan(values).any(1)]
    return np.median(known, 0) if len(known) else np.full(values.shape[1], np.nan)
