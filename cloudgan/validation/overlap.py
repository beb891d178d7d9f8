"""Two samples of showers: where both have some, bins of energy and angle, and weighted sums in them.

Array shapes: R weight vectors, E energy bins, A angle bins, K columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, starmap

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import DataError
from cloudgan.validation.observables import Observables, ratio

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

    Raises:
        DataError: Image shapes, units or energies differ, too few showers, or all showers are empty.
    """
    _check(generated, reference, min_showers)
    known = generated.angle_known and reference.angle_known
    if (
        len(generated) == len(reference)
        and np.allclose(generated.energy_gev, reference.energy_gev, rtol=_SAME_ENERGY)
        and (not known or np.allclose(generated.requested_rad, reference.requested_rad, atol=1e-3))
    ):
        return OverlapRegion(generated, reference, True, known, ())
    notes: list[str] = []
    for quantity, unit, factor in (("energy", "GeV", 1.0), ("angle", "degrees", np.rad2deg(1.0))):
        if quantity == "angle" and not known:
            continue
        ours, theirs = (factor * _values(sample, quantity) for sample in (generated, reference))
        slack = _SLACK * (max(ours.max(), theirs.max()) - min(ours.min(), theirs.min()))
        low = float(max(ours.min(), theirs.min()) - slack)
        high = float(min(ours.max(), theirs.max()) + slack)
        inside = [(v >= low) & (v <= high) for v in (ours, theirs)]
        if not all(rows.all() for rows in inside):
            notes.append(
                f"restricted to the overlap, {quantity} {low:.4g} to {high:.4g} {unit}:"
                f" {inside[0].sum()} of {len(ours)} generated and {inside[1].sum()} of"
                f" {len(theirs)} reference showers"
            )
        generated, reference = generated[inside[0]], reference[inside[1]]
        where = (
            f" in the overlap: {quantity} is {ours.min():.4g} to {ours.max():.4g} {unit} for generated and"
            f" {theirs.min():.4g} to {theirs.max():.4g} {unit} for reference showers"
        )
        _check_remaining(generated, reference, min_showers, where)
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


def _values(sample: Observables, quantity: str) -> Floats:
    return sample.energy_gev if quantity == "energy" else sample.requested_rad


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


_FINE_SHOWERS, _FINE, _COARSE = 3000, 9, 3
"""Minimum sample size for nine energy bins instead of three: each has as many showers as a third of 1,000, with which
the default gates can tell. With fewer, more showers would make the verdict "cannot tell": 2,000 in nine bins do."""
_REPEATED = 5
"""Showers of each energy, if energies are discrete."""
_ANGLE_BINS = 3
_ONE_VALUE = 1e-3


