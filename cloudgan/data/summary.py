"""Summary of the training showers: saved with a model, used for calibration and for the angle condition."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.data.layouts import Layout
from cloudgan.data.showers import ENERGY_UNIT_GEV, Cells

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
    dataset: Layout | None = Field(None, description="layout that `generate` writes; None: 3DGAN's")


def summarize(
    parts: Iterable[tuple[Cells, Cells, NDArray[np.float32], NDArray[np.float32]]],
    power: float,
    theta: NDArray[np.float32] | None,
    count: int,
    *,
    particle: str | None = None,
    layout: Layout | None = None,
) -> TrainingSummary:
    """Summarizes a sample of `count` training showers of one particle.

    `parts` of the sample are whole showers in GeV, images of the networks with their `power`, energies in GeV and
    angles in rad; `theta` are its polar angles in rad, None: unknown.
    """
    layers, image_sums, contained, energies, angles = [], [], [], [], []
    for whole, image, energy, angle in parts:
        cut, depth = whole.central(image.shape), image.shape[2]
        place = cut.row * depth + cut.cell % depth
        layer = np.bincount(place, cut.value, len(whole) * depth)
        layers.append(layer.reshape(-1, depth) / energy[:, None])
        image_sums.append(image.sums() / (energy / ENERGY_UNIT_GEV) ** power)
        all_cells = whole.sums()
        share = np.divide(cut.sums(), all_cells, out=np.ones_like(all_cells), where=all_cells > 0)
        contained.append(share)
        energies.append(energy)
        angles.append(angle)
    energy, mtheta = np.concatenate(energies), np.concatenate(angles)
    return TrainingSummary(
        count=count,
        sampled=len(energy),
        energy_range_gev=_range(energy),
        theta_range_rad=None if theta is None else _range(theta),
        mtheta_range_rad=_range(mtheta),
        layer_fraction=tuple(np.concatenate(layers).mean(0).tolist()),
        mean_image_sum_per_unit=float(np.concatenate(image_sums).mean()),
        contained_fraction=float(np.concatenate(contained).mean()),
        angle_fit=None if theta is None else _fit(theta, mtheta),
        particle=particle,
        dataset=layout,
    )


def _range(values: NDArray[np.floating]) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _fit(theta: NDArray[np.floating], mtheta: NDArray[np.floating]) -> AngleFit | None:
    if np.ptp(theta) < MIN_THETA_SPREAD_RAD:
        return None
    slope, offset = np.polyfit(theta.astype(np.float64), mtheta.astype(np.float64), 1)
    return AngleFit(offset_rad=float(offset), slope=float(slope))
