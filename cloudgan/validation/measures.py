"""Measures of generated against reference showers under many weight vectors.

Each function returns (R,) values, one per weight vector, keyed by (measure, bin); nan is unknown, inf is of
what the reference has not and the generated showers have.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloudgan.validation.distances import MeasureValues, Weights, covariances
from cloudgan.validation.observables import Observables, high_level, histogram_features, ratio
from cloudgan.validation.overlap import BinnedSums, Bins

Floats = NDArray[np.float64]
WeightedSample = tuple[Observables, Weights]


MIN_SHOWERS_PER_BIN = 5
"""A bin of energy or angle with fewer showers is unknown."""

PROFILE_SHARE, CORE_SHARE = 1e-3, 1e-2
"""Minimum share of the reference's energy of a compared profile bin; the same for the core."""

SPECTRUM_SHARE = 1e-2
"""Minimum share of the number of cells of a compared spectrum bin."""

_PER_SHOWER = {
    "hits": ("hits 0.1 MeV", "hits 0.3 MeV", "hits 3 MeV"),
    "sparsity": ("cells",),
}
_PER_ENERGY = {
    "tail": "tail",
    "first_layers": "first layers",
    "last_layers": "last layers",
    "last_layer": "last layer",
}


def shape_measures(generated: BinnedSums, reference: BinnedSums, bins: Bins) -> MeasureValues:
    """Returns all measures of binned sums."""
    return (
        _responses(generated, reference, bins)
        | _profiles(generated, reference)
        | _moments(generated, reference)
        | _cells(generated, reference)
    )


def profile_errors(ours: Floats, theirs: Floats, share: float) -> Floats:
    """|ratio - 1| of profiles (R, bins) of the same sum, in bins with more than `share` of it.

    The bins follow from the first weight vector, that of the value: its bootstraps do not change it.
    """
    known = theirs[0]
    held = known > share * known.sum()
    return np.abs(ratio(ours[:, held], theirs[:, held]) - 1)


def _responses(generated: BinnedSums, reference: BinnedSums, bins: Bins) -> MeasureValues:
    energies, angles = bins.names()
    places: list[tuple[str, dict[str, int]]] = [("", {})]
    places += [(name, {"energy": number}) for number, name in enumerate(energies)]
    places += [(name, {"angle": number}) for number, name in enumerate(angles)]
    found: MeasureValues = {}
    for where, place in places:
        few = any(
            t.total("showers", **place)[0] < MIN_SHOWERS_PER_BIN for t in (generated, reference)
        )
        unknown = np.full(len(reference.sums), np.nan if few else 1.0)
        ours, theirs = (_response(t, place) for t in (generated, reference))
        found["response", where] = unknown * ratio(ours[0], theirs[0])
        found["response_width", where] = unknown * _to_reference(ours[1], theirs[1])
    return found


def _response(t: BinnedSums, place: dict[str, int]) -> tuple[Floats, Floats]:
    """Mean of Esum/E, and its standard deviation over its mean."""
    mean = t.mean("response", "showers", **place)
    variance = t.mean("response squared", "showers", **place) - mean**2
    # Rounding leaves 1e-16 of the mean's square where all showers are equal.
    return mean, ratio(np.sqrt(np.maximum(variance, 0.0)), mean)


def _profiles(generated: BinnedSums, reference: BinnedSums) -> MeasureValues:
    found: MeasureValues = {}
    for axis in "xyz":
        ours, theirs = (t.mean(f"profile {axis}", "sum") for t in (generated, reference))
        errors = profile_errors(ours, theirs, PROFILE_SHARE)
        core = profile_errors(ours, theirs, CORE_SHARE)
        found[f"profile_{axis}", ""] = _mean(errors)
        found[f"profile_{axis}", "core"] = _mean(core)
        found[f"profile_{axis}", "worst bin"] = _largest(errors)
    return found


def _moments(generated: BinnedSums, reference: BinnedSums) -> MeasureValues:
    found: MeasureValues = {}
    for axis in "xyz":
        first, second = (
            [t.mean(f"M{order} {axis}") for t in (generated, reference)] for order in (1, 2)
        )
        found["moment_1", axis] = ratio(*first)
        found["moment_2", axis] = _to_reference(*second)
        found["centre", axis] = first[0] - first[1]
    for axis in "xy":
        rms = [t.mean(f"rms {axis}") for t in (generated, reference)]
        found["lateral_rms", axis] = _to_reference(*rms)
    found["layer_of_maximum", ""] = generated.mean("maximum") - reference.mean("maximum")
    return found


def _cells(generated: BinnedSums, reference: BinnedSums) -> MeasureValues:
    found: MeasureValues = {}
    for measure, names in _PER_SHOWER.items():
        for name in names:
            where = name.removeprefix("hits ") if measure == "hits" else ""
            found[measure, where] = _to_reference(
                *(t.mean(name, "showers") for t in (generated, reference))
            )
    for measure, name in _PER_ENERGY.items():
        found[measure, ""] = _to_reference(*(t.mean(name, "sum") for t in (generated, reference)))
    found["largest_cell", ""] = ratio(*(t.mean("largest share") for t in (generated, reference)))
    ours, theirs = (t.mean("spectrum", "cells") for t in (generated, reference))
    found["spectrum", ""] = _mean(profile_errors(ours, theirs, SPECTRUM_SHARE))
    return found


