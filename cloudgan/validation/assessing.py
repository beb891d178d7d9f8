"""From two samples of measured showers to everything that is said about them.

Every number is computed under many weightings of the showers: all ones, bootstrap samples for the
error, and two halves of the reference for the floor. Only what is no function of weighted sums (the
classifiers and the kernel distance) is computed anew for each halving.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from cloudgan.core.progress import Silent
from cloudgan.validation.assessment import Assessment, Measure, Sample
from cloudgan.validation.authors_metric import authors_metric
from cloudgan.validation.bins import bins_for
from cloudgan.validation.classifier import tell_apart
from cloudgan.validation.distributions import distribution_measures
from cloudgan.validation.features import high_level, low_level
from cloudgan.validation.frechet import fpd, scaled
from cloudgan.validation.kernel_distance import kpd
from cloudgan.validation.known_measures import IDEALS
from cloudgan.validation.overlap import common_part
from cloudgan.validation.relations import (
    angle_measures,
    correlation_measures,
    diversity_measures,
)
from cloudgan.validation.shape import shape_measures
from cloudgan.validation.totals import totals
from cloudgan.validation.weightings import weightings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from cloudgan.core.progress import Progress
    from cloudgan.validation.bins import Bins
    from cloudgan.validation.observables import Observables
    from cloudgan.validation.overlap import Common
    from cloudgan.validation.weightings import Weightings

    Floats = NDArray[np.float64]
    Weights = NDArray[np.float32]
    Found = dict[tuple[str, str], Floats]
    Pair = tuple[Observables, Weights]

MIN_SHOWERS = 200
"""With fewer, the floor would swallow everything."""

BOOTSTRAPS, HALVINGS = 50, 10
CLASSIFIER_HALVINGS = 3

LEVELS: dict[str, Callable[[Observables], NDArray[np.floating]]] = {
    "high level": high_level,
    "low level": low_level,
}


class Names(NamedTuple):
    """Of the two samples."""

    generated: str = "generated showers"
    reference: str = "reference showers"


def assess(
    generated: Observables,
    reference: Observables,
    *,
    seed: int = 0,
    names: Names | None = None,
    least: int = MIN_SHOWERS,
    classify: bool = True,
    energy_bins: int | None = None,
    progress: Progress | None = None,
) -> Assessment:
    """Compares two samples, which need not have the same showers, nor as many.

    Args:
        generated: The sample under test.
        reference: Monte Carlo, never trained on.
        seed: Of halvings, bootstrap samples and classifiers.
        names: Of the samples.
        least: Fewer showers of either are refused.
        classify: Train classifiers too: most of the time.
        energy_bins: How many; see `cloudgan.validation.bins.bins_for`.
        progress: Told of each step.

    Raises:
        DataError: The samples cannot be compared; says why and what would do.
    """
    progress, names = progress or Silent(), names or Names()
    common = common_part(generated, reference, least=least, seed=seed)
    bins = bins_for(common, energy_bins)
    drawn = weightings(common, bootstraps=BOOTSTRAPS, halvings=HALVINGS, seed=seed)
    steps: list[Callable[[], Iterator[Measure]]] = [
        lambda: _with_totals(common, drawn, bins),
        lambda: _with_features(common, drawn),
        lambda: _with_fpd(common, drawn, seed),
        lambda: _with_kpd(common, drawn, seed),
    ]
    if classify:
        steps.append(lambda: _with_classifiers(common, drawn, seed))
    progress.start("comparing", len(steps), "steps")
    measures: list[Measure] = []
    with threadpool_limits(1):  # of several threads, each waits for the others on a busy machine
        for step in steps:
            measures += step()
            progress.advance(1)
    order = list(IDEALS)
    measures.sort(key=lambda measure: order.index(measure.name))
    return Assessment(
        generated=_sample(common.generated, names.generated),
        reference=_sample(common.reference, names.reference),
        seed=seed,
        measures=tuple(measures),
        notes=(*_chosen(generated, reference), *common.notes, *_notes(common, measures)),
    )


def shower_measures(generated: Pair, reference: Pair, bins: Bins) -> Found:
    """What is made of sums over bins of energy and angle: shapes, and the authors' number."""
    ours, theirs = (totals(*pair, bins) for pair in (generated, reference))
    return shape_measures(ours, theirs, bins) | authors_metric(ours, theirs)


def _with_totals(common: Common, drawn: Weightings, bins: Bins) -> Iterator[Measure]:
    return _measured(common, drawn, lambda ours, theirs: shower_measures(ours, theirs, bins))


