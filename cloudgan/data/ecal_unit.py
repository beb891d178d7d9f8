"""In which unit a file holds its cell energies, decided by the file's own numbers.

The public 3DGAN files hold GeV times 50, the fixed-angle predecessor GeV, and its preprocessed
copies GeV times 100 (`dscale` and `xscale` of the authors' code, arXiv:2111.04628). The silicon sees
about 2 % of the primary energy, so the median of sum(ECAL)/energy tells them apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

SAMPLING_FRACTION = 0.02
"""Visible over primary energy of the CLIC ECAL: 2.18 % at 15 GeV, 2.03 % at 90 GeV (the authors'
own fit to the public data, `GetEcalFit`)."""

TOLERANCE = 1.35
"""Factor by which a file's median may miss: leaves room for 2 to 500 GeV and for narrow images, and
its square is less than the 2 between GeV*50 and GeV*100."""

KNOWN_UNITS: Mapping[str, float] = {"GeV*50": 50.0, "GeV": 1.0, "GeV*100": 100.0}
"""Name of each unit and the number that stands for one GeV."""

DECLARED = "cloudgan_ecal_per_gev"
"""Attribute of ECAL in files we write: a poor generator's showers would mislead the numbers."""


class EcalUnit(NamedTuple):
    """A unit and the sentence that says how it was decided."""

    per_gev: float
    decided: str


def decide_unit(ratio: float, where: str) -> EcalUnit:
    """Finds the unit of a file whose median of sum(ECAL)/energy is `ratio`.

    Raises:
        DataError: The number is near that of no known unit.
    """
    for name, per_gev in KNOWN_UNITS.items():
        expected = per_gev * SAMPLING_FRACTION
        if expected / TOLERANCE <= ratio <= expected * TOLERANCE:
            return EcalUnit(
                per_gev, f"ECAL is {name}: the median of sum(ECAL)/energy is {ratio:.3g}."
            )
    known = ", ".join(
        f"{unit * SAMPLING_FRACTION:g} ({name})" for name, unit in KNOWN_UNITS.items()
    )
    raise DataError(
        f"{where}: the unit of ECAL is unknown: the median of sum(ECAL)/energy is {ratio:.4g};"
        f" known are {known}. Scale ECAL to GeV*50 and energy to GeV."
    )


def declared_unit(per_gev: float, ratio: float) -> EcalUnit:
    """Takes the unit from the file's own attribute, and still tells what its numbers say."""
    name = next((n for n, unit in KNOWN_UNITS.items() if unit == per_gev), f"GeV*{per_gev:g}")
    return EcalUnit(
        per_gev,
        f"ECAL is {name}: the file says so; the median of sum(ECAL)/energy is {ratio:.3g}.",
    )
