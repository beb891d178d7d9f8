"""Events of the Geant4 simulation: requested primaries and image windows.

A primary is a function of the seed, the event number and the ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import ConfigError
from cloudgan.data.showers import CELL_MM
from cloudgan.schema.simulation import PARTICLE_ATTRIBUTE, Particle

ENERGIES_GEV = (1.0, 1000.0)
"""Below, most showers leave no energy behind the first plates; above, one takes longer than 10 s."""
ANGLES_DEG = (45.0, 135.0)
"""Beyond, showers leave the simulated planes sideways."""
CUTS_MM = (0.01, 10.0)
DEFAULT_CUT_MM = 0.7
STREAM_PRIMARIES = 64
"""Primaries that share one random stream, numbered from the start."""
_SPAWN_KEY = 4
"""First element of the spawn keys; those of the parametric source have one element."""


@dataclass(frozen=True)
class PrimaryRequest:
    """Request for primaries; with an event number it determines a shower.

    Attributes:
        seed: Not negative.
        energy_gev: Range of the primary energy, flat.
        theta_deg: Range of the polar angle, flat.
        cut_mm: Range cut: secondaries with a shorter range are not tracked.
        particle: Primary particle. Energies, angles and seeds are the same for all.
    """

    seed: int
    energy_gev: tuple[float, float]
    theta_deg: tuple[float, float]
    cut_mm: float = DEFAULT_CUT_MM
    particle: Particle = "electron"

    def __post_init__(self) -> None:
        """Validates the values."""
        if self.seed < 0:
            raise ConfigError(f"--seed={self.seed} is negative; give 0 or more")
        check_energy(self.energy_gev)
        _check_range("theta", self.theta_deg, ANGLES_DEG, "degrees")
        _check_range("cut-mm", (self.cut_mm, self.cut_mm), CUTS_MM, "mm")

    def as_json(self) -> dict[str, Any]:
        """Returns the values by name."""
        return {
            "seed": self.seed,
            "energy_gev": list(self.energy_gev),
            "theta_deg": list(self.theta_deg),
            "cut_mm": self.cut_mm,
            PARTICLE_ATTRIBUTE: self.particle,
        }


class Primary(NamedTuple):
    """One primary particle at the face of the detector.

    Attributes:
        number: Event number.
        energy_gev: Kinetic energy, a float32 number.
        theta_rad: Polar angle, a float32 number; pi/2 is normal to the face.
        x_mm: Entry position, from the centre of the central cell.
        y_mm: Entry position along the axis in which it is tilted.
        seeds: Seeds of Geant4's random numbers, four of 32 bits, none 0.
    """

    number: int
    energy_gev: float
    theta_rad: float
    x_mm: float
    y_mm: float
    seeds: tuple[int, int, int, int]


class Stream(NamedTuple):
    """Neighbouring primaries, (STREAM_PRIMARIES,) each; seeds (STREAM_PRIMARIES, 4)."""

    energy_gev: NDArray[np.float32]
    theta_rad: NDArray[np.float32]
    x_mm: NDArray[np.float64]
    y_mm: NDArray[np.float64]
    seeds: NDArray[np.int64]


@lru_cache(maxsize=4)
def stream(request: PrimaryRequest, index: int) -> Stream:
    """Returns the primaries from event number index * STREAM_PRIMARIES."""
    key = np.random.SeedSequence(request.seed, spawn_key=(_SPAWN_KEY, index))
    random = np.random.default_rng(key)
    energy = random.uniform(*request.energy_gev, STREAM_PRIMARIES)
    theta = np.deg2rad(random.uniform(*request.theta_deg, STREAM_PRIMARIES))
    x_mm, y_mm = random.uniform(-CELL_MM / 2, CELL_MM / 2, (2, STREAM_PRIMARIES))
    seeds = random.integers(1, 2**32, (STREAM_PRIMARIES, 4))
    return Stream(energy.astype(np.float32), theta.astype(np.float32), x_mm, y_mm, seeds)


def primary(request: PrimaryRequest, number: int) -> Primary:
    """Returns the primary of event `number`."""
    index, row = divmod(number, STREAM_PRIMARIES)
    energy, theta, x_mm, y_mm, seeds = (column[row].tolist() for column in stream(request, index))
    return Primary(number, energy, theta, x_mm, y_mm, tuple(seeds))


def check_energy(energy_gev: tuple[float, float]) -> None:
    """Validates a range of energies."""
    _check_range("energy", energy_gev, ENERGIES_GEV, "GeV")


def _check_range(
    flag: str, requested: tuple[float, float], allowed: tuple[float, float], unit: str
) -> None:
    low, high = requested
    if not allowed[0] <= low <= high <= allowed[1]:
        given = f"{low:g}" if low == high else f"{low:g}:{high:g}"
        raise ConfigError(
            f"--{flag.replace('_', '-')}={given}: valid range: {allowed[0]:g} to {allowed[1]:g} {unit},"
            " lower bound first"
        )


class EventCells(NamedTuple):
    """Non-empty cells of an image.

    Attributes:
        flat_index: Flat index of each cell, C order of (x, y, layer), ascending, (K,).
        energy_gev: float32 (K,).
    """

    flat_index: NDArray[np.int64]
    energy_gev: NDArray[np.float32]


def crop(cells: EventCells, shape: tuple[int, int, int], window: tuple[int, int]) -> EventCells:
    """Returns the cells of the window centred on the barycentre, within the planes.

    Args:
        cells: Cells of the planes.
        shape: Cells of the planes along x and y, and layers.
        window: Cells of the image along x and y; odd, so that it has a centre.
    """
    x, y, layer = np.unravel_index(cells.flat_index, shape)
    kept = np.ones(len(cells.flat_index), bool)
    moved = []
    for number, planes, size in zip((x, y), shape[:2], window, strict=True):
        first = _first(number, cells.energy_gev, planes, size)
        kept &= (number >= first) & (number < first + size)
        moved.append(number - first)
    inside = tuple(part[kept] for part in (*moved, layer))
    return EventCells(
        np.ravel_multi_index(inside, (*window, shape[2])).astype(np.int64), cells.energy_gev[kept]
    )


def _first(
    number: NDArray[np.intp], energy_gev: NDArray[np.float32], planes: int, size: int
) -> int:
    """First index of the window; centred if there is no energy."""
    total = energy_gev.sum(dtype=np.float64)
    centre = planes // 2
    if total > 0:
        centre = int(np.floor(energy_gev @ (number + 0.5) / total))
    return min(max(centre - size // 2, 0), planes - size)
