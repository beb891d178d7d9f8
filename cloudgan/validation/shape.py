"""Means of shower shapes, generated against reference: ratios, distances and errors of profiles.

Each function gives (R,) values, one per weighting, by measure and place; nan is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cloudgan.validation.quotients import ratio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from cloudgan.validation.bins import Bins
    from cloudgan.validation.totals import Totals

    Floats = NDArray[np.float64]
    Found = dict[tuple[str, str], Floats]

FEWEST_IN_BIN = 5
"""A bin of energy or angle with fewer showers stays unknown."""

PROFILE_SHARE, CORE_SHARE = 1e-3, 1e-2
"""Bins of a profile that hold less of the reference's energy are not compared; those of the core."""

SPECTRUM_SHARE = 1e-2
"""The same for the cell spectrum, of the number of cells."""

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


def shape_measures(generated: Totals, reference: Totals, bins: Bins) -> Found:
    """All of them."""
    return (
        _responses(generated, reference, bins)
        | _profiles(generated, reference)
        | _moments(generated, reference)
        | _cells(generated, reference)
    )


def profile_errors(ours: Floats, theirs: Floats, share: float) -> Floats:
    """|ratio - 1| of profiles (R, bins) of the same sum, in bins with more than `share` of it.

    Which bins those are is decided on the mean of the reference's weightings, so that it is the
    same for all.
    """
    known = theirs.sum(0)
    held = known > share * known.sum()
    return np.abs(ratio(ours[:, held], theirs[:, held]) - 1)


def _responses(generated: Totals, reference: Totals, bins: Bins) -> Found:
    found: Found = {}
    for where, place in _everywhere(bins):
        few = min(t.of("showers", **place)[0] for t in (generated, reference)) < FEWEST_IN_BIN
        ours, theirs = (_response(t, place, few=few) for t in (generated, reference))
        found["response", where] = ratio(ours[0], theirs[0])
        found["response_width", where] = ratio(ours[1], theirs[1])
    return found


def _everywhere(bins: Bins) -> Iterator[tuple[str, dict[str, int | None]]]:
    yield "", {}
    energies, angles = bins.names()
    for number, name in enumerate(energies):
        yield name, {"energy": number}
    for number, name in enumerate(angles):
        yield name, {"angle": number}


def _response(t: Totals, place: dict[str, int | None], *, few: bool) -> tuple[Floats, Floats]:
    """Mean of Esum/E, and its standard deviation over its mean."""
    if few:
        unknown = np.full(len(t.sums), np.nan)
        return unknown, unknown
    mean = t.mean("response", "showers", **place)
    variance = t.mean("response squared", "showers", **place) - mean**2
    # Rounding leaves 1e-16 of the mean's square where all showers are alike.
    return mean, ratio(np.sqrt(np.maximum(variance, 0.0)), mean)


def _profiles(generated: Totals, reference: Totals) -> Found:
    found: Found = {}
    for axis in "xyz":
        ours, theirs = (t.mean(f"profile {axis}", "sum") for t in (generated, reference))
        errors = profile_errors(ours, theirs, PROFILE_SHARE)
        core = profile_errors(ours, theirs, CORE_SHARE)
        found[f"profile_{axis}", ""] = _mean(errors)
        found[f"profile_{axis}", "core"] = _mean(core)
        found[f"profile_{axis}", "worst bin"] = _largest(errors)
    return found


def _moments(generated: Totals, reference: Totals) -> Found:
    found: Found = {}
    for axis in "xyz":
        first, second = (
            [t.mean(f"M{order} {axis}") for t in (generated, reference)] for order in (1, 2)
        )
        found["moment_1", axis] = ratio(*first)
        found["moment_2", axis] = ratio(*second)
        found["centre", axis] = first[0] - first[1]
    for axis in "xy":
        found["lateral_rms", axis] = ratio(*(t.mean(f"rms {axis}") for t in (generated, reference)))
    found["layer_of_maximum", ""] = generated.mean("maximum") - reference.mean("maximum")
    return found


def _cells(generated: Totals, reference: Totals) -> Found:
    found: Found = {}
    for measure, names in _PER_SHOWER.items():
        for name in names:
            where = name.removeprefix("hits ") if measure == "hits" else ""
            found[measure, where] = ratio(
                *(t.mean(name, "showers") for t in (generated, reference))
            )
    for measure, name in _PER_ENERGY.items():
        found[measure, ""] = ratio(*(t.mean(name, "sum") for t in (generated, reference)))
    found["largest_cell", ""] = ratio(*(t.mean("largest share") for t in (generated, reference)))
    ours, theirs = (t.mean("spectrum", "cells") for t in (generated, reference))
    found["spectrum", ""] = _mean(profile_errors(ours, theirs, SPECTRUM_SHARE))
    return found


def _mean(errors: Floats) -> Floats:
    return errors.mean(1) if errors.shape[1] else np.full(len(errors), np.nan)


def _largest(errors: Floats) -> Floats:
    return errors.max(1) if errors.shape[1] else np.full(len(errors), np.nan)
