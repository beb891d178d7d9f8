"""Showers as a file holds them: its own unit, its own columns, not one bit changed.

Every reader yields these; `Showers` in GeV are made from them in one place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cloudgan.core.errors import DataError
from cloudgan.data.showers import Showers, measured_angle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from cloudgan.data.manifest import SourceInfo

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
    """A file of showers that can be read in blocks, from the first to the last."""

    @property
    def path(self) -> Path:
        """The file, or the folder of shards."""

    @property
    def info(self) -> SourceInfo:
        """What is known about the file."""

    def describe(self) -> tuple[str, ...]:
        """Returns what the user should know: layout, unit and how they were decided."""

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
    return np.asarray(column, dtype=np.float32).reshape(-1)


def check_ecal(ecal: NDArray[Any], where: str, first: int) -> None:
    """Refuses cells that no calorimeter can hold; `first` is the event number of row 0.

    Raises:
        DataError: NaN, infinite or negative cells; names the event.
    """
    if ecal.size == 0 or (ecal.min() >= 0 and ecal.max() < np.inf):  # NaN fails both
        return
    row = int(np.argmin(((ecal >= 0) & (ecal < np.inf)).reshape(len(ecal), -1).all(1)))
    cells = ecal[row]
    kind = "NaN" if np.isnan(cells).any() else "infinite" if np.isinf(cells).any() else "negative"
    raise DataError(
        f"{where}, event {first + row}: ECAL has {kind} cells; energies are finite and not"
        " negative. Remove the event or simulate it again."
    )


def check_columns(columns: Mapping[str, NDArray[Any]], where: str, first: int = 0) -> None:
    """Refuses energies that are not positive and angles that are not finite.

    Raises:
        DataError: Names the event.
    """
    energy = energies_gev(columns)
    row = int(np.argmin(good := (energy > 0) & np.isfinite(energy)))
    if not good[row]:
        raise DataError(
            f"{where}, event {first + row}: the primary energy is {energy[row]:g} GeV;"
            " it must be positive and finite"
        )
    for name in ("theta", "mtheta"):
        angle = _per_shower(columns[name]) if name in columns else np.zeros(1, np.float32)
        row = int(np.argmin(good := np.isfinite(angle)))
        if not good[row]:
            raise DataError(f"{where}, event {first + row}: {name} is {angle[row]}, not an angle")


def median_ratio(ecal_sums: NDArray[Any], energy_gev: NDArray[Any]) -> float:
    """Returns the median of sum(ECAL)/energy, which decides the unit."""
    return float(np.median(np.asarray(ecal_sums, np.float64) / np.asarray(energy_gev, np.float64)))
