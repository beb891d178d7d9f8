"""Preprocessing: the central cells of a shower, scaled and raised to a power.

N showers; images (N, X, Y, Z), energies (N, 1) in units of 100 GeV, angles (N, 1) in rad, sums (N, 1)
in scaled cells before the power.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from cloudgan.core.errors import DataError
from cloudgan.data.showers import measured_angle
from cloudgan.data.sources.raw_showers import energies_gev, thetas_rad
from cloudgan.data.sparse_showers import SparseCells, join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from cloudgan.data.shards.reader import SparseShowers

    Floats = NDArray[np.float32]

ENERGY_UNIT_GEV = 100.0
"""The networks get energy/100 (`Y = energy/100` in the authors' GetDataAngle)."""
LEAST_CELL_GEV = 2e-6
"""Smaller generated cells are set to zero: a ReLU network fills all cells, and the authors' analysis cuts at
1e-4 in units of GeV*50."""
_SMALLEST = 9
"""Columns of the smallest preset, smoke."""
MAX_ANGLE_BLOCK = 256


class Batch(NamedTuple):
    """Input of one replica in one step, float32."""

    image: Floats  # (B, X, Y, Z)
    energy: Floats  # (B, 1), energy / 100 GeV
    angle: Floats  # (B, 1), rad, see `Preprocessing.angle`
    ecal: Floats  # (B, 1), sum of the scaled cells


@dataclass(frozen=True)
class Preprocessing:
    """image = (central cells in GeV * scale) ** power.

    Attributes:
        shape: Cells of the network's input in x, y and depth.
        scale: `image_scale` of the preset, 50 as published.
        power: `image_power` of the preset, 0.85 as published.
        angle: Angle of a shower: measured on the image, or theta of the primary where it is known.
    """

    shape: tuple[int, int, int]
    scale: float = 50.0
    power: float = 0.85
    angle: Literal["measured", "primary"] = "measured"

    def check(self, have: tuple[int, int, int], where: str) -> None:
        """Checks that showers are large enough.

        Raises:
            DataError: They are too small; the message names a preset that fits.
        """
        if have[2] != self.shape[2] or have[0] < self.shape[0] or have[1] < self.shape[1]:
            fits = have[2] == self.shape[2] and min(have[:2]) >= _SMALLEST
            raise DataError(
                f"{where}: its showers have {'x'.join(map(str, have))} cells, the preset needs"
                f" {'x'.join(map(str, self.shape))}: "
                + (
                    "use a preset of another shape (51x51x25 paper, 25x25x25 fixed25, 17x17x25 mini, 9x9x25"
                    " smoke, which fits the centre of all)"
                    if fits
                    else f"no preset has fewer than {_SMALLEST} cells in x and y, or another depth (the last axis) than 25"
                )
            )

    def prepare(self, showers: SparseShowers) -> PreprocessedShowers:
        """Crops, scales and raises the non-zero cells; a measured angle is that of the cropped image."""
        cells = showers.cells.central(self.shape)
        scaled = cells.value * np.float32(self.scale)
        theta = thetas_rad(showers.columns) if self.angle == "primary" else None
        angle = showers.columns.get("mtheta") if theta is None else theta
        if angle is None or (theta is None and cells is not showers.cells):
            angle = _measured(cells)
        return PreprocessedShowers(
            SparseCells(cells.cell, scaled ** np.float32(self.power), cells.first, self.shape),
            _column(energies_gev(showers.columns) / np.float32(ENERGY_UNIT_GEV)),
            _column(angle),
            _column(SparseCells(cells.cell, scaled, cells.first, self.shape).sums()),
        )


@dataclass(frozen=True)
class PreprocessedShowers:
    """Preprocessed showers with sparse images."""

    image: SparseCells
    energy: Floats
    angle: Floats
    ecal: Floats

    def __len__(self) -> int:
        return len(self.energy)

    @property
    def nbytes(self) -> int:
        """Memory of all arrays."""
        return self.image.nbytes + self.energy.nbytes + self.angle.nbytes + self.ecal.nbytes

    def take(self, rows: NDArray[np.int64]) -> PreprocessedShowers:
        """Returns the showers `rows`."""
        return PreprocessedShowers(
            self.image.take(rows), self.energy[rows], self.angle[rows], self.ecal[rows]
        )

    def batch(self) -> Batch:
        """Returns all showers with dense images."""
        return Batch(self.image.dense(), self.energy, self.angle, self.ecal)


def join_preprocessed(parts: Sequence[PreprocessedShowers]) -> PreprocessedShowers:
    """Concatenates `parts`."""
    return PreprocessedShowers(
        join([part.image for part in parts]),
        np.concatenate([part.energy for part in parts]),
        np.concatenate([part.angle for part in parts]),
        np.concatenate([part.ecal for part in parts]),
    )


def needed_columns(have: frozenset[str]) -> tuple[str, ...]:
    """Returns the columns that the preprocessing reads."""
    return tuple(name for name in ("energy", "target", "mtheta", "theta") if name in have)


def _measured(cells: SparseCells) -> Floats:
    """Measures angles block by block: dense images of a whole set would not fit in memory."""
    starts = range(0, len(cells), MAX_ANGLE_BLOCK)
    blocks = (np.arange(s, min(s + MAX_ANGLE_BLOCK, len(cells))) for s in starts)
    angles = [measured_angle(cells.take(rows).dense()) for rows in blocks]
    return np.concatenate(angles) if angles else np.zeros(0, np.float32)


def _column(values: NDArray[np.floating]) -> Floats:
    return np.asarray(values, np.float32).reshape(-1, 1)
