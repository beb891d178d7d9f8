"""What is measured on showers before two samples are compared; N showers of X x Y x Z cells."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from cloudgan.core.errors import DataError
from cloudgan.data.showers import CELL_MM, measured_angle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cloudgan.data.showers import Showers

    Floats = NDArray[np.float64]

NOISE_GEV = 2e-6
"""Cells below 2 keV are set to zero first: a network's output is small where it should be 0."""

HIT_GEV = 3e-4
"""A cell above 0.3 MeV is a hit, about one crossing particle; the cut of the 3DGAN authors."""

CORE_CELLS = 4
"""The lateral tails begin beyond this many columns from the middle one, 23 mm."""

SPECTRUM_EDGES_GEV = np.logspace(-5.5, 0.5, 49)
"""Bins of the spectrum of cell energies, eight per decade; the unit is GeV."""

_CHUNK = 100  # showers at a time, so that no second copy of a sample is made


@dataclass(frozen=True)
class Observables:
    """Measured per shower.

    Attributes:
        energy_gev: Energy of the primary, (N,).
        requested_rad: Angle the shower was asked to have: the `mtheta_rad` it came with, (N,).
        sum_gev: Energy in all cells, Esum, (N,).
        profile_x_gev: Energy per column of cells along x, (N, X).
        profile_y_gev: The same along y, the direction in which the axis tilts, (N, Y).
        profile_z_gev: Energy per layer, (N, Z).
        hits: Cells above 0.3 MeV, (N,).
        angle_rad: Angle measured on the image, (N,); 0 where it is empty.
        rms_x_mm: Root mean square distance from the shower's own barycentre along x, (N,); 0 where
            the image is empty.
        rms_y_mm: The same along y, tilt included.
        tail_gev: Energy outside the central 9 x 9 columns, (N,).
        spectrum: Number of cells per bin of `SPECTRUM_EDGES_GEV`, (N, 48).
    """

    energy_gev: Floats
    requested_rad: Floats
    sum_gev: Floats
    profile_x_gev: Floats
    profile_y_gev: Floats
    profile_z_gev: Floats
    hits: Floats
    angle_rad: Floats
    rms_x_mm: Floats
    rms_y_mm: Floats
    tail_gev: Floats
    spectrum: Floats

    def __len__(self) -> int:
        return len(self.energy_gev)

    def __getitem__(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Observables:
        """Returns the showers of `rows`."""
        return Observables(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def response(self) -> Floats:
        """Esum/E of each shower, (N,)."""
        return self.sum_gev / self.energy_gev

    @property
    def last_layer_share(self) -> Floats:
        """Share of the energy in the last layer, the sign of leakage, (N,); 0 where empty."""
        return _ratio(self.profile_z_gev[:, -1], self.sum_gev)


def observe(showers: Showers, name: str = "showers") -> Observables:
    """Measures `showers`; `name` stands for them in errors.

    Raises:
        DataError: No shower, a value that is no number, a cell or a primary energy below zero.
    """
    if not len(showers):
        raise DataError(f"{name}: no shower to look at; give at least one")
    energy = showers.energy_gev.astype(np.float64)
    if not (np.isfinite(energy).all() and (energy > 0).all()):
        row = int(np.argmin(np.isfinite(energy) & (energy > 0)))
        raise DataError(
            f"{name}: shower {row} has a primary energy of {energy[row]} GeV; expected > 0"
        )
    parts = [
        _observe(showers.ecal_gev[first : first + _CHUNK], first, name)
        for first in range(0, len(showers), _CHUNK)
    ]
    measured = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Observables(energy, showers.mtheta_rad.astype(np.float64), *measured)


def _observe(ecal: NDArray[np.float32], first: int, name: str) -> tuple[Floats, ...]:
    good = np.isfinite(ecal).all((1, 2, 3)) & (ecal.min((1, 2, 3)) >= -NOISE_GEV)
    if not good.all():
        row = int(np.argmin(good))
        raise DataError(
            f"{name}: shower {first + row} holds a cell of"
            f" {ecal[row].min()} GeV (or one that is no number); expected 0 or more"
        )
    ecal = np.where(ecal < NOISE_GEV, np.float32(0), ecal)
    along_x, along_y = ecal.sum((2, 3), dtype=np.float64), ecal.sum((1, 3), dtype=np.float64)
    layers = ecal.sum((1, 2), dtype=np.float64)
    total = layers.sum(1)
    core = _core(ecal).sum((1, 2, 3), dtype=np.float64)
    return (
        total,
        along_x,
        along_y,
        layers,
        (ecal > HIT_GEV).sum((1, 2, 3)).astype(np.float64),
        measured_angle(ecal).astype(np.float64),
        _rms_mm(along_x),
        _rms_mm(along_y),
        np.maximum(total - core, 0.0),
        _spectrum(ecal),
    )


def _core(ecal: NDArray[np.float32]) -> NDArray[np.float32]:
    x, y = ecal.shape[1] // 2, ecal.shape[2] // 2
    low_x, low_y = max(0, x - CORE_CELLS), max(0, y - CORE_CELLS)
    return ecal[:, low_x : x + CORE_CELLS + 1, low_y : y + CORE_CELLS + 1]


def _rms_mm(profile: Floats) -> Floats:
    place = np.arange(profile.shape[1]) * CELL_MM
    total = profile.sum(1)
    mean = _ratio(profile @ place, total)
    return np.sqrt(np.maximum(_ratio(profile @ place**2, total) - mean**2, 0.0))


def _spectrum(ecal: NDArray[np.float32]) -> Floats:
    flat = ecal.reshape(len(ecal), -1)
    shower, cell = np.nonzero(flat)
    number = np.searchsorted(SPECTRUM_EDGES_GEV, flat[shower, cell], side="right") - 1
    bins = len(SPECTRUM_EDGES_GEV) - 1
    inside = (number >= 0) & (number < bins)
    counts = np.bincount(shower[inside] * bins + number[inside], minlength=len(ecal) * bins)
    return counts.reshape(len(ecal), bins).astype(np.float64)


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
