"""Curves of a sample with errors: histograms, means and widths per bin, mean profiles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cloudgan.validation.figures.panels import Curve
from cloudgan.validation.observables.observables import Observables

Floats = NDArray[np.float64]
Values = Callable[[Observables], Floats]
Measure = Callable[[Observables], Curve]

_BINS = (8, 40)
MIN_SHOWERS_PER_BIN = 5
"""A bin with fewer showers has neither mean nor width."""


def shares(values: Values, edges: Floats) -> Measure:
    """Share of the showers in each bin, with Poisson errors; unknown values (nan) count in no bin."""

    def measure(sample: Observables) -> Curve:
        counts, _ = np.histogram(values(sample), edges)
        return Curve(counts / len(sample), np.sqrt(counts) / len(sample))

    return measure


def mean_rows(rows: Values, factor: float = 1.0) -> Measure:
    """Mean over the showers of (N, bins) values, such as profiles and spectra, times `factor`."""

    def measure(sample: Observables) -> Curve:
        found = rows(sample)
        return Curve(factor * found.mean(0), factor * found.std(0) / np.sqrt(len(found)))

    return measure


def means(at: Values, values: Values, edges: Floats) -> Measure:
    """Mean of `values` in bins of `at`, with its error."""

    def measure(sample: Observables) -> Curve:
        parts = _parts(at(sample), values(sample), edges)
        found = [(part.mean(), part.std() / np.sqrt(part.size)) for part in parts]
        return _curve(found)

    return measure


def widths_percent(at: Values, values: Values, edges: Floats) -> Measure:
    """Standard deviation over mean, %, in bins of `at`, with the Gaussian error s/sqrt(2n)."""

    def measure(sample: Observables) -> Curve:
        parts = _parts(at(sample), values(sample), edges)
        found = []
        for part in parts:
            width = 100 * part.std() / part.mean() if part.mean() > 0 else np.nan
            found.append((width, width / np.sqrt(2 * part.size)))
        return _curve(found)

    return measure


def shared_edges(samples: tuple[Floats, ...], tails: float = 0.002) -> Floats:
    """Edges of equal bins that contain nearly all of each sample; their number grows with the sample size."""
    known = [values[np.isfinite(values)] for values in samples]
    known = [values for values in known if values.size] or [np.array([0.0, 1.0])]
    low = min(float(np.quantile(values, tails)) for values in known)
    high = max(float(np.quantile(values, 1 - tails)) for values in known)
    if high - low < 1e-9 * max(abs(high), 1e-9):
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    # Rice's rule: 2 n^(1/3) bins.
    bins = int(np.clip(2 * min(map(len, known)) ** (1 / 3), *_BINS))
    return np.linspace(low, high, bins + 1)


def integer_edges(samples: tuple[Floats, ...]) -> Floats:
    """Edges as of `shared_edges`, centred on integers, for counts and layers."""
    fine = shared_edges(samples)
    low, high = np.floor(fine[0]), np.ceil(fine[-1])
    step = max(1.0, np.ceil((high - low + 1) / len(fine)))
    return np.arange(low - 0.5, high + 0.5 + step, step)


def _parts(at: Floats, values: Floats, edges: Floats) -> list[Floats]:
    """Values in each bin; the last bin includes its upper edge, a bin with too few showers is nan."""
    number = np.searchsorted(edges, at, side="right") - 1
    number[at == edges[-1]] = len(edges) - 2
    known = np.isfinite(values)
    parts = (values[(number == row) & known] for row in range(len(edges) - 1))
    return [part if part.size >= MIN_SHOWERS_PER_BIN else np.full(1, np.nan) for part in parts]


def _curve(found: list[tuple[float, float]]) -> Curve:
    values, errors = np.array(found, np.float64).T
    return Curve(values, errors)
