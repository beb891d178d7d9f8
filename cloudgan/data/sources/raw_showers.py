"""Showers in the unit and with the columns of their file, bit for bit, and the detection of that unit.

Every reader yields `RawShowers`; `to_showers` converts them to GeV. The public 3DGAN files hold GeV times 50,
the fixed-angle predecessor GeV, and its preprocessed copies GeV times 100 (`dscale` and `xscale` of the
authors' code, arXiv:2111.04628). The silicon collects about 2 % of the primary energy, so the median of
sum(ECAL)/energy identifies the unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from cloudgan.core.errors import DataError
from cloudgan.data.showers import Showers, measured_angle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from cloudgan.data.shards.manifest import SourceInfo

SAMPLING_FRACTION = 0.02

"""Visible over primary energy of the CLIC ECAL: 2.18 % at 15 GeV, 2.03 % at 90 GeV (the authors'
own fit to the public data, `GetEcalFit`)."""

TOLERANCE = 1.35

"""Allowed factor between median and expectation: covers 2 to 500 GeV and narrow images; its square is
less than the 2 between GeV*50 and GeV*100."""

KNOWN_UNITS: Mapping[str, float] = {"GeV*50": 50.0, "GeV": 1.0, "GeV*100": 100.0}

"""Number that represents one GeV, by unit."""

UNIT_RANGE = (1e-3, 1e6)

"""Numbers that may represent one GeV."""

_VALID_UNIT = f"valid: a number from {UNIT_RANGE[0]:g} to {UNIT_RANGE[1]:g}, as 50 for GeV*50"

MOST_DEVIATION = 1000.0

"""Factor by which the showers of the poorest generator may deviate from the sampling fraction."""

ENERGY_RANGE_GEV = (1e-4, 1e7)

"""Primary energies: 0.1 MeV to 10 PeV."""

MAX_ANGLE_RAD = 2 * np.pi

MAX_CELL = 1e9

"""Largest content of a cell, in any unit."""

WRITTEN_UNIT = "GeV*50"
"""Unit of ECAL in files of cloudgan, as in the public ones."""
DECLARED = "cloudgan_ecal_per_gev"

"""Attribute of ECAL in files of cloudgan: showers of a poor generator would mislead the detection."""


class EcalUnit(NamedTuple):
    """A unit, and a sentence that states how it was determined."""

    per_gev: float
    decided: str


def decide_unit(ratio: float, where: str) -> EcalUnit:
    """Returns the unit of a file whose median of sum(ECAL)/energy is `ratio`.

    Raises:
        DataError: No known unit matches.
    """
    for name, per_gev in KNOWN_UNITS.items():
        if _fits(per_gev, ratio):
            return EcalUnit(
                per_gev, f"ECAL is {name}: the median of sum(ECAL)/energy is {ratio:.3g}."
            )
    known = ", ".join(
        f"{unit * SAMPLING_FRACTION:g} ({name})" for name, unit in KNOWN_UNITS.items()
    )
    if ratio == 0:
        raise DataError(
            f"{where}: the unit of ECAL is unknown: the median of sum(ECAL)/energy is 0, so most events"
            " have no energy in any cell. Simulate the showers again."
        )
    raise DataError(
        f"{where}: the unit of ECAL is unknown: the median of sum(ECAL)/energy is {ratio:.4g};"
        f" known are {known}. Scale ECAL to GeV*50 and energy to GeV."
    )


def declared_unit(declared: Any, ratio: float, where: str, *, is_generated: bool) -> EcalUnit:
    """Returns the unit that an attribute of the file declares, if the numbers agree with it.

    Args:
        declared: Value of the attribute: number that represents one GeV.
        ratio: Median of sum(ECAL)/energy in the file.
        where: The file, for messages.
        is_generated: The showers are of a generator, which may be poor: only a ratio beyond
            `MOST_DEVIATION` is refused. Otherwise the ratio of another known unit is refused too.

    Raises:
        DataError: The attribute is not a unit, or the numbers contradict it.
    """
    found = np.asarray(declared)
    if found.size != 1 or found.dtype.kind not in "fiu":
        raise DataError(f"{where}: the attribute {DECLARED} of ECAL is {declared!r}; {_VALID_UNIT}")
    per_gev = float(found.reshape(-1)[0])
    if not UNIT_RANGE[0] <= per_gev <= UNIT_RANGE[1]:  # NaN too
        raise DataError(f"{where}: the attribute {DECLARED} of ECAL is {per_gev:g}; {_VALID_UNIT}")
    expected = per_gev * SAMPLING_FRACTION
    other = next((n for n, u in KNOWN_UNITS.items() if u != per_gev and _fits(u, ratio)), None)
    is_absurd = not expected / MOST_DEVIATION <= ratio <= expected * MOST_DEVIATION
    if is_absurd or (other and not is_generated and not _fits(per_gev, ratio)):
        seen = f", the ratio of {other}" if other else ""
        raise DataError(
            f"{where}: the attribute {DECLARED} of ECAL is {per_gev:g}, which needs a median of"
            f" sum(ECAL)/energy near {expected:g}; it is {ratio:.4g}{seen}. Correct the attribute, or scale"
            " ECAL and energy (in GeV)."
        )
    name = next((n for n, unit in KNOWN_UNITS.items() if unit == per_gev), f"GeV*{per_gev:g}")
    return EcalUnit(
        per_gev,
        f"ECAL is {name}: declared in the file; the median of sum(ECAL)/energy is {ratio:.3g}.",
    )


def _fits(per_gev: float, ratio: float) -> bool:
    expected = per_gev * SAMPLING_FRACTION
    return expected / TOLERANCE <= ratio <= expected * TOLERANCE


Columns = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class RawShowers:
    """A block of showers of one file.

    Attributes:
        ecal: (n, X, Y, Z) in the file's unit and dtype.
        columns: The file's other datasets, (n, ...) each.
    """

    ecal: NDArray[Any]
    columns: Columns

    def __len__(self) -> int:
        return len(self.ecal)

    def to_showers(self, per_gev: float) -> Showers:
        """Converts to GeV; measures the angle where the file has no mtheta."""
        ecal = in_gev(self.ecal, per_gev)
        mtheta = self.columns.get("mtheta")
        return Showers(
            ecal,
            energies_gev(self.columns),
            thetas_rad(self.columns),
            measured_angle(ecal) if mtheta is None else _per_shower(mtheta),
        )


class RawFile(Protocol):
    """A file of showers that is read in blocks."""

    @property
    def path(self) -> Path:
        """The file, or the folder of shards."""

    @property
    def info(self) -> SourceInfo:
        """Metadata of the file."""

    def describe(self) -> tuple[str, ...]:
        """Returns sentences about layout and unit."""

    def raw_blocks(self, size: int) -> Iterator[RawShowers]:
        """Yields all showers in order, at most `size` at a time.

        Raises:
            DataError: A record is damaged; the message names file and record.
        """


def in_gev(values: NDArray[Any], per_gev: float) -> NDArray[np.float32]:
    """Divides by the unit, in the dtype of the file, and returns float32."""
    return np.asarray(values / values.dtype.type(per_gev), dtype=np.float32)


def energies_gev(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
    """Returns the primary energies; the fixed-angle files hold them in target[:, 1]."""
    return _per_shower(columns["energy"] if "energy" in columns else columns["target"][:, 1])


def thetas_rad(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.float32] | None:
    """Returns the polar angles: 90 degrees in the fixed-angle files, None where unknown."""
    if "theta" in columns:
        return _per_shower(columns["theta"])
    if "energy" in columns:
        return None
    return np.full(len(columns["target"]), np.pi / 2, np.float32)


def _per_shower(column: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # infinite, which the checks refuse
        return np.asarray(column, dtype=np.float32).reshape(-1)


def check_ecal(ecal: NDArray[Any], where: str, first: int) -> None:
    """Checks that cells are finite, not negative and at most `MAX_CELL`; row 0 is event `first`.

    Raises:
        DataError: Names the event.
    """
    if ecal.size == 0 or (ecal.min() >= 0 and float(ecal.max()) <= MAX_CELL):  # NaN fails both
        return
    flat = ecal.reshape(len(ecal), -1)
    row = int(np.argmin((flat.min(1) >= 0) & (flat.max(1).astype(np.float64) <= MAX_CELL)))
    cells = flat[row]
    if np.isnan(cells).any():
        kind = "NaN"
    elif np.isinf(cells).any():
        kind = "infinite"
    else:
        kind = "negative" if cells.min() < 0 else "too large"
    raise DataError(
        f"{where}, event {first + row}: ECAL has {kind} cells (from {cells.min():g} to {cells.max():g});"
        f" energies are finite, not negative and at most {MAX_CELL:g}. Remove the event or simulate it"
        " again."
    )


def check_columns(columns: Mapping[str, NDArray[Any]], where: str, first: int = 0) -> None:
    """Checks that energies are in `ENERGY_RANGE_GEV` and angles at most `MAX_ANGLE_RAD`.

    Raises:
        DataError: Names the event.
    """
    energy, (least, most) = energies_gev(columns), ENERGY_RANGE_GEV
    row = int(np.argmin(good := (energy >= least) & (energy <= most)))
    if not good[row]:
        raise DataError(
            f"{where}, event {first + row}: the primary energy is {energy[row]:g} GeV;"
            f" it must be positive and finite, from {least:g} to {most:g} GeV"
        )
    for name in ("theta", "mtheta"):
        angle = _per_shower(columns[name]) if name in columns else np.zeros(1, np.float32)
        row = int(np.argmin(good := np.abs(angle) <= MAX_ANGLE_RAD))
        if not good[row]:
            raise DataError(
                f"{where}, event {first + row}: {name} is {angle[row]:g}, not an angle in rad"
            )


def median_ratio(ecal_sums: NDArray[Any], energy_gev: NDArray[Any]) -> float:
    """Returns the median of sum(ECAL)/energy, which decides the unit."""
    with np.errstate(all="ignore"):  # infinite or NaN, which fits no unit
        ratios = np.asarray(ecal_sums, np.float64) / np.asarray(energy_gev, np.float64)
        return float(np.median(ratios))
