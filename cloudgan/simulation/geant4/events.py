"""Events of the Geant4 simulation: requested primaries and image windows.

A primary is a function of the seed, the event number and the ranges.
"""

from __future__ import annotations

import itertools
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

    Energy and angle are flat within their ranges, and the same for all particles, as are the seeds. Secondaries with
    a shorter range than the cut are not tracked.
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
        ranges = {"energy_gev": list(self.energy_gev), "theta_deg": list(self.theta_deg)}
        return (
            {"seed": self.seed}
            | ranges
            | {"cut_mm": self.cut_mm, PARTICLE_ATTRIBUTE: self.particle}
        )


class Primary(NamedTuple):
    """One primary particle at the face of the detector.

    Kinetic energy and polar angle are float32 numbers; pi/2 is normal to the face. Entry is measured from the centre of
    the central cell, along y in the direction in which it is tilted. Seeds of Geant4 have 32 bits, and none is 0.
    """

    number: int
    energy_gev: float
    theta_rad: float
    x_mm: float
    y_mm: float
    seeds: tuple[int, int, int, int]


@lru_cache(maxsize=4)
def _stream(request: PrimaryRequest, index: int) -> list[Primary]:
    """Returns the primaries from event number index * STREAM_PRIMARIES."""
    key = np.random.SeedSequence(request.seed, spawn_key=(_SPAWN_KEY, index))
    random = np.random.default_rng(key)
    energy = random.uniform(*request.energy_gev, STREAM_PRIMARIES).astype(np.float32)
    theta = np.deg2rad(random.uniform(*request.theta_deg, STREAM_PRIMARIES)).astype(np.float32)
    x_mm, y_mm = random.uniform(-CELL_MM / 2, CELL_MM / 2, (2, STREAM_PRIMARIES))
    seeds = map(tuple, random.integers(1, 2**32, (STREAM_PRIMARIES, 4)).tolist())
    columns = (one.tolist() for one in (energy, theta, x_mm, y_mm))
    numbers = itertools.count(index * STREAM_PRIMARIES)
    return [Primary(*row) for row in zip(numbers, *columns, seeds, strict=False)]


def primary(request: PrimaryRequest, number: int) -> Primary:
    """Returns the primary of event `number`."""
    return _stream(request, number // STREAM_PRIMARIES)[number % STREAM_PRIMARIES]


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
    """Non-empty cells of an image: flat index in C order of (x, y, layer), ascending, (K,); and energy, (K,)."""

    flat_index: NDArray[np.int64]
    energy_gev: NDArray[np.float32]


def crop(cells: EventCells, shape: tuple[int, int, int], window: tuple[int, int]) -> EventCells:
    """Returns the cells of the window centred on the barycentre, within planes of `shape`: (x, y, layers).

    The window is that of the image along x and y, in odd numbers of cells, so that it has a centre.
    """
    x, y, layer = np.unravel_index(cells.flat_index, shape)
    energy = cells.energy_gev
    total = energy.sum(dtype=np.float64)
    kept, moved = np.ones(len(energy), bool), []
    for number, planes, size in zip((x, y), shape[:2], window, strict=True):
        # Without energy the window is centred.
        centre = int(np.floor(energy @ (number + 0.5) / total)) if total > 0 else planes // 2
        first = min(max(centre - size // 2, 0), planes - size)
        kept &= (number >= first) & (number < first + size)
        moved.append(number - first)
    inside = tuple(part[kept] for part in (*moved, layer))
    flat = np.ravel_multi_index(inside, (*window, shape[2])).astype(np.int64)
    return EventCells(flat, energy[kept])
