"""The single number by which the authors of 3DGAN rank generators, with its bugs repaired.

``metric`` of their public analysis code (arXiv:2111.04628), per bin of energy: the mean relative
error of the first two moments along the three axes, plus that of the three profiles, plus that of
the measured angle; then the mean over the bins. Read in their code, and done otherwise here:

- One copy of it adds the moments twice and leaves the profiles out of the sum's weight; here each
  of the three parts is added once.
- The error of the profiles is a mean over all bins of a profile, so the emptiest edge decides, and
  one empty bin of the Monte Carlo makes it infinite (1e5 on 400 showers). Here only bins with more
  than 0.1 % of the energy are compared.
- Profiles are absolute energies of a bin 10 GeV wide. Here they are divided by the sum of the
  primary energies, so that two samples of other energies in the bin do not seem to differ.
- The angle is compared event by event, which needs the same angles in both samples. Here the means
  are compared, per bin of energy and of requested angle where that is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cloudgan.validation.quotients import ratio
from cloudgan.validation.shape import FEWEST_IN_BIN, PROFILE_SHARE, profile_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cloudgan.validation.totals import Totals

    Floats = NDArray[np.float64]

PARTS = ("moments", "profiles", "angle")


def authors_metric(generated: Totals, reference: Totals) -> dict[tuple[str, str], Floats]:
    """The sum and its three parts, (R,) each; nan where no bin of energy has showers of both."""
    parts = {"moments": _moments, "profiles": _profiles, "angle": _angle}
    found = {}
    for name, part in parts.items():
        per_bin = [
            part(generated, reference, energy)
            for energy in range(reference.sums.shape[1])
            if _filled(generated, reference, energy)
        ]
        unknown = np.full(len(reference.sums), np.nan)
        found[f"metric_{name}", ""] = np.mean(per_bin, axis=0) if per_bin else unknown
    total = np.sum([found[f"metric_{name}", ""] for name in PARTS], axis=0)
    return {("metric", ""): total} | found


def _filled(generated: Totals, reference: Totals, energy: int, angle: int | None = None) -> bool:
    return all(
        t.of("alive", energy=energy, angle=angle).min() >= FEWEST_IN_BIN
        for t in (generated, reference)
    )


def _moments(generated: Totals, reference: Totals, energy: int) -> Floats:
    errors = [
        np.abs(
            ratio(*(t.mean(f"M{order} {axis}", energy=energy) for t in (generated, reference))) - 1
        )
        for order in (1, 2)
        for axis in "xyz"
    ]
    return np.asarray(np.mean(errors, axis=0))


def _profiles(generated: Totals, reference: Totals, energy: int) -> Floats:
    errors = []
    for axis in "xyz":
        ours, theirs = (
            t.mean(f"profile {axis}", "energy", energy=energy) for t in (generated, reference)
        )
        errors.append(profile_errors(ours, theirs, PROFILE_SHARE).mean(1))
    return np.asarray(np.mean(errors, axis=0))


def _angle(generated: Totals, reference: Totals, energy: int) -> Floats:
    places = range(reference.sums.shape[2])
    errors = [
        np.abs(
            ratio(*(t.mean("angle", energy=energy, angle=a) for t in (generated, reference))) - 1
        )
        for a in places
        if _filled(generated, reference, energy, a)
    ]
    if not errors:
        return np.abs(ratio(*(t.mean("angle", energy=energy) for t in (generated, reference))) - 1)
    return np.asarray(np.mean(errors, axis=0))
