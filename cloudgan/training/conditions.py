"""What is asked of a generated shower: energy and angle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cloudgan.data.showers import Showers
from cloudgan.schema.presets import Preset

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Conditions:
    """Requested conditions of showers, each (N,).

    Attributes:
        energy_gev: Of the primary.
        angle_rad: Angle that conditions the generator, see `Preset.angle`.
        theta_rad: Polar angle of the primary, where it is known.
    """

    energy_gev: Floats
    angle_rad: Floats
    theta_rad: Floats | None = None

    def __len__(self) -> int:
        return len(self.energy_gev)

    def take(self, rows: NDArray[np.intp]) -> Conditions:
        """Returns the conditions of `rows`."""
        theta = self.theta_rad
        return Conditions(
            self.energy_gev[rows], self.angle_rad[rows], None if theta is None else theta[rows]
        )

    @classmethod
    def of(cls, showers: Showers, preset: Preset) -> Conditions:
        """Returns the conditions of Monte Carlo showers, whose images have the network's cells."""
        primary = showers.theta_rad if preset.angle == "primary" else None
        angle = showers.mtheta_rad if primary is None else primary
        return cls(showers.energy_gev, angle, showers.theta_rad)
