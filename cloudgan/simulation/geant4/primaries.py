"""The electrons that Geant4 is given: each a function of the seed, its number and the ranges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from cloudgan.core.errors import ConfigError
from cloudgan.data.showers import CELL_MM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

ENERGIES_GEV = (1.0, 1000.0)
"""Below, most showers leave nothing behind the first plates; above, one takes longer than 10 s."""
ANGLES_DEG = (45.0, 135.0)
"""Beyond, showers leave the simulated planes sideways."""
CUTS_MM = (0.01, 10.0)
DEFAULT_CUT_MM = 0.7
STREAM_PRIMARIES = 64
"""Primaries that share one random stream, numbered from the start."""
_SPAWN_KEY = 4
"""The parametric source's streams have keys of one number; ours begin with this one."""


@dataclass(frozen=True)
class Asked:
    """What showers are asked for; with its number it decides a shower.

    Attributes:
        seed: Not negative.
        energy_gev: Range of the primary energy, flat.
        theta_deg: Range of the polar angle, flat.
        cut_mm: Range cut: what would not travel that far is not made a particle of its own.
    """

    seed: int
    energy_gev: tuple[float, float]
    theta_deg: tuple[float, float]
    cut_mm: float = DEFAULT_CUT_MM

    def __post_init__(self) -> None:
        """Refuses what has no sense.

        Raises:
            ConfigError: Says what is out of bounds.
        """
        if self.seed < 0:
            raise ConfigError(f"--seed={self.seed}: a seed is 0 or more")
        check_energy(self.energy_gev)
        _check_range("theta", self.theta_deg, ANGLES_DEG, "degrees")
        _check_range("cut_mm", (self.cut_mm, self.cut_mm), CUTS_MM, "mm")

    def as_json(self) -> dict[str, Any]:
        """By name."""
        return {
            "seed": self.seed,
            "energy_gev": list(self.energy_gev),
            "theta_deg": list(self.theta_deg),
            "cut_mm": self.cut_mm,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Reads what `as_json` gave."""
        (least, most), (low, high) = found["energy_gev"], found["theta_deg"]
        return cls(found["seed"], (least, most), (low, high), found["cut_mm"])


class Primary(NamedTuple):
    """One electron at the face of the detector.

    Attributes:
        number: Of its shower.
        energy_gev: Kinetic energy, a float32 number.
        theta_rad: Polar angle, a float32 number; pi/2 is normal to the face.
        x_mm: Where it enters, from the middle of the central cell.
        y_mm: The same along the axis in which it is tilted.
        seeds: Of Geant4's random numbers, four of 32 bits, none 0.
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
def stream(asked: Asked, index: int) -> Stream:
    """Returns the primaries from number index * STREAM_PRIMARIES on."""
    key = np.random.SeedSequence(asked.seed, spawn_key=(_SPAWN_KEY, index))
    random = np.random.default_rng(key)
    energy = random.uniform(*asked.energy_gev, STREAM_PRIMARIES)
    theta = np.deg2rad(random.uniform(*asked.theta_deg, STREAM_PRIMARIES))
    x_mm, y_mm = random.uniform(-CELL_MM / 2, CELL_MM / 2, (2, STREAM_PRIMARIES))
    seeds = random.integers(1, 2**32, (STREAM_PRIMARIES, 4))
    return Stream(energy.astype(np.float32), theta.astype(np.float32), x_mm, y_mm, seeds)


def primary(asked: Asked, number: int) -> Primary:
    """Returns the electron of shower `number`."""
    index, row = divmod(number, STREAM_PRIMARIES)
    energy, theta, x_mm, y_mm, seeds = (column[row].tolist() for column in stream(asked, index))
    return Primary(number, energy, theta, x_mm, y_mm, tuple(seeds))


def check_energy(energy_gev: tuple[float, float]) -> None:
    """Refuses a range of energies that Geant4 is not asked for here.

    Raises:
        ConfigError: It is too wide, or runs backwards.
    """
    _check_range("energy", energy_gev, ENERGIES_GEV, "GeV")


def _check_range(
    flag: str, asked: tuple[float, float], allowed: tuple[float, float], unit: str
) -> None:
    low, high = asked
    if not allowed[0] <= low <= high <= allowed[1]:
        given = f"{low:g}" if low == high else f"{low:g}:{high:g}"
        raise ConfigError(
            f"--{flag}={given}: Geant4 simulates {allowed[0]:g} to {allowed[1]:g} {unit}"
            " here, the lower one first"
        )
