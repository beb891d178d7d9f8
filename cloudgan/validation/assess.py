"""Compares two samples of showers: every measure with its error and its null distribution.

Measures are computed under many weight vectors: all ones for the value, bootstrap samples for the error, permuted labels of
the pooled showers for what Monte Carlo against Monte Carlo of the same size gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from cloudgan.core.progress import Progress, Silent
from cloudgan.data.held_out import LEAST_TO_COMPARE
from cloudgan.data.manifest import EMPTY_SHARE
from cloudgan.validation.assessment import IDEALS, PERMUTATIONS, Assessment, Measure, Sample
from cloudgan.validation.distances import (
    MeasureValues,
    auc_measure,
    fpd,
    kpd,
    layer_spreads,
    pair_measures,
    scaled,
    two_sample_test,
)
from cloudgan.validation.gates import load_gates
from cloudgan.validation.measures import (
    WeightedSample,
    angle_measures,
    authors_metric,
    correlation_measures,
    distribution_measures,
    diversity_measures,
    shape_measures,
)
from cloudgan.validation.observables import Observables, high_level, low_level
from cloudgan.validation.overlap import Bins, OverlapRegion, binned_sums, bins_for, overlap_region
from cloudgan.validation.resampling import Key, Null, draw_weights, nulls, pool

Floats = NDArray[np.float64]

BOOTSTRAPS = 50

LEVELS: dict[str, Callable[[Observables], NDArray[np.floating]]] = {
    "high level": high_level,
    "low level": low_level,
}


class SampleNames(NamedTuple):
    """Names of the two samples."""

    generated: str = "generated showers"
    reference: str = "reference showers"


def assess(
    generated: Observables,
    reference: Observables,
    *,
    seed: int = 0,
    names: SampleNames | None = None,
    classify: bool = True,
    notes: Sequence[str] = (),
    progress: Progress | None = None,
) -> Assessment:
    """Measures generated against reference showers; the samples may differ in size.

    Args:
        reference: Monte Carlo that was not used in training.
        classify: Also train classifiers, which takes half of the time.
        notes: What is known about the samples, to be shown with the result.

    Raises:
        DataError: The samples cannot be compared; the message gives the reason and the remedy.
    """
    progress, names = progress or Silent(), names or SampleNames()
    overlap = overlap_region(generated, reference, min_showers=LEAST_TO_COMPARE, seed=seed)
    known, bins = overlap.angle_known, bins_for(overlap)
    ours, theirs = overlap.generated, overlap.reference
    pooled = pool(overlap, seed=seed, permutations=PERMUTATIONS)
    steps = 3 + len(LEVELS) * classify
    progress.start("comparing", steps, "steps")
    with threadpool_limits(1):  # several threads wait for each other on a busy machine
        weights = draw_weights(overlap, bootstraps=BOOTSTRAPS, seed=seed)
        rows = _weighted((ours, weights[0]), (theirs, weights[1]), bins, known=known, seed=seed)
        values = {key: (float(found[0]), _spread(found[1:])) for key, found in rows.items()}
        features = [scaled(high_level(sample), high_level(theirs)) for sample in (ours, theirs)]
        values["kpd", ""] = kpd(*features, seed=seed)
        progress.advance(1)
        labels = pooled.labels
        permuted = _weighted(
            (pooled.sample, labels), (pooled.sample, 1 - labels), bins, known=known, seed=seed
        )
        progress.advance(1)
        compared = pair_measures(pooled) | layer_spreads(pooled)
        permuted |= compared
        values |= {
            key: (float(found[0]), np.nan) for key, found in compared.items() if key not in values
        }
        progress.advance(1)
        for level, features_of in LEVELS.items() if classify else ():
            result = two_sample_test(features_of(ours), features_of(theirs), seed=seed)
            values["auc", level] = result.auc, result.auc_error
            values["jsd", level] = result.jsd, result.jsd_error
            permuted |= auc_measure(pooled, level, result.scores, result.folds)
            progress.advance(1)
    gates = load_gates()
    tested = nulls(permuted, lambda key: any(gate.selects(*key) for gate in gates.gate))
    order = list(IDEALS)
    measures = [_measure(key, *values[key], tested.get(key)) for key in values]
    measures.sort(key=lambda measure: order.index(measure.name))
    return Assessment(
        generated=_sample(ours, names.generated),
        reference=_sample(theirs, names.reference),
        seed=seed,
        permutations=len(labels) - 1,
        measures=tuple(measures),
        notes=(
            *notes,
            *_sampling_notes(generated, reference),
            *overlap.notes,
            *_notes(ours, theirs, known, measures),
        ),
    )


def _weighted(
    generated: WeightedSample, reference: WeightedSample, bins: Bins, *, known: bool, seed: int
) -> MeasureValues:
    """All measures that follow from weighted sums, (R,) each."""
    features = high_level(reference[0])
    first, second = (scaled(high_level(sample), features) for sample, _ in (generated, reference))
    return (
        shower_measures(generated, reference, bins)
        | (angle_measures(generated, reference) if known else {})
        | correlation_measures(generated, reference)
        | diversity_measures(generated, reference, angle_known=known)
        | distribution_measures(generated, reference)
        | {("fpd", ""): fpd(first, generated[1], second, reference[1], seed=seed)}
    )


def shower_measures(
    generated: WeightedSample, reference: WeightedSample, bins: Bins
) -> MeasureValues:
    """Returns the measures of sums over energy and angle bins: shapes, and the 3DGAN authors' metric."""
    ours, theirs = (binned_sums(*pair, bins) for pair in (generated, reference))
    return shape_measures(ours, theirs, bins) | authors_metric(ours, theirs)