@dataclass(frozen=True)
class Bins:
    """Bin edges that both samples share.

    Attributes:
        energy_gev: Ascending; two equal edges if there is one energy.
        theta_deg: Ascending; empty if the angle is unknown.
    """

    energy_gev: tuple[float, ...]
    theta_deg: tuple[float, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Number of energy and angle bins, at least one each."""
        return len(self.energy_gev) - 1, max(len(self.theta_deg) - 1, 1)

    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Labels of the energy bins, and of the angle bins if there are two or more."""
        angles = _names(self.theta_deg, "deg") if self.shape[1] > 1 else ()
        return _names(self.energy_gev, "GeV"), angles

    def bin_numbers(self, sample: Observables) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Energy and angle bin of each shower, (N,) each, with under- and overflow in the outer bins."""
        energy = np.searchsorted(self.energy_gev[1:-1], sample.energy_gev, side="right")
        theta = np.searchsorted(self.theta_deg[1:-1], np.rad2deg(sample.requested_rad), "right")
        return energy, theta


def bins_for(overlap: OverlapRegion, energy_bins: int | None = None) -> Bins:
    """Chooses equal bins over the range of both samples, its ends rounded outwards.

    Of two to nine energies that repeat, each has a bin of its own.
    By default there are 9 if both samples have 3,000 showers or more, else 3.
    """
    samples = (overlap.generated, overlap.reference)
    if energy_bins is None:
        energy_bins = _FINE if min(map(len, samples)) >= _FINE_SHOWERS else _COARSE
    energy = np.concatenate([sample.energy_gev for sample in samples])
    theta: tuple[float, ...] = ()
    if overlap.angle_known:
        angles = np.rad2deg(np.concatenate([sample.requested_rad for sample in samples]))
        theta = _edges(angles, _ANGLE_BINS)
    values, counts = np.unique(np.float32(energy), return_counts=True)
    if 1 < len(values) <= _FINE and counts.min() >= _REPEATED:
        middles = (values[1:] + values[:-1]) / 2
        return Bins(tuple(map(float, (values[0], *middles, values[-1]))), theta)
    return Bins(_edges(energy, energy_bins), theta)


def _edges(values: Floats, bins: int) -> tuple[float, ...]:
    low, high = float(values.min()), float(values.max())
    span = high - low
    if span <= _ONE_VALUE * abs(high):
        return (low, high)
    unit = 10.0 ** np.floor(np.log10(span)) / 10
    # Tolerance for rounded values of a file, such as 120.00001.
    low, high = np.floor(low / unit + 0.1) * unit, np.ceil(high / unit - 0.1) * unit
    return tuple(float(edge) for edge in np.linspace(low, high, bins + 1))


def _names(edges: tuple[float, ...], unit: str) -> tuple[str, ...]:
    if f"{edges[0]:.4g}" == f"{edges[-1]:.4g}":
        return (f"{edges[0]:.4g} {unit}",)
    return tuple(f"{a:.4g}-{b:.4g} {unit}" for a, b in pairwise(edges))


_CHUNK = 5000  # showers whose columns are in memory at once


@dataclass(frozen=True)
class BinnedSums:
    """Weighted sums of the observables in `columns`.

    Attributes:
        sums: (R, E, A, K).
        slices: Slice of each name among the K columns.
    """

    sums: Floats
    slices: dict[str, slice]

    def total(self, name: str, *, energy: int | None = None, angle: int | None = None) -> Floats:
        """Sum of a column, (R,), or of several, (R, k); over all bins or in one of them."""
        some = self.sums[:, :, :, self.slices[name]]
        some = some[:, :, angle] if angle is not None else some.sum(2)
        some = some[:, energy] if energy is not None else some.sum(1)
        return some[:, 0] if some.shape[1] == 1 else some

    def mean(
        self,
        name: str,
        per: str = "non-empty",
        *,
        energy: int | None = None,
        angle: int | None = None,
    ) -> Floats:
        """Sum of a column over the sum of another; nan where the latter is 0."""
        above, below = (self.total(n, energy=energy, angle=angle) for n in (name, per))
        below = below.reshape(below.shape + (1,) * (above.ndim - below.ndim))
        return ratio(above, below)


def binned_sums(sample: Observables, weights: NDArray[np.float32], bins: Bins) -> BinnedSums:
    """Sums the columns of `sample` under `weights`, (R, N)."""
    energy, angle = bins.bin_numbers(sample)
    bin_of = energy * bins.shape[1] + angle
    one = columns(sample[:1])
    ends = np.cumsum([0, *(values[0].size for values in one.values())]).tolist()
    sums = np.zeros((len(weights), *bins.shape, ends[-1]))
    flat = sums.reshape(len(weights), -1, ends[-1])
    for first in range(0, len(sample), _CHUNK):
        some = slice(first, first + _CHUNK)
        found = [values.reshape(len(values), -1) for values in columns(sample[some]).values()]
        table = np.concatenate(found, axis=1)
        for number in np.unique(bin_of[some]):
            rows = np.flatnonzero(bin_of[some] == number)
            flat[:, number] += weights[:, first + rows].astype(np.float64) @ table[rows]
    return BinnedSums(sums, dict(zip(one, starmap(slice, pairwise(ends)), strict=True)))


def columns(sample: Observables) -> dict[str, Floats]:
    """Summed observables by name, (N,) or (N, k). Shapes of empty showers are 0."""
    non_empty = sample.sum_gev > 0
    response = sample.response
    found: dict[str, Floats] = {
        "showers": np.ones(len(sample)),
        "non-empty": non_empty.astype(np.float64),
        "energy": sample.energy_gev,
        "sum": sample.sum_gev,
        "response": response,
        "response squared": response**2,
        "profile x": sample.profile_x_gev.astype(np.float64),
        "profile y": sample.profile_y_gev.astype(np.float64),
        "profile z": sample.profile_z_gev.astype(np.float64),
        "spectrum": sample.spectrum.astype(np.float64),
        "hits 0.1 MeV": sample.hits_low,
        "hits 0.3 MeV": sample.hits,
        "hits 3 MeV": sample.hits_high,
        "cells": sample.cells,
        "tail": sample.tail_gev,
        "last layer": sample.profile_z_gev[:, -1].astype(np.float64),
        "first layers": sample.first_layers_share * sample.sum_gev,
        "last layers": sample.last_layers_share * sample.sum_gev,
        "largest share": sample.largest_share,
        "maximum": sample.layer_of_maximum * non_empty,
        "angle": sample.angle_rad * non_empty,
    }
    for axis in "xyz":
        first, second = sample.moments(axis)
        found |= {f"M1 {axis}": first, f"M2 {axis}": second, f"rms {axis}": np.sqrt(second)}
    return found
