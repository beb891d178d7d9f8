"""Showers: energies in GeV, angles in radians.

Shapes: N showers of X x Y x Z cells, Z along the depth; the shower axis tilts in the y-z plane.
NumPy only, so that simulation and validation run anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CELL_MM = 5.1
"""Edge of a cell of the CLIC ECAL in x and y, mm (key4hep/k4geo, CLIC_o2_v04 ECalBarrel_o2_v01_01.xml)."""


@dataclass(frozen=True)
class Showers:
    """Showers with their primary particles.

    Attributes:
        ecal_gev: Energy in each cell, GeV, float32 (N, X, Y, Z).
        energy_gev: Energy of the primary electron, GeV, float32 (N,).
        theta_rad: Its polar angle, rad, float32 (N,); None if unknown.
        mtheta_rad: The angle measured from the image, rad, float32 (N,); see `measured_angle`.
    """

    ecal_gev: NDArray[np.float32]
    energy_gev: NDArray[np.float32]
    theta_rad: NDArray[np.float32] | None
    mtheta_rad: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.energy_gev)

    def __getitem__(self, rows: slice | NDArray[np.int64] | NDArray[np.bool_]) -> Showers:
        """Returns the showers of `rows`."""
        theta = None if self.theta_rad is None else self.theta_rad[rows]
        return Showers(self.ecal_gev[rows], self.energy_gev[rows], theta, self.mtheta_rad[rows])


def central(ecal: NDArray[np.float32], shape: tuple[int, int, int]) -> NDArray[np.float32]:
    """Returns the central `shape` = (x, y) cells of (..., X, Y, Z) images; Z is not cut.

    Raises:
        ValueError: An image is smaller than `shape`, or has another number of layers.
    """
    have = ecal.shape[-3:]
    if have[0] < shape[0] or have[1] < shape[1] or have[2] != shape[2]:
        raise ValueError(f"images of {have} cells hold no central {shape} cells")
    x, y = (have[0] - shape[0]) // 2, (have[1] - shape[1]) // 2
    return ecal[..., x : x + shape[0], y : y + shape[1], :]


def measured_angle(ecal: NDArray[np.floating]) -> NDArray[np.float32]:
    """Measures the angle of each shower from its image: the 3DGAN `mtheta`, which is not theta.

    Per layer the slope of the layer's barycentre against the shower's barycentre, in cell units,
    averaged over the layers with energy, weighted by the layer number (the function
    `measPython` / `ecal_angle` of the authors' public code, arXiv:2111.04628).

    Args:
        ecal: Energies, (N, X, Y, Z), any unit.

    Returns:
        Angles in rad, float32 (N,); 0 for an empty shower.
    """
    x_axis, y_axis = (np.arange(n, dtype=np.float64) for n in ecal.shape[1:3])
    return angle_of_layers(
        ecal.sum((1, 2), dtype=np.float64),
        np.einsum("nxyz,x->nz", ecal, x_axis, dtype=np.float64, optimize=True),
        np.einsum("nxyz,y->nz", ecal, y_axis, dtype=np.float64, optimize=True),
    )


def angle_of_layers(
    layer: NDArray[np.float64], x_moment: NDArray[np.float64], y_moment: NDArray[np.float64]
) -> NDArray[np.float32]:
    """`measured_angle` from sums over cells, (N, Z) each.

    Args:
        layer: Energy of each layer.
        x_moment: Sum of energy times position along x, in cells, from any origin.
        y_moment: The same along y.

    Returns:
        Angles in rad, float32 (N,); 0 for an empty shower.
    """
    z = np.arange(layer.shape[1]) + 0.5
    total = layer.sum(1)

    def ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.divide(above, below, out=np.zeros_like(above), where=below > 0)

    x_mean = ratio(x_moment.sum(1), total)[:, None]
    y_mean = ratio(y_moment.sum(1), total)[:, None]
    z_mean = ratio(layer @ z, total)[:, None]
    run = np.sqrt((ratio(x_moment, layer) - x_mean) ** 2 + (z - z_mean) ** 2)
    slope = ratio(ratio(y_moment, layer) - y_mean, np.maximum(run, np.sqrt(1e-7)))
    slope = np.where(z < z_mean, -slope, slope)
    weight = z * (layer > 0)
    return ratio(((np.pi / 2 - np.arctan(slope)) * weight).sum(1), weight.sum(1)).astype(np.float32)


def join_showers(parts: Iterable[Showers]) -> Showers:
    """Concatenates `parts`; theta is None if it is unknown in one of them."""
    found = list(parts)
    thetas = [part.theta_rad for part in found]
    known = [theta for theta in thetas if theta is not None]
    return Showers(
        np.concatenate([part.ecal_gev for part in found]),
        np.concatenate([part.energy_gev for part in found]),
        np.concatenate(known) if len(known) == len(found) else None,
        np.concatenate([part.mtheta_rad for part in found]),
    )
