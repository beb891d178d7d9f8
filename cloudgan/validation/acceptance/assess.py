"""Compares two samples of showers: every measure with its error and its MC-MC baseline.

Measures are computed under many weight vectors: all ones for the value, bootstrap samples for the error,
two halves of the reference for the MC-MC baseline. Only the classifiers and the kernel distance, which
are not functions of weighted sums, are recomputed for each halving.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from cloudgan.core.progress import Silent
from cloudgan.data.shards.manifest import EMPTY_SHARE
from cloudgan.validation.acceptance.assessment import Assessment, Measure, Sample
from cloudgan.validation.metrics.authors_metric import authors_metric
from cloudgan.validation.metrics.bootstrap_weights import draw_weights, unit_weights
from cloudgan.validation.metrics.classifier import two_sample_test
from cloudgan.validation.metrics.distributions import distribution_measures
from cloudgan.validation.metrics.feature_distances import fpd, kpd, scaled
from cloudgan.validation.metrics.ideals import IDEALS
from cloudgan.validation.metrics.measures import (
    angle_measures,
    correlation_measures,
    diversity_measures,
    shape_measures,
)
from cloudgan.validation.observables.bins import binned_sums, bins_for
from cloudgan.validation.observables.features import high_level, low_level
from cloudgan.validation.observables.overlap import OverlapRegion, overlap_region

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from cloudgan.core.progress import Progress
    from cloudgan.validation.metrics.bootstrap_weights import BootstrapWeights
    from cloudgan.validation.observables.bins import Bins
    from cloudgan.validation.observables.observables import Observables

    Floats = NDArray[np.float64]
    Weights = NDArray[np.float32]
    MeasureValues = dict[tuple[str, str], Floats]
    WeightedSample = tuple[Observables, Weights]


MIN_SHOWERS = 200
"""With fewer, the MC-MC baseline exceeds most differences."""

BOOTSTRAPS, HALVINGS = 50, 10
CLASSIFIER_HALVINGS = 3

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
    min_showers: int = MIN_SHOWERS,
    classify: bool = True,
    energy_bins: int | None = None,
    notes: Sequence[str] = (),
    progress: Progress | None = None,
) -> Assessment:
    """Measures generated against reference showers; the samples may differ in size.

    Args:
        generated: Sample under test.
        reference: Monte Carlo that was not used in training.
        seed: Seed of the halvings, bootstrap samples and classifiers.
        names: Names of the samples.
        min_showers: Minimum size of each sample.
        classify: Also train classifiers, which takes most of the time.
        energy_bins: Number of energy bins; see `cloudgan.validation.observables.bins.bins_for`.
        notes: What is known about the samples, to be shown with the result.
        progress: Receives each step.

    Raises:
        DataError: The samples cannot be compared; the message gives the reason and the remedy.
    """
    progress, names = progress or Silent(), names or SampleNames()
    overlap = overlap_region(generated, reference, min_showers=min_showers, seed=seed)
    bins = bins_for(overlap, energy_bins)
    weights = draw_weights(overlap, bootstraps=BOOTSTRAPS, halvings=HALVINGS, seed=seed)
    steps: list[Callable[[], Iterator[Measure]]] = [
        lambda: _sum_measures(overlap, weights, bins),
        lambda: _feature_measures(overlap, weights),
        lambda: _fpd_measures(overlap, weights, seed),
        lambda: _kpd_measures(overlap, weights, seed),
    ]
    if classify:
        steps.append(lambda: _classifier_measures(overlap, weights, seed))
    progress.start("comparing", len(steps), "steps")
    measures: list[Measure] = []
    with threadpool_limits(1):  # several threads wait for each other on a busy machine
        for step in steps:
            measures += step()
            progress.advance(1)
    order = list(IDEALS)
    measures.sort(key=lambda measure: order.index(measure.name))
    return Assessment(
        generated=_sample(overlap.generated, names.generated),
        reference=_sample(overlap.reference, names.reference),
        seed=seed,
        measures=tuple(measures),
        notes=(
            *notes,
            *_sampling_notes(generated, reference),
            *overlap.notes,
            *_notes(overlap, measures),
        ),
    )


def shower_measures(
    generated: WeightedSample, reference: WeightedSample, bins: Bins
) -> MeasureValues:
    """Returns the measures of sums over energy and angle bins: shapes, and the 3DGAN authors' metric."""
    ours, theirs = (binned_sums(*pair, bins) for pair in (generated, reference))
    return shape_measures(ours, theirs, bins) | authors_metric(ours, theirs)


