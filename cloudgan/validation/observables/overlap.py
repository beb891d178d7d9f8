"""Overlap region of two samples: energies and angles at which both have showers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import DataError
from cloudgan.validation.observables.observables import Observables

Floats = NDArray[np.float64]

_SLACK = 0.02
"""Fraction of the range by which the ends of equal ranges may differ by chance."""
_SIGNIFICANCE = 1e-3
"""Significance level at which two energy or angle distributions count as different."""
_MOST_BINS = (20, 6)  # for energy and angle
_SHOWERS_PER_BIN = 15
_SAME_ENERGY = 1e-3
_FOREIGN_UNITS = (50.0, 100.0, 1000.0)
_UNIT_TOLERANCE = 1.3


@dataclass(frozen=True)
class OverlapRegion:
    """Two samples with the same distribution of energies and angles.

    Attributes:
        generated: Remaining showers of the sample under test.
        reference: Remaining Monte Carlo.
        matched: Both have the same energies, and known angles, row by row.
        angle_known: The requested angle of both samples is known.
        notes: Discarded showers, with the reason.
    """

    generated: Observables
    reference: Observables
    matched: bool
    angle_known: bool
    notes: tuple[str, ...]


def overlap_region(
    generated: Observables, reference: Observables, *, min_showers: int, seed: int
) -> OverlapRegion:
    """Restricts two samples to their overlap region.

    If energies or angles are distributed differently there, showers are discarded at random, per bin, until
    the distributions agree.

    Args:
        generated: Sample under test.
        reference: Monte Carlo.
        min_showers: Minimum size of each sample.
        seed: Random seed.

    Raises:
        DataError: Image shapes, units or energies differ, too few showers, or all showers are empty.
    """
    _check(generated, reference, min_showers)
    known = generated.angle_known and reference.angle_known
    if _is_matched(generated, reference, known):
        return OverlapRegion(generated, reference, True, known, ())
    notes: list[str] = []
    for quantity, unit, factor in (("energy", "GeV", 1.0), ("angle", "degrees", np.rad2deg(1.0))):
        if quantity == "angle" and not known:
            continue
        ours, theirs = (factor * _values(sample, quantity) for sample in (generated, reference))
        low, high = _shared_range(ours, theirs)
        inside = [(v >= low) & (v <= high) for v in (ours, theirs)]
        if not all(rows.all() for rows in inside):
            notes.append(
                f"restricted to the overlap, {quantity} {low:.4g} to {high:.4g} {unit}:"
                f" {inside[0].sum()} of {len(ours)} generated and {inside[1].sum()} of"
                f" {len(theirs)} reference showers"
            )
        generated, reference = generated[inside[0]], reference[inside[1]]
        _check_remaining(generated, reference, min_showers, _ranges(ours, theirs, quantity, unit))
    generated, reference, thinning_notes = _thinned(generated, reference, known, seed)
    _check_remaining(
        generated, reference, min_showers, " with the same distribution of energies and angles"
    )
    return OverlapRegion(generated, reference, False, known, (*notes, *thinning_notes))


def _check(generated: Observables, reference: Observables, min_showers: int) -> None:
    for name, sample in (("generated", generated), ("reference", reference)):
        if len(sample) < min_showers:
            raise DataError(
                f"{len(sample)} {name} showers; give at least {min_showers}: with fewer, the MC-MC"
                " baseline hides a poor generator"
            )
        if not sample.sum_gev.any():
            raise DataError(
                f"all {len(sample)} {name} showers are empty (no cell above 2 keV): the generator"
                " collapsed, or energies are not in GeV"
            )
    if generated.image != reference.image:
        ours, theirs = ("x".join(map(str, s.image)) for s in (generated, reference))
        raise DataError(
            f"generated images of {ours} cells, reference images of {theirs}; crop both to the same"
            " window"
        )
    ratio = float(np.median(generated.response) / max(np.median(reference.response), 1e-30))
    for unit in _FOREIGN_UNITS:
        for factor in (unit, 1 / unit):
            if 1 / _UNIT_TOLERANCE < ratio / factor < _UNIT_TOLERANCE:
                raise DataError(
                    f"generated showers hold {ratio:.3g} times the energy of the reference: a"
                    f" different unit (factor {factor:g}); convert both samples to GeV"
                )


def _is_matched(generated: Observables, reference: Observables, known: bool) -> bool:
    if len(generated) != len(reference):
        return False
    same = np.allclose(generated.energy_gev, reference.energy_gev, rtol=_SAME_ENERGY)
    return same and (
        not known or np.allclose(generated.requested_rad, reference.requested_rad, atol=1e-3)
    )


def _values(sample: Observables, quantity: str) -> Floats:
    return sample.energy_gev if quantity == "energy" else sample.requested_rad


def _shared_range(ours: Floats, theirs: Floats) -> tuple[float, float]:
    low, high = max(ours.min(), theirs.min()), min(ours.max(), theirs.max())
    slack = _SLACK * (max(ours.max(), theirs.max()) - min(ours.min(), theirs.min()))
    return float(low - slack), float(high + slack)


def _ranges(ours: Floats, theirs: Floats, quantity: str, unit: str) -> str:
    return (
        f" in the overlap: {quantity} is {ours.min():.4g} to"
        f" {ours.max():.4g} {unit} for generated and {theirs.min():.4g} to {theirs.max():.4g} {unit} for reference showers"
    )


def _check_remaining(
    generated: Observables, reference: Observables, min_showers: int, where: str
) -> None:
    remaining = min(len(generated), len(reference))
    if remaining < min_showers:
        raise DataError(
            f"{len(generated)} generated and {len(reference)} reference showers remain{where};"
            f" at least {min_showers} of each are required: produce both with the same ranges"
        )


def _thinned(
    generated: Observables, reference: Observables, known: bool, seed: int
) -> tuple[Observables, Observables, tuple[str, ...]]:
    differ = [
        quantity
        for quantity in ("energy", "angle")[: 1 + known]
        if _differ(generated, reference, quantity)
    ]
    if not differ:
        return generated, reference, ()
    fewest = min(len(generated), len(reference))
    places = [np.zeros(len(generated), int), np.zeros(len(reference), int)]
    for quantity, most in zip(("energy", "angle"), _MOST_BINS, strict=True):
        if quantity in differ:
            bins = int(np.clip(fewest // _SHOWERS_PER_BIN, 1, most))
            both = [_values(sample, quantity) for sample in (generated, reference)]
            edges = np.linspace(min(v.min() for v in both), max(v.max() for v in both), bins + 1)
            places = [
                place * bins + np.searchsorted(edges[1:-1], values)
                for place, values in zip(places, both, strict=True)
            ]
    size = max(int(place.max()) for place in places) + 1
    shares = [np.bincount(place, minlength=size) / len(place) for place in places]
    wanted = np.minimum(*shares)
    random = np.random.default_rng(seed)
    kept = [_choose(place, wanted, random) for place in places]
    note = (
        f"{' and '.join(differ)} of the two samples are distributed differently: {len(kept[0])} of"
        f" {len(generated)} generated and {len(kept[1])} of {len(reference)} reference showers were"
        " compared, selected so that both have the same distribution"
    )
    generated, reference = generated[kept[0]], reference[kept[1]]
    different = [quantity for quantity in differ if _differ(generated, reference, quantity)]
    rest = f"; {' and '.join(different)} still differ within the bins of the selection"
    return generated, reference, (note + rest * bool(different),)


def _differ(generated: Observables, reference: Observables, quantity: str) -> bool:
    from scipy.stats import ks_2samp  # noqa: PLC0415 - takes longer to import than all else here

    found = ks_2samp(_values(generated, quantity), _values(reference, quantity), method="asymp")
    return bool(found.pvalue < _SIGNIFICANCE)


def _choose(
    place: NDArray[np.int64], wanted: Floats, random: np.random.Generator
) -> NDArray[np.int64]:
    """Rows such that each bin keeps the share `wanted` of all rows."""
    order = random.permutation(len(place))
    order = order[np.argsort(place[order], kind="stable")]
    first = np.searchsorted(place[order], np.arange(len(wanted)))
    rank = np.arange(len(place)) - first[place[order]]
    return np.sort(order[rank < np.floor(wanted * len(place) + 1e-9)[place[order]]])
