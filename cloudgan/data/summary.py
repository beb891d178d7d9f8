"""Summary of the training showers: saved with a model, used for calibration and for the angle condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.data.pipeline.preprocessing import ENERGY_UNIT_GEV, Preprocessing
from cloudgan.data.sources.raw_showers import energies_gev, thetas_rad

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from cloudgan.data.shards.reader import SparseShowers

    Floats = NDArray[np.float64]

MIN_THETA_SPREAD_RAD = 1e-3
"""Below this spread all showers have one angle, and no line is fitted."""


class AngleFit(Document):
    """mtheta = offset_rad + slope * theta, least squares: the condition for a wanted theta."""

    offset_rad: float
    slope: float

    def mtheta_rad(self, theta_rad: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the expected `mtheta` for a polar angle."""
        return (self.offset_rad + self.slope * theta_rad).astype(np.float32)


class TrainingSummary(Document):
    """Statistics of the preprocessed training showers."""

    schema_version: int = 1
    count: int = Field(description="training showers in all")
    sampled: int = Field(description="training showers in the sample")
    energy_range_gev: tuple[float, float]
    theta_range_rad: tuple[float, float] | None
    mtheta_range_rad: tuple[float, float]
    layer_fraction: tuple[float, ...] = Field(
        description="mean over showers of the energy in each layer over the primary energy"
    )
    mean_image_sum_per_unit: float = Field(
        description="mean of sum(image) / (energy/100 GeV) ** image_power"
    )
    contained_fraction: float = Field(
        description="mean share of a shower's energy in the cells the networks see"
    )
    angle_fit: AngleFit | None = Field(description="None where theta is unknown or one angle")
    particle: str | None = Field(None, description="primary particle; None: the files state none")


def summarize(
    parts: Iterable[SparseShowers], view: Preprocessing, count: int, particle: str | None = None
) -> TrainingSummary:
    """Summarizes `parts`, a sample of `count` training showers of one particle."""
    layers, image_sums, contained = [], [], []
    energies, mthetas, thetas = [], [], []
    for part in parts:
        prepared, energy = view.prepare(part), energies_gev(part.columns)
        cut = part.cells.central(view.shape)
        depth = cut.row * view.shape[2] + cut.cell % view.shape[2]
        layer = np.bincount(depth, cut.value, len(part.cells) * view.shape[2])
        layers.append(layer.reshape(-1, view.shape[2]) / energy[:, None])
        unit = (energy / ENERGY_UNIT_GEV) ** view.power
        image_sums.append(prepared.image.sums() / unit)
        whole = part.cells.sums()
        contained.append(np.divide(cut.sums(), whole, out=np.ones_like(whole), where=whole > 0))
        energies.append(energy)
        mthetas.append(prepared.angle[:, 0])
        theta = thetas_rad(part.columns)
        thetas.append(np.full(len(energy), np.nan, np.float32) if theta is None else theta)
    energy, mtheta, theta = (np.concatenate(v) for v in (energies, mthetas, thetas))
    known = bool(np.isfinite(theta).all())
    return TrainingSummary(
        count=count,
        sampled=len(energy),
        energy_range_gev=_range(energy),
        theta_range_rad=_range(theta) if known else None,
        mtheta_range_rad=_range(mtheta),
        layer_fraction=tuple(np.concatenate(layers).mean(0).tolist()),
        mean_image_sum_per_unit=float(np.concatenate(image_sums).mean()),
        contained_fraction=float(np.concatenate(contained).mean()),
        angle_fit=_fit(theta, mtheta) if known else None,
        particle=particle,
    )


def _range(values: NDArray[np.floating]) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _fit(theta: NDArray[np.floating], mtheta: NDArray[np.floating]) -> AngleFit | None:
    if np.ptp(theta) < MIN_THETA_SPREAD_RAD:
        return None
    slope, offset = np.polyfit(theta.astype(np.float64), mtheta.astype(np.float64), 1)
    return AngleFit(offset_rad=float(offset), slope=float(slope))
