"""Showers in the units and with the columns of their file, bit for bit, and the detection of those units.

Every reader yields `RawShowers`; `to_showers` converts them to GeV. The public 3DGAN files hold GeV times 50,
the fixed-angle predecessor GeV, and its preprocessed copies GeV times 100 (`dscale` and `xscale` of the
authors' code, arXiv:2111.04628). The silicon collects about 2 % of the primary energy, and calibrated cells
add up to all of it: the median of sum(ECAL)/energy identifies the units where only one pair of them fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import DataError, counted, show
from cloudgan.data.manifest import EMPTY_SHARE, SourceInfo, describe_empty
from cloudgan.data.showers import Showers, measured_angle
from cloudgan.schema.simulation import EcalUnit

SAMPLING_FRACTION = 0.02
"""Visible over primary energy of the CLIC ECAL: 2.18 % at 15 GeV, 2.03 % at 90 GeV (the authors'
own fit to the public data, `GetEcalFit`)."""

TOLERANCE = 1.35
"""Allowed factor between median and expectation: covers 2 to 500 GeV and narrow images; its square is
less than the 2 between GeV*50 and GeV*100."""

KNOWN_UNITS: Mapping[str, float] = {
    "GeV*50": 50.0, "GeV": 1.0, "GeV*100": 100.0, "MeV": 1e3, "keV": 1e6, "TeV": 1e-3,
}  # fmt: skip
"""Number that represents one GeV, by unit. An attribute may state each of them."""

_CALIBRATED = 1.0
"""Share of the primary energy in cells that are calibrated to it."""

_STATED_RESPONSE = (2e-3, TOLERANCE)
"""Share of the primary energy in the cells, if the unit of ECAL is stated: pions leave less than electrons.
The range is smaller than the 1000 between GeV and MeV, so that the unit of the energies follows."""

_USUAL_ENERGY_GEV = (0.1, 1000.0)
"""Primary energies of the public data sets; numbers up to 1000 are GeV if they would be less in MeV."""

_WIDER = 1.3
"""Factor by which the rms along a lateral axis must not exceed that of the depth: electrons of 10 to 100 GeV
and 60 to 120 degrees have 0.38 and 0.47 (Geant4), with the depth as first axis 2.1."""

UNIT_RANGE = (1e-3, 1e6)
"""Numbers that may represent one GeV."""

_VALID_UNIT = f"valid: a number from {UNIT_RANGE[0]:g} to {UNIT_RANGE[1]:g}, as 50 for GeV*50"

MOST_DEVIATION = 1000.0
"""Factor by which the showers of the poorest generator may deviate from the sampling fraction."""

ENERGY_RANGE_GEV = (1e-4, 1e7)
"""Primary energies: 0.1 MeV to 10 PeV."""

MAX_ANGLE_RAD = 2 * np.pi
_FULL_CIRCLE_DEG = 360.0

_GROUP_SHARE = 0.05
"""Of the showers that must be in each of two units, if a file mixes them; fewer are bad showers."""
_MIXED_FACTORS = (20.0, 50.0, 1000.0)
"""Between units that are mixed in practice: MeV and GeV*50, GeV*50 and GeV, GeV and MeV."""
_SAME_FACTOR = 1.15
"""Between the medians of electrons of any energies: their share in the cells is 2.03 to 2.18 %."""
_APART = 5.0
"""Factor between two units in which no shower is: single showers scatter less."""

MAX_CELL = 1e9
"""Largest content of a cell, in any unit."""

WRITTEN_UNIT = "GeV*50"
"""Unit of ECAL in files of cloudgan, as in the public ones."""
DECLARED = "cloudgan_ecal_per_gev"
"""Attribute of ECAL in files of cloudgan: showers of a poor generator would mislead the detection."""


class Units(NamedTuple):
    """Numbers that represent one GeV in ECAL and energy, and a sentence that states how they were determined."""

    ecal_per_gev: float
    energy_per_gev: float
    decided: str


def decide_units(
    ratio: float,
    energies: NDArray[Any],
    where: str,
    *,
    ecal: str = "",
    energy: str = "",
    asked: str = "",
    stated_by: str = "declared in the file",
    is_authors: bool = False,
    has_deposits: bool,
) -> Units:
    """Returns the units of a file whose median of sum(ECAL)/energy is `ratio`.

    Args:
        ratio: In the units of the file.
        energies: All primary energies, in the unit of the file.
        where: The file, for messages.
        ecal: Unit that the file states for ECAL; "": none.
        energy: Unit that the file states for the energy; "": none.
        asked: Value of `--unit`; "": not given.
        stated_by: What states `ecal`.
        is_authors: The layout is that of the 3DGAN authors, whose energies are in GeV.
        has_deposits: The layout defines that ECAL holds deposits, which are not calibrated.
    """
    if ratio == 0:
        raise DataError(
            f"{where}: the unit of ECAL is unknown: the median of sum(ECAL)/energy is 0, no shower that was"
            " looked at has energy in any cell. Simulate the showers again."
        )
    given, detected = ecal or asked, get_args(EcalUnit)
    low, high = float(energies.min()), float(energies.max())
    seen = f"the median of sum(ECAL)/energy is {ratio:.4g}, energies are {low:.4g} to {high:.4g}"
    if ecal and asked not in {"", ecal}:
        raise DataError(
            f"{where}: its attribute unit of ECAL is {ecal}, and --unit={asked} was given;"
            " omit --unit, or correct the attribute"
        )

    def is_usual(name: str) -> bool:
        least, most = (limit * KNOWN_UNITS[name] for limit in _USUAL_ENERGY_GEV)
        return least <= low and high <= most

    other = next((name for name in ("GeV", "MeV") if is_usual(name)), energy)
    if energy and not asked and other != energy and not is_usual(energy):
        raise DataError(
            f"{where}: the unit of energy is stated as {energy}, but the energies are {low:.4g} to {high:.4g}, as"
            f" in {other}. Correct the attribute unit of energy, or confirm it with --unit, the unit of ECAL"
        )
    is_gev = high <= _USUAL_ENERGY_GEV[1] and (is_authors or low < 1000 * _USUAL_ENERGY_GEV[0])
    least, most = _STATED_RESPONSE
    shares = (SAMPLING_FRACTION,) if has_deposits else (SAMPLING_FRACTION, _CALIBRATED)
    ranges = [(share / TOLERANCE, share * TOLERANCE) for share in shares]
    fits = [
        (one, other, response)
        for one in ([given] if given else detected)
        for other in ([energy] if energy else ["GeV"] if is_gev else ["GeV", "MeV"])
        for response in (ratio / KNOWN_UNITS[one] * KNOWN_UNITS[other],)
        if (energy or other == "GeV" or "*" not in one)  # the authors' factors are of GeV
        and any(a <= response <= b for a, b in ([(least, most)] if given else ranges))
    ]
    if not fits and given:
        raise DataError(
            f"{where}: the unit of ECAL is stated as {given}"
            f"{f' and that of energy as {energy}' if energy else ''}, but {seen}: the cells"
            f" would not hold {least:.1%} to {most:.0%} of the primary energy."
            " Correct the attribute unit of ECAL or energy, or --unit"
        )
    if len(fits) != 1:
        known = ", ".join(f"{KNOWN_UNITS[u] * SAMPLING_FRACTION:g} ({u})" for u in detected)
        meant = " or ".join(
            f"{one} with energy in {other} ({response:.3g} of it in the cells)"
            for one, other, response in fits
        )
        choice = dict.fromkeys(one for one, *_ in fits) or detected
        raise DataError(
            f"{where}: the unit of ECAL is {'ambiguous' if fits else 'unknown'}: {seen}; "
            + (f"it may be {meant}" if fits else f"known are {known}")
            + f". Give --unit, the unit of ECAL: {', '.join(choice)}; or set the attributes unit of ECAL and energy"
        )
    one, other, response = fits[0]
    per_gev, energy_per_gev = KNOWN_UNITS[one], KNOWN_UNITS[other]
    how = f"{stated_by}; " if ecal else "given by --unit; " if asked else ""
    decided = f"ECAL is {one}: {how}the median of sum(ECAL)/energy is {ratio:.3g}."
    if other != "GeV":
        decided += f" Energies are in {other}."
    if response > _CALIBRATED / TOLERANCE:
        decided += " The cells add up to the primary energy: they are calibrated."
    return Units(per_gev, energy_per_gev, decided)


def unit_attribute(attributes: Mapping[str, Any], where: str) -> str:
    """Returns the unit that the attributes `unit` or `units` of a dataset state; "": none.

    A text such as ``GeV*50 (public convention)`` states its first word.
    """
    names = {name.lower(): name for name in KNOWN_UNITS}
    found = set()
    for key in ("unit", "units"):
        if key in attributes:
            value = next(iter(np.asarray(attributes[key]).reshape(-1)), "")
            text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
            word = re.split(r"[\s(,;\]]", text.strip(" [("), maxsplit=1)[0]
            if word.lower() not in names:
                raise DataError(
                    f"{where}: its attribute {key} is {show(text)}; valid: {', '.join(KNOWN_UNITS)}"
                )
            found.add(names[word.lower()])
    if len(found) > 1:
        raise DataError(f"{where}: its attributes unit and units differ; correct one of them")
    return found.pop() if found else ""


def rms_along_axes(ecal: NDArray[Any]) -> list[float]:
    """Returns the rms of the median shower along x, y and z, in cells; 0 without energy."""
    found = []
    for axis in (1, 2, 3):
        profile = ecal.sum(tuple({1, 2, 3} - {axis}), dtype=np.float64)
        profile = profile[profile.sum(1) > 0]
        place = np.arange(profile.shape[1])
        mean = profile @ place / profile.sum(1)
        second = profile @ place**2 / profile.sum(1) - mean**2
        rms = np.sqrt(np.median(np.maximum(second, 0))) if len(profile) else 0.0
        found.append(float(rms))
    return found


def check_axes(ecal: NDArray[Any], where: str) -> None:
    """Checks that the last axis of showers is the depth: a shower is longer than it is wide.

    Compares the rms along each axis, in cells and as a share of the cells.
    """
    rms = rms_along_axes(ecal)
    for axis in (0, 1):
        factor = max(1.0, ecal.shape[1 + axis] / ecal.shape[3])
        if rms[axis] > _WIDER * factor * rms[2] > 0:
            raise DataError(
                f"{where}: ECAL is {list(ecal.shape[1:])} per shower, and showers are longest along axis"
                f" {axis + 1} (rms {rms[axis]:.3g} cells, along the last axis {rms[2]:.3g}); expected"
                f" [N, X, Y, Z] with the depth last: np.moveaxis(ECAL, {axis + 1}, 3)"
            )


def declared_unit(declared: Any, ratio: float, where: str, *, is_generated: bool) -> Units:
    """Returns the unit that an attribute of the file declares, if the numbers agree with it.

    Args:
        declared: Value of the attribute: number that represents one GeV.
        ratio: Median of sum(ECAL)/energy in the file.
        where: The file, for messages.
        is_generated: The showers are of a generator, which may be poor: only a ratio beyond
            `MOST_DEVIATION` is refused. Otherwise the ratio of another known unit is refused too.
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
    return Units(
        per_gev,
        1.0,
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

    def is_empty(self, info: SourceInfo) -> NDArray[np.bool_]:
        """Whether each shower is empty: see `EMPTY_SHARE`."""
        deposit = self.ecal.sum((1, 2, 3), dtype=np.float64) / info.ecal_per_gev
        return is_empty(deposit, energies_gev(self.columns, info.energy_per_gev))

    def to_showers(self, info: SourceInfo) -> Showers:
        """Converts to GeV; measures the angle where the file has no mtheta."""
        ecal = in_gev(self.ecal, info.ecal_per_gev)
        energy, theta, mtheta = primaries(self.columns, info)
        return Showers(ecal, energy, theta, measured_angle(ecal) if mtheta is None else mtheta)


@dataclass(frozen=True)
class RawFile:
    """A file of showers that was checked when opened, and is read in blocks.

    Attributes:
        raw_blocks: Yields all showers in order, bit for bit, at most so many at a time.
        notes: Sentences about what else was decided, or is missing.
        origin: What it is; by default its layout.
    """

    path: Path
    info: SourceInfo
    raw_blocks: Callable[[int], Iterator[RawShowers]]
    notes: tuple[str, ...] = ()
    origin: str = ""

    def describe(self) -> tuple[str, ...]:
        """Returns layout, unit and notes, as sentences."""
        info, cells = self.info, "x".join(map(str, self.info.shape))
        what = self.origin or info.layout
        headline = f"{self.path}: {counted(info.records, 'shower')} of {cells} cells, {what}."
        return (headline, *info.describe(), *self.notes)

    def non_empty(self, size: int, omitted: list[int]) -> Iterator[RawShowers]:
        """Yields the showers that are not empty; appends the numbers of the others to `omitted`."""
        first = kept = 0
        for block in self.raw_blocks(size):
            empty = block.is_empty(self.info)
            omitted += (first + np.flatnonzero(empty)).tolist()
            first += len(block)
            kept += int((~empty).sum())
            if not empty.any():
                yield block
            elif not empty.all():
                columns = {name: column[~empty] for name, column in block.columns.items()}
                yield RawShowers(block.ecal[~empty], columns)
        if first and not kept:
            empty_said = describe_empty(first, first)
            raise DataError(f"{self.info.name}: {empty_said} Simulate them again.")


def in_gev(values: NDArray[Any], per_gev: float) -> NDArray[np.float32]:
    """Divides by the unit, in the dtype of the file, and returns float32."""
    return np.asarray(values / values.dtype.type(per_gev), dtype=np.float32)


def is_empty(deposit: NDArray[Any], energy: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether showers are empty: see `EMPTY_SHARE`."""
    return np.asarray(deposit <= EMPTY_SHARE * energy)


def energies_gev(columns: Mapping[str, NDArray[Any]], per_gev: float = 1.0) -> NDArray[np.float32]:
    """Returns the primary energies; the fixed-angle files hold them in target[..., 1]."""
    if "energy" in columns:
        found = _per_shower(columns["energy"])
    else:
        target = columns["target"]
        found = _per_shower(target.reshape(len(target), -1)[:, 1])
    return found if per_gev == 1 else found / np.float32(per_gev)


def primaries(
    columns: Columns, info: SourceInfo
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None, NDArray[np.float32] | None]:
    """Returns energy (GeV), theta and mtheta (rad); None: unknown, and not measured yet.

    Files of a fixed angle have that theta. Where images do not tilt with the angle, theta stands for mtheta.
    """
    energy, layout = energies_gev(columns, info.energy_per_gev), info.dataset
    theta, mtheta = (_per_shower(columns[c]) if c in columns else None for c in ("theta", "mtheta"))
    if theta is None and (layout or "energy" not in columns):
        degrees = layout.theta_deg if layout else 90.0
        theta = np.full(len(energy), np.deg2rad(degrees), np.float32)
    return energy, theta, theta if layout and not layout.tilts else mtheta


def _per_shower(column: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # infinite, which the checks refuse
        return np.asarray(column, dtype=np.float32).reshape(-1)


def check_ecal(ecal: NDArray[Any], where: str, first: int) -> None:
    """Checks that cells are finite, not negative and at most `MAX_CELL`; row 0 is event `first`."""
    if ecal.size == 0 or (ecal.min() >= 0 and float(ecal.max()) <= MAX_CELL):  # NaN fails both
        return
    flat = ecal.reshape(len(ecal), -1)
    row = int(np.argmin((flat.min(1) >= 0) & (flat.max(1).astype(np.float64) <= MAX_CELL)))
    cells = flat[row]
    if nan := int(np.isnan(cells).sum()):
        has = counted(nan, "NaN cell")
    elif infinite := int(np.isinf(cells).sum()):
        has = counted(infinite, "infinite cell")
    else:
        kind = "negative" if cells.min() < 0 else "too large"
        has = f"{kind} cells (from {cells.min():g} to {cells.max():g})"
    raise DataError(
        f"{where}, event {first + row}: ECAL has {has};"
        f" energies are finite, not negative and at most {MAX_CELL:g}. Remove the event or simulate it"
        " again."
    )


def check_columns(
    columns: Mapping[str, NDArray[Any]], where: str, first: int = 0, energy_per_gev: float = 1.0
) -> None:
    """Checks that energies are in `ENERGY_RANGE_GEV` and angles at most `MAX_ANGLE_RAD`."""
    energy, (least, most) = energies_gev(columns, energy_per_gev), ENERGY_RANGE_GEV
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
            is_degrees = MAX_ANGLE_RAD < float(np.nanmedian(np.abs(angle))) <= _FULL_CIRCLE_DEG
            remedy = f"; if it is in degrees, write np.radians({name})" if is_degrees else ""
            raise DataError(
                f"{where}, event {first + row}: {name} is {angle[row]:g}, not an angle in rad{remedy}"
            )


def check_one_unit(
    ecal_sums: NDArray[Any],
    energy: NDArray[Any],
    where: str,
    events: NDArray[Any] | None = None,
) -> None:
    """Checks that all showers of a file are in the same units, of which the median would not tell.

    Two groups are two units if sum(ECAL)/energy differs by the factor between units, and no shower is between them.

    Args:
        ecal_sums: Energy in all cells of a shower, in the unit of the file.
        energy: Of its primary, in the unit of the file.
        where: The file, for messages.
        events: Numbers of the showers in the file, if they are known.
    """
    known = np.flatnonzero((ecal_sums > 0) & np.isfinite(ecal_sums) & (energy > 0))
    least = max(2, int(np.ceil(_GROUP_SHARE * len(known))))
    if len(known) < 2 * least:
        return
    ratio = np.asarray(ecal_sums, np.float64)[known] / np.asarray(energy, np.float64)[known]
    order = np.argsort(ratio)
    gaps = ratio[order][least : -least + 1] / ratio[order][least - 1 : -least]
    cut = least + int(gaps.argmax())
    groups = order[:cut], order[cut:]
    low, high = (float(np.median(ratio[rows])) for rows in groups)
    factor = high / low
    unit = min(_MIXED_FACTORS, key=lambda one: abs(np.log(factor / one)))
    if gaps.max() < _APART or not 1 / _SAME_FACTOR < factor / unit < _SAME_FACTOR:
        return
    first, second = (
        f"{np.median(ratio[rows]):.3g} at energies of {energy[known[rows]].min():.4g} to {energy[known[rows]].max():.4g}"
        + (f", such as event {events[known[rows]].min()}" if events is not None else "")
        for rows in groups
    )
    raise DataError(
        f"{where} mixes units: sum(ECAL)/energy is {first}; and {second}: a factor of {unit:g}. Write ECAL and"
        " energy of all showers in the same units"
    )


def median_ratio(ecal_sums: NDArray[Any], energy_gev: NDArray[Any]) -> float:
    """Returns the median of sum(ECAL)/energy, which decides the unit; 0: all showers are without energy."""
    with np.errstate(all="ignore"):  # infinite or NaN, which fits no unit
        ratios = np.asarray(ecal_sums, np.float64) / np.asarray(energy_gev, np.float64)
        ratios = ratios[ratios != 0]
        return float(np.median(ratios)) if len(ratios) else 0.0