def _sum_measures(
    overlap: OverlapRegion, weights: BootstrapWeights, bins: Bins
) -> Iterator[Measure]:
    return _measures(overlap, weights, lambda ours, theirs: shower_measures(ours, theirs, bins))


def _feature_measures(overlap: OverlapRegion, weights: BootstrapWeights) -> Iterator[Measure]:
    def found(ours: WeightedSample, theirs: WeightedSample) -> MeasureValues:
        angles = angle_measures(ours, theirs) if overlap.angle_known else {}
        return (
            angles
            | correlation_measures(ours, theirs)
            | diversity_measures(ours, theirs, angle_known=overlap.angle_known)
            | distribution_measures(ours, theirs)
        )

    return _measures(overlap, weights, found)


def _fpd_measures(
    overlap: OverlapRegion, weights: BootstrapWeights, seed: int
) -> Iterator[Measure]:
    features = high_level(overlap.reference)

    def found(ours: WeightedSample, theirs: WeightedSample) -> MeasureValues:
        first, second = (scaled(high_level(sample), features) for sample, _ in (ours, theirs))
        return {("fpd", ""): fpd(first, ours[1], second, theirs[1], seed=seed)}

    return _measures(overlap, weights, found)


def _kpd_measures(
    overlap: OverlapRegion, weights: BootstrapWeights, seed: int
) -> Iterator[Measure]:
    theirs = high_level(overlap.reference)
    ours, theirs = scaled(high_level(overlap.generated), theirs), scaled(theirs, theirs)
    found = kpd(ours, theirs, seed=seed)
    baselines = [
        kpd(theirs[first > 0], theirs[second > 0], seed=seed).value
        for first, second in zip(weights.first, weights.second, strict=True)
    ]
    yield _measure("kpd", "", found.value, found.error, np.array(baselines))


def _classifier_measures(
    overlap: OverlapRegion, weights: BootstrapWeights, seed: int
) -> Iterator[Measure]:
    halves = list(zip(weights.first > 0, weights.second > 0, strict=True))[:CLASSIFIER_HALVINGS]
    for level, features in LEVELS.items():
        ours, theirs = features(overlap.generated), features(overlap.reference)
        result = two_sample_test(ours, theirs, seed=seed)
        baselines = [two_sample_test(theirs[a], theirs[b], seed=seed) for a, b in halves]
        yield _measure(
            "auc",
            level,
            result.auc,
            result.auc_error,
            np.array([baseline.auc for baseline in baselines]),
        )
        yield _measure(
            "jsd",
            level,
            result.jsd,
            result.jsd_error,
            np.array([baseline.jsd for baseline in baselines]),
        )


def _measures(
    overlap: OverlapRegion,
    weights: BootstrapWeights,
    found: Callable[[WeightedSample, WeightedSample], MeasureValues],
) -> Iterator[Measure]:
    """Values and errors from both weighted samples, baselines from halves of the reference."""
    values = found((overlap.generated, weights.generated), (overlap.reference, weights.reference))
    baselines = found((overlap.reference, weights.first), (overlap.reference, weights.second))
    for (name, where), rows in values.items():
        draws = rows[1:][np.isfinite(rows[1:])]  # a bootstrap may leave a bin of few showers empty
        error = float(np.std(draws, ddof=1)) if len(draws) > 1 else np.nan
        yield _measure(name, where, float(rows[0]), error, baselines.get((name, where), rows[:0]))


def _measure(name: str, where: str, value: float, error: float, baselines: Floats) -> Measure:
    baselines = baselines[np.isfinite(baselines)]
    some = len(baselines) > 1
    return Measure(
        name=name,
        where=where,
        value=_finite(value),
        applies=some or not np.isnan(value),
        error=_finite(error),
        baseline=_finite(float(baselines.mean())) if some else None,
        baseline_error=_finite(float(baselines.std(ddof=1))) if some else None,
        ideal=IDEALS[name],
    )


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


def _notes(overlap: OverlapRegion, measures: list[Measure]) -> Iterator[str]:
    for name, sample in (("generated", overlap.generated), ("reference", overlap.reference)):
        if empty := int(sample.empty.sum()):
            yield (
                f"{empty} of {len(sample)} {name} showers are empty (at most {EMPTY_SHARE:.1%} of the primary"
                " energy is in the cells)"
            )
    if not overlap.angle_known:
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

    Args:
        generated: Showers with the energies and angles of the reference.
        reference: Held-out Monte Carlo.

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
    weights = unit_weights(overlap)
    ours, theirs = (generated, weights.generated), (reference, weights.reference)
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
