"""The part of two samples that can be compared: energies and angles at which both have showers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from cloudgan.core.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cloudgan.validation.observables import Observables

    Floats = NDArray[np.float64]

_SLACK = 0.02
"""Share of the range by which samples of the same range may end apart, by chance."""
_TOLD = 1e-3
"""Two distributions of energies are different where chance alone makes such in so few cases."""
_MOST_BINS = (20, 6)  # of energy and angle
_SHOWERS_PER_BIN = 15
_SAME_ENERGY = 1e-3
_FOREIGN_UNITS = (50.0, 100.0, 1000.0)
_UNIT_TOLERANCE = 1.3


@dataclass(frozen=True)
class Common:
    """Two samples with the same distribution of energies and angles.

    Attributes:
        generated: What is left of the sample under test.
        reference: What is left of the Monte Carlo.
        matched: Row by row they have the same energies, and angles where they are known.
        angle_known: Of both.
        notes: What was left out, and why.
    """

    generated: Observables
    reference: Observables
    matched: bool
    angle_known: bool
    notes: tuple[str, ...]


def common_part(generated: Observables, reference: Observables, *, least: int, seed: int) -> Common:
    """Cuts two samples to where both have showers.

    Where their energies or angles are distributed differently even there, showers are left out at
    random until they are not: per bin as many as keep the two distributions alike.

    Args:
        generated: The sample under test.
        reference: Monte Carlo.
        least: Fewer of either sample are refused.
        seed: Of the choice.

    Raises:
        DataError: Other images, units or energies, too few showers, or all of them are empty.
    """
    _check(generated, reference, least)
    known = generated.angle_known and reference.angle_known
    if _is_matched(generated, reference, known):
        return Common(generated, reference, True, known, ())
    notes: list[str] = []
    for what, unit, factor in (("energy", "GeV", 1.0), ("angle", "degrees", np.rad2deg(1.0))):
        if what == "angle" and not known:
            continue
        ours, theirs = (factor * _values(sample, what) for sample in (generated, reference))
        low, high = _shared_range(ours, theirs)
        inside = [(v >= low) & (v <= high) for v in (ours, theirs)]
        if not all(rows.all() for rows in inside):
            notes.append(
                f"compared only where both have showers, {what} {low:.4g} to {high:.4g} {unit}:"
                f" {inside[0].sum()} of {len(ours)} generated and {inside[1].sum()} of"
                f" {len(theirs)} reference showers"
            )
        generated, reference = generated[inside[0]], reference[inside[1]]
        _check_left(generated, reference, least, _ranges(ours, theirs, what, unit))
    generated, reference, said = _thinned(generated, reference, known, seed)
    _check_left(generated, reference, least, " with the same distribution of energies and angles")
    return Common(generated, reference, False, known, (*notes, *said))


def _check(generated: Observables, reference: Observables, least: int) -> None:
    for name, sample in (("generated", generated), ("reference", reference)):
        if len(sample) < least:
            raise DataError(
                f"{len(sample)} {name} showers; give at least {least}: with fewer, two halves of"
                " the reference differ as much as a poor generator does from it"
            )
        if not sample.sum_gev.any():
            raise DataError(
                f"all {len(sample)} {name} showers are empty (no cell above 2 keV): a generator that"
                " collapsed, or energies in another unit than GeV"
            )
    if generated.image != reference.image:
        ours, theirs = ("x".join(map(str, s.image)) for s in (generated, reference))
        raise DataError(
            f"generated images of {ours} cells, reference images of {theirs}; cut both to the same"
            " window"
        )
    ratio = float(np.median(generated.response) / max(np.median(reference.response), 1e-30))
    for unit in _FOREIGN_UNITS:
        for factor in (unit, 1 / unit):
            if 1 / _UNIT_TOLERANCE < ratio / factor < _UNIT_TOLERANCE:
                raise DataError(
                    f"generated showers hold {ratio:.3g} times the energy of the reference: that is"
                    f" another unit (a factor {factor:g}), and no shower; give both in the same one"
                )


def _is_matched(generated: Observables, reference: Observables, known: bool) -> bool:
    if len(generated) != len(reference):
        return False
    same = np.allclose(generated.energy_gev, reference.energy_gev, rtol=_SAME_ENERGY)
    return same and (
        not known or np.allclose(generated.requested_rad, reference.requested_rad, atol=1e-3)
    )


def _values(sample: Observables, what: str) -> Floats:
    return sample.energy_gev if what == "energy" else sample.requested_rad


def _shared_range(ours: Floats, theirs: Floats) -> tuple[float, float]:
    low, high = max(ours.min(), theirs.min()), min(ours.max(), theirs.max())
    slack = _SLACK * (max(ours.max(), theirs.max()) - min(ours.min(), theirs.min()))
    return float(low - slack), float(high + slack)


def _ranges(ours: Floats, theirs: Floats, what: str, unit: str) -> str:
    return (
        f" where both have showers: {what} of the generated ones is {ours.min():.4g} to"
        f" {ours.max():.4g} {unit}, of the reference {theirs.min():.4g} to {theirs.max():.4g} {unit}"
    )


def _check_left(generated: Observables, reference: Observables, least: int, where: str) -> None:
    left = min(len(generated), len(reference))
    if left < least:
        raise DataError(
            f"{len(generated)} generated and {len(reference)} reference showers are left{where};"
            f" at least {least} of each are needed: make both with the same ranges"
        )


def _thinned(
    generated: Observables, reference: Observables, known: bool, seed: int
) -> tuple[Observables, Observables, tuple[str, ...]]:
    differ = [
        what for what in ("energy", "angle")[: 1 + known] if _differ(generated, reference, what)
    ]
    if not differ:
        return generated, reference, ()
    fewest = min(len(generated), len(reference))
    places = [np.zeros(len(generated), int), np.zeros(len(reference), int)]
    for what, most in zip(("energy", "angle"), _MOST_BINS, strict=True):
        if what in differ:
            bins = int(np.clip(fewest // _SHOWERS_PER_BIN, 1, most))
            both = [_values(sample, what) for sample in (generated, reference)]
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
        " compared, chosen so that both have the same distribution"
    )
    generated, reference = generated[kept[0]], reference[kept[1]]
    left = [what for what in differ if _differ(generated, reference, what)]
    rest = f"; {' and '.join(left)} still differ within the bins of that choice"
    return generated, reference, (note + rest * bool(left),)


def _differ(generated: Observables, reference: Observables, what: str) -> bool:
    found = stats.ks_2samp(_values(generated, what), _values(reference, what), method="asymp")
    return bool(found.pvalue < _TOLD)


def _choose(
    place: NDArray[np.int64], wanted: Floats, random: np.random.Generator
) -> NDArray[np.int64]:
    """Rows so that each place keeps the share `wanted` of all rows."""
    order = random.permutation(len(place))
    order = order[np.argsort(place[order], kind="stable")]
    first = np.searchsorted(place[order], np.arange(len(wanted)))
    rank = np.arange(len(place)) - first[place[order]]
    return np.sort(order[rank < np.floor(wanted * len(place) + 1e-9)[place[order]]])