def _with_features(common: Common, drawn: Weightings) -> Iterator[Measure]:
    def found(ours: Pair, theirs: Pair) -> Found:
        angles = angle_measures(ours, theirs) if common.angle_known else {}
        return (
            angles
            | correlation_measures(ours, theirs)
            | diversity_measures(ours, theirs, angle_known=common.angle_known)
            | distribution_measures(ours, theirs)
        )

    return _measured(common, drawn, found)


def _with_fpd(common: Common, drawn: Weightings, seed: int) -> Iterator[Measure]:
    features = high_level(common.reference)

    def found(ours: Pair, theirs: Pair) -> Found:
        first, second = (scaled(high_level(sample), features) for sample, _ in (ours, theirs))
        return {("fpd", ""): fpd(first, ours[1], second, theirs[1], seed=seed)}

    return _measured(common, drawn, found)


def _with_kpd(common: Common, drawn: Weightings, seed: int) -> Iterator[Measure]:
    theirs = high_level(common.reference)
    ours, theirs = scaled(high_level(common.generated), theirs), scaled(theirs, theirs)
    found = kpd(ours, theirs, seed=seed)
    floors = [
        kpd(theirs[first > 0], theirs[second > 0], seed=seed).value
        for first, second in zip(drawn.first, drawn.second, strict=True)
    ]
    yield _measure("kpd", "", found.value, found.error, np.array(floors))


def _with_classifiers(common: Common, drawn: Weightings, seed: int) -> Iterator[Measure]:
    halves = list(zip(drawn.first > 0, drawn.second > 0, strict=True))[:CLASSIFIER_HALVINGS]
    for level, features in LEVELS.items():
        ours, theirs = features(common.generated), features(common.reference)
        told = tell_apart(ours, theirs, seed=seed)
        floors = [tell_apart(theirs[a], theirs[b], seed=seed) for a, b in halves]
        yield _measure(
            "auc", level, told.auc, told.auc_error, np.array([floor.auc for floor in floors])
        )
        yield _measure(
            "jsd", level, told.jsd, told.jsd_error, np.array([floor.jsd for floor in floors])
        )


def _measured(
    common: Common, drawn: Weightings, found: Callable[[Pair, Pair], Found]
) -> Iterator[Measure]:
    """Values and errors from the weightings of both samples, floors from halves of the reference."""
    values = found((common.generated, drawn.generated), (common.reference, drawn.reference))
    floors = found((common.reference, drawn.first), (common.reference, drawn.second))
    for (name, where), rows in values.items():
        error = float(np.std(rows[1:], ddof=1))
        yield _measure(name, where, float(rows[0]), error, floors.get((name, where), rows[:0]))


def _measure(name: str, where: str, value: float, error: float, floors: Floats) -> Measure:
    floors = floors[np.isfinite(floors)]
    some = len(floors) > 1
    return Measure(
        name=name,
        where=where,
        value=_known(value),
        error=_known(error),
        floor=_known(float(floors.mean())) if some else None,
        floor_error=_known(float(floors.std(ddof=1))) if some else None,
        ideal=IDEALS[name],
    )


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _sample(sample: Observables, name: str) -> Sample:
    return Sample(
        name=name,
        showers=len(sample),
        cells=sample.image,
        energy_range_gev=(float(sample.energy_gev.min()), float(sample.energy_gev.max())),
    )


def _chosen(generated: Observables, reference: Observables) -> Iterator[str]:
    for name, sample in (("generated", generated), ("reference", reference)):
        if sample.out_of > len(sample):
            yield (
                f"{len(sample):,} of {sample.out_of:,} {name} showers were measured, evenly spread"
                " over all of them"
            )


_WHY_UNKNOWN = {
    "response": "fewer than 5 showers in the bin",
    "response_width": "fewer than 5 showers in the bin, or all alike",
    "angle_slope": "all showers were asked for the same angle",
    "tail": "the reference holds nothing outside the central 9 x 9 columns",
    "hits": "the reference holds no such cell",
    "diversity": "the reference's showers of one energy and angle are all alike",
}


def _notes(common: Common, measures: list[Measure]) -> Iterator[str]:
    for name, sample in (("generated", common.generated), ("reference", common.reference)):
        if empty := int((sample.sum_gev == 0).sum()):
            yield f"{empty} of {len(sample)} {name} showers are empty (no cell of 2 keV or more)"
    if not common.angle_known:
        yield (
            "the requested angle (theta) is not known of both samples: the measured angle is compared"
            " as a distribution only"
        )
    elif not any(measure.name == "angle_spread" for measure in measures):
        yield (
            "the reference was asked for the very angles that its images show: the spread of the"
            " angle says nothing and is left out"
        )
    for measure in measures:
        if measure.value is None:
            why = _WHY_UNKNOWN.get(measure.name, "the reference holds nothing there")
            yield f"{measure.name}{', ' * bool(measure.where)}{measure.where} is unknown: {why}"