def _spread(draws: Floats) -> float:
    draws = draws[np.isfinite(draws)]  # a bootstrap may leave a bin of few showers empty
    return float(np.std(draws, ddof=1)) if len(draws) > 1 else np.nan


def _measure(key: Key, value: float, error: float, null: Null | None) -> Measure:
    named = {name: _finite(each) for name, each in null._asdict().items()} if null else {}
    named["null"] = named.pop("deviation", None)
    return Measure(
        name=key[0], where=key[1], value=_finite(value), applies=null is not None or not np.isnan(value),
        error=_finite(error), ideal=IDEALS[key[0]], **named,
    )  # fmt: skip


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _sample(sample: Observables, name: str) -> Sample:
    return Sample(
        name=name,
        showers=len(sample),
        cells=sample.image,
        energy_range_gev=(float(sample.energy_gev.min()), float(sample.energy_gev.max())),
    )


def _sampling_notes(generated: Observables, reference: Observables) -> Iterator[str]:
    for name, sample in (("generated", generated), ("reference", reference)):
        if sample.out_of > len(sample):
            yield (
                f"{len(sample):,} of {sample.out_of:,} {name} showers were measured, evenly spaced"
            )


_WHY_UNKNOWN = {
    "response": "fewer than 5 showers in the bin",
    "response_width": "fewer than 5 showers in the bin, or all equal",
    "angle_slope": "all showers have the same requested angle",
    "tail": "the reference has no energy outside the central 9 x 9 columns",
    "hits": "the reference has no such cell",
    "diversity": "reference showers of one energy and angle are all equal",
}


def _notes(
    generated: Observables, reference: Observables, known: bool, measures: list[Measure]
) -> Iterator[str]:
    for name, sample in (("generated", generated), ("reference", reference)):
        if empty := int(sample.empty.sum()):
            yield (
                f"{empty} of {len(sample)} {name} showers are empty (at most {EMPTY_SHARE:.1%} of the primary"
                " energy is in the cells)"
            )
    if not known:
        yield (
            "the requested angle (theta) is unknown for one of the samples: only the distribution of the"
            " measured angle is compared"
        )
    elif not any(measure.name == "angle_spread" for measure in measures):
        yield (
            "the requested angles of the reference are the measured ones: the spread of the angle is"
            " left out"
        )
    for measure in measures:
        if measure.value is None:
            what = "is unknown" if measure.applies else "does not apply"
            why = _WHY_UNKNOWN.get(measure.name, "the reference is empty there")
            yield f"{measure.name}{', ' * bool(measure.where)}{measure.where} {what}: {why}"


ENERGY_BINS = 3


def quick_metrics(generated: Observables, reference: Observables) -> dict[str, float]:
    """Returns the distance of generated showers from the reference; 0 is perfect for each metric.

    Computes neither errors, baselines nor classifiers: about 10 ms for 500 showers of each sample.

    Returns:
        metric: Metric by which the 3DGAN authors rank generators (`authors_metric`).
        response: Largest |ratio - 1| of mean Esum/E over three energy bins.
        profile_z: Mean |ratio - 1| of the longitudinal profile in layers above 0.1 % of the energy.
        hits: |ratio - 1| of the mean number of cells above 0.3 MeV.
        angle: |ratio - 1| of the slope of measured against requested angle.
        separation: Median separation power of the histograms of shower features.

        Unknown metrics are left out, such as the angle where the requested one is unknown.
    """
    known = generated.angle_known and reference.angle_known
    overlap = OverlapRegion(generated, reference, True, known, ())
    bins = bins_for(overlap, ENERGY_BINS)
    ours, theirs = ((s, np.ones((1, len(s)), np.float32)) for s in (generated, reference))
    with threadpool_limits(1):
        measured = shower_measures(ours, theirs, bins) | distribution_measures(
            ours, theirs, wasserstein=False
        )
        if known:
            measured |= angle_measures(ours, theirs)
    value = {key: float(rows[0]) for key, rows in measured.items()}
    metrics = {
        "metric": value["metric", ""],
        "response": max(
            (abs(value["response", b] - 1) for b in bins.names()[0] if value["response", b] >= 0),
            default=np.nan,
        ),
        "profile_z": value["profile_z", ""],
        "hits": abs(value["hits", "0.3 MeV"] - 1),
        "angle": abs(value.get(("angle_slope", ""), np.nan) - 1),
        "separation": value["separation_median", ""],
    }
    return {name: value for name, value in metrics.items() if np.isfinite(value)}