def _to_reference(ours: Floats, theirs: Floats) -> Floats:
    """Ratio; inf, not unknown, where the reference has none and the generated showers have some."""
    return np.where((theirs == 0) & (ours > 0), np.inf, ratio(ours, theirs))


def _mean(errors: Floats) -> Floats:
    return errors.mean(1) if errors.shape[1] else np.full(len(errors), np.nan)


def _largest(errors: Floats) -> Floats:
    return errors.max(1) if errors.shape[1] else np.full(len(errors), np.nan)


LEAST_SPREAD_RAD = 1e-3
"""With a smaller spread about the line, the requested angle is the measured one."""

_LEAST_LAYER_SHARE = 1e-3
_VARIES = 1e-6  # in units of the reference's standard deviation


def angle_measures(generated: WeightedSample, reference: WeightedSample) -> MeasureValues:
    """Slope, spread and offset of the measured angle against the requested one.

    Least-squares line through the non-empty showers. Slope and spread are ratios to the reference; the
    offset, in degrees, is that of the lines at the mean requested angle of the reference. With a single
    requested angle there is no slope.
    """
    ours, theirs = (_line(*pair) for pair in (generated, reference))
    middle = theirs[2]
    offset = (ours[3] + ours[0] * (middle - ours[2])) - theirs[3]
    with np.errstate(divide="ignore", invalid="ignore"):
        # Of mirrored showers it is negative. Permuted labels mix both leanings: then both slopes are near 0, and only
        # their difference in units of the reference's slope (row 0) has a meaning.
        slope = 1 + (ours[0] - theirs[0]) / theirs[0][0]
    found = {
        ("angle_slope", ""): slope,
        ("angle_offset", ""): np.rad2deg(np.where(np.isnan(slope), ours[3] - theirs[3], offset)),
    }
    if theirs[1][0] > LEAST_SPREAD_RAD:
        found["angle_spread", ""] = _to_reference(ours[1], theirs[1])
    return found


def correlation_measures(generated: WeightedSample, reference: WeightedSample) -> MeasureValues:
    """Largest and root-mean-square difference of correlation matrices.

    Of the 15 high-level features, and of the energy shares of layers above 0.1 %: defects that no single
    feature shows.
    """
    kept = reference[0].shares_z.mean(0) > _LEAST_LAYER_SHARE
    tables = {
        "features": [high_level(pair[0]) for pair in (generated, reference)],
        "layers": [pair[0].shares_z[:, kept] for pair in (generated, reference)],
    }
    found: MeasureValues = {}
    for name, (ours, theirs) in tables.items():
        scale = np.maximum(theirs.std(0), 1e-30)
        first, second = (
            covariances(table / scale, pair[1]).correlation()
            for table, pair in ((ours, generated), (theirs, reference))
        )
        rows, columns = np.triu_indices(first.shape[1], 1)
        deviation = np.abs(first - second)[:, rows, columns]
        found["correlation", f"{name}, largest"] = deviation.max(1, initial=0.0)
        found["correlation", f"{name}, rms"] = (
            np.sqrt((deviation**2).mean(1)) if rows.size else deviation[:, 0]
        )
    return found


def diversity_measures(
    generated: WeightedSample, reference: WeightedSample, *, angle_known: bool
) -> MeasureValues:
    """Ratio of the spread of showers at the same energy and angle.

    Eight shape features (depth and its spread, lateral spreads, shares of the first and last layers, of the
    largest cell and of the tail) are fitted by quadratic functions of ln E and, where known, the angle; the
    spread of the residuals is compared. The value is the median over the features of generated over
    reference: 1 is ideal, 0 is one shower repeated, also if scaled with the energy.
    """
    scale = np.maximum(_shapes(reference[0]).std(0), 1e-30)
    given = [
        _conditions(pair[0], reference[0], angle_known=angle_known)
        for pair in (generated, reference)
    ]
    spreads = []
    for conditions, (sample, weights) in zip(given, (generated, reference), strict=True):
        table = np.concatenate([conditions, _shapes(sample) / scale], axis=1)
        found = covariances(table, weights * (sample.sum_gev > 0))
        spreads.append(np.sqrt(found.residual_variance(conditions.shape[1])))
    varies = spreads[1][0] > _VARIES
    if not varies.any():
        return {("diversity", ""): np.full(len(reference[1]), np.nan)}
    return {
        ("diversity", ""): np.median(
            spreads[0][:, varies] / np.maximum(spreads[1][:, varies], 1e-30), 1
        )
    }


