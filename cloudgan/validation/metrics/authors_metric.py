"""Metric by which the 3DGAN authors rank generators, with corrections.

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

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloudgan.validation.metrics.measures import (
    MIN_SHOWERS_PER_BIN,
    PROFILE_SHARE,
    profile_errors,
)
from cloudgan.validation.observables.bins import BinnedSums
from cloudgan.validation.observables.cells import ratio

Floats = NDArray[np.float64]

PARTS = ("moments", "profiles", "angle")


def authors_metric(generated: BinnedSums, reference: BinnedSums) -> dict[tuple[str, str], Floats]:
    """Returns the sum and its three parts, (R,) each; nan if no energy bin has showers of both samples."""
    parts = {"moments": _moments, "profiles": _profiles, "angle": _angle}
    found = {}
    for name, part in parts.items():
        per_bin = [
            part(generated, reference, energy)
            for energy in range(reference.sums.shape[1])
            if _has_showers(generated, reference, energy)
        ]
        unknown = np.full(len(reference.sums), np.nan)
        found[f"metric_{name}", ""] = np.mean(per_bin, axis=0) if per_bin else unknown
    total = np.sum([found[f"metric_{name}", ""] for name in PARTS], axis=0)
    return {("metric", ""): total} | found


def _has_showers(
    generated: BinnedSums, reference: BinnedSums, energy: int, angle: int | None = None
) -> bool:
    return all(
        t.total("non-empty", energy=energy, angle=angle)[0] >= MIN_SHOWERS_PER_BIN
        for t in (generated, reference)
    )


def _moments(generated: BinnedSums, reference: BinnedSums, energy: int) -> Floats:
    errors = [
        np.abs(
            ratio(*(t.mean(f"M{order} {axis}", energy=energy) for t in (generated, reference))) - 1
        )
        for order in (1, 2)
        for axis in "xyz"
    ]
    return np.asarray(np.mean(errors, axis=0))


def _profiles(generated: BinnedSums, reference: BinnedSums, energy: int) -> Floats:
    errors = []
    for axis in "xyz":
        ours, theirs = (
            t.mean(f"profile {axis}", "energy", energy=energy) for t in (generated, reference)
        )
        errors.append(profile_errors(ours, theirs, PROFILE_SHARE).mean(1))
    return np.asarray(np.mean(errors, axis=0))


def _angle(generated: BinnedSums, reference: BinnedSums, energy: int) -> Floats:
    angles = range(reference.sums.shape[2])
    errors = [
        np.abs(
            ratio(*(t.mean("angle", energy=energy, angle=a) for t in (generated, reference))) - 1
        )
        for a in angles
        if _has_showers(generated, reference, energy, a)
    ]
    if not errors:
        return np.abs(ratio(*(t.mean("angle", energy=energy) for t in (generated, reference))) - 1)
    return np.asarray(np.mean(errors, axis=0))