def _line(sample: Observables, weights: Weights) -> tuple[Floats, Floats, Floats, Floats]:
    """Slope, spread, mean requested and mean measured angle, (R,) each."""
    table = np.stack([sample.requested_rad, sample.angle_rad], axis=1)
    mean, covariance = covariances(table, weights * (sample.sum_gev > 0))
    requested = covariance[:, 0, 0]
    one_angle = requested < LEAST_SPREAD_RAD**2
    slope = np.where(one_angle, np.nan, covariance[:, 0, 1] / np.where(one_angle, 1.0, requested))
    explained = np.where(one_angle, 0.0, np.nan_to_num(slope) * covariance[:, 0, 1])
    spread = np.sqrt(np.maximum(covariance[:, 1, 1] - explained, 0.0))
    return slope, spread, mean[:, 0], mean[:, 1]


def _conditions(sample: Observables, reference: Observables, *, angle_known: bool) -> Floats:
    columns = []
    values = [(np.log(sample.energy_gev), np.log(reference.energy_gev))]
    if angle_known:
        values.append((sample.requested_rad, reference.requested_rad))
    for ours, theirs in values:
        spread = theirs.std()
        place = (ours - theirs.mean()) / (spread if spread > LEAST_SPREAD_RAD else 1.0)
        columns += [place, place**2]
    return np.stack(columns, axis=1)


def _shapes(sample: Observables) -> Floats:
    return np.stack(
        [
            *sample.moments("z"),
            sample.moments("x")[1],
            sample.moments("y")[1],
            sample.first_layers_share,
            sample.last_layers_share,
            sample.largest_share,
            sample.tail_share,
        ],
        axis=1,
    )


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
        table = np.stack(values)
        known = table[~np.isnan(table).any(1)]
        unknown = np.full(table.shape[1], np.nan)
        found[f"{measure}_median", ""] = np.median(known, 0) if len(known) else unknown
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

    Values beyond fall into the outer bins. Integers have one bin each.
    """
    low, high = (float(v) for v in np.quantile(reference, [_TAILS, 1 - _TAILS]))
    if integers:
        return np.asarray(np.arange(np.floor(low) - 0.5, np.ceil(high) + 1.0))
    return equal_bins(low, high, min(len(reference), others))


def equal_bins(low: float, high: float, count: int) -> Floats:
    """Edges of 8 to 40 equal bins for so many showers: Rice's rule, 2 n^(1/3) bins."""
    if high - low < 1e-9 * max(abs(high), 1e-9):
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    return np.linspace(low, high, int(np.clip(2 * count ** (1 / 3), *_BINS)) + 1)


def wasserstein_1(
    ours: Floats, our_weights: Weights, theirs: Floats, their_weights: Weights
) -> Floats:
    """Exact Wasserstein-1, the area between the distribution functions; unit of the values.

    Values are (N,) and (M,), weights (R, N) and (R, M).
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


PARTS = ("moments", "profiles", "angle")


def authors_metric(generated: BinnedSums, reference: BinnedSums) -> MeasureValues:
    """Metric by which the 3DGAN authors rank generators, and its three parts; nan if no energy bin has both samples.

    ``metric`` of their public analysis code (arXiv:2111.04628), per energy bin: mean relative error of the
    first two moments along the three axes, plus that of the three profiles, plus that of the measured angle;
    then the mean over the bins. Differences from their code:

    - One copy adds the moments twice and omits the profiles from the weight of the sum; here each part is
      added once.
    - Their profile error is a mean over all bins, so the emptiest edge dominates and one empty Monte Carlo
      bin makes it infinite (1e5 on 400 showers). Here only bins with more than 0.1 % of the energy count.
    - Their profiles are absolute energies of a bin 10 GeV wide. Here they are divided by the sum of the
      primary energies, so that different energies within the bin have no effect.
    - They compare the angle event by event, which needs equal angles in both samples. Here the means are
      compared, per bin of energy and, where known, of requested angle.
    """
    both = (generated, reference)

    def has_showers(energy: int, angle: int | None = None) -> bool:
        totals = (t.total("non-empty", energy=energy, angle=angle)[0] for t in both)
        return bool(min(totals) >= MIN_SHOWERS_PER_BIN)

    def error(name: str, energy: int, angle: int | None = None) -> Floats:
        """Relative error of a mean."""
        return np.abs(ratio(*(t.mean(name, energy=energy, angle=angle) for t in both)) - 1)

    parts: dict[str, list[Floats]] = {name: [] for name in PARTS}
    for energy in filter(has_showers, range(reference.sums.shape[1])):
        moments = [error(f"M{order} {axis}", energy) for order in (1, 2) for axis in "xyz"]
        profiles = []
        for axis in "xyz":
            ours, theirs = (t.mean(f"profile {axis}", "energy", energy=energy) for t in both)
            profiles.append(profile_errors(ours, theirs, PROFILE_SHARE).mean(1))
        bins = range(reference.sums.shape[2])
        angles = [error("angle", energy, angle) for angle in bins if has_showers(energy, angle)]
        angles = angles or [error("angle", energy)]
        for name, errors in zip(PARTS, (moments, profiles, angles), strict=True):
            parts[name].append(np.asarray(np.mean(errors, axis=0)))
    unknown = np.full(len(reference.sums), np.nan)
    found = {
        (f"metric_{name}", ""): np.asarray(np.mean(each, axis=0)) if each else unknown
        for name, each in parts.items()
    }
    return {("metric", ""): np.asarray(np.sum(list(found.values()), axis=0))} | found
