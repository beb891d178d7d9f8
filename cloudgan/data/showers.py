"""Showers: energies in GeV, angles in radians, images dense or as lists of their non-zero cells.

Shapes: N showers of X x Y x Z cells, Z along the depth; the shower axis tilts in the y-z plane.
Needs neither h5py nor TensorFlow, so that simulation and validation run anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cloudgan.data.layouts import Geometry, Layout

CELL_MM = 5.1
"""Edge of a cell of the CLIC ECAL in x and y, mm (key4hep/k4geo, CLIC_o2_v04 ECalBarrel_o2_v01_01.xml)."""
ENERGY_UNIT_GEV = 100.0
"""The networks get energy/100 (`Y = energy/100` in the authors' GetDataAngle)."""
LEAST_CELL_GEV = 2e-6
"""Smaller generated cells are set to zero: a ReLU network fills all cells, and the authors' analysis cuts at
1e-4 in units of GeV*50."""
Number = TypeVar("Number", bound=np.number)

SMALL_IMAGE = 1 << 16
ANGLE_BLOCK = 256
"""Images made dense at once: 67 MB of 51 x 51 x 25 cells."""


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


def join_showers(parts: Iterable[Showers]) -> Showers:
    """Concatenates `parts`; theta is None if it is unknown in one of them."""
    found = list(parts)
    return Showers(
        np.concatenate([part.ecal_gev for part in found]),
        np.concatenate([part.energy_gev for part in found]),
        join_known([part.theta_rad for part in found]),
        np.concatenate([part.mtheta_rad for part in found]),
    )


def join_known(parts: Sequence[NDArray[np.float32] | None]) -> NDArray[np.float32] | None:
    """Concatenates `parts`; None if one of them is unknown."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def cell_dtype(shape: tuple[int, ...]) -> np.dtype[Any]:
    """Returns the integer type that numbers the cells of an image."""
    return np.dtype("<u2" if np.prod(shape) <= SMALL_IMAGE else "<u4")


@dataclass(frozen=True)
class Cells:
    """The non-zero cells of N images, about 1 % of all: row i has the cells first[i]:first[i + 1].

    Attributes:
        cell: Flat number of each cell in its image, C order, (K,).
        value: Energy of each cell, (K,).
        first: Start of each image in both arrays, int64 (N + 1,).
        shape: (X, Y, Z) of an image.
    """

    cell: NDArray[Any]
    value: NDArray[Any]
    first: NDArray[np.int64]
    shape: tuple[int, int, int]

    @classmethod
    def of(cls, images: NDArray[Any]) -> Cells:
        """Returns the cells of dense images (N, X, Y, Z) whose bits are not all zero: -0.0 stays."""
        flat = np.ascontiguousarray(images).reshape(len(images), -1)
        filled = np.flatnonzero(flat.view(f"u{flat.dtype.itemsize}").reshape(-1))
        first = np.searchsorted(filled, np.arange(len(flat) + 1) * flat.shape[1])
        cell = (filled % flat.shape[1]).astype(cell_dtype(images.shape[1:]))
        return cls(cell, flat.reshape(-1)[filled], first.astype(np.int64), images.shape[1:])

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def row(self) -> NDArray[np.int64]:
        """The image of each cell, (K,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    def rows(self, start: int, stop: int) -> Cells:
        """Returns the images from `start` on, before `stop`; views of the same arrays."""
        first = self.first[start : stop + 1]
        inside = slice(first[0], first[-1])
        return Cells(self.cell[inside], self.value[inside], first - first[0], self.shape)

    def places(self) -> NDArray[np.intp]:
        """Returns the number of each cell among all cells of all images, (K,)."""
        starts = np.arange(len(self), dtype=np.intp) * int(np.prod(self.shape))
        places = np.repeat(starts, np.diff(self.first))
        places += self.cell
        return places

    def dense(self) -> NDArray[Any]:
        """Returns the images, (N, X, Y, Z)."""
        images = np.zeros(len(self) * int(np.prod(self.shape)), self.value.dtype)
        images[self.places()] = self.value
        return images.reshape(len(self), *self.shape)

    def sums(self) -> NDArray[np.float64]:
        """Returns the sum over each image, (N,)."""
        return np.bincount(self.row, self.value, len(self)).astype(np.float64, copy=False)

    def with_values(self, value: NDArray[Any]) -> Cells:
        """Returns the same cells with other values."""
        return Cells(self.cell, value, self.first, self.shape)

    def central(self, shape: tuple[int, int, int]) -> Cells:
        """Crops as `central` does for dense images."""
        if shape == self.shape:
            return self
        moved = central_numbers(self.shape, shape)[self.cell]
        kept = moved >= 0
        first = np.concatenate(([0], np.cumsum(kept)))[self.first]
        return Cells(moved[kept].astype(cell_dtype(shape)), self.value[kept], first, shape)

    def measured_angle(self) -> NDArray[np.float32]:
        """Returns `measured_angle` of the images, float32 (N,); makes a block of them dense at a time."""
        found = [np.zeros(0, np.float32)]
        found += [
            measured_angle(self.rows(row, row + ANGLE_BLOCK).dense())
            for row in range(0, len(self), ANGLE_BLOCK)
        ]
        return np.concatenate(found)


@lru_cache(8)
def central_numbers(shape: tuple[int, int, int], cut: tuple[int, int, int]) -> NDArray[np.int32]:
    """Returns for each cell of an image of `shape` its number in the central `cut`, or -1."""
    numbers = np.full(shape, -1, np.int32)
    central(numbers, cut)[:] = np.arange(np.prod(cut), dtype=np.int32).reshape(cut)
    return numbers.reshape(-1)


def central(ecal: NDArray[Number], shape: tuple[int, int, int]) -> NDArray[Number]:
    """Returns a view of the central `shape` = (x, y) cells of (..., X, Y, Z) images; Z is not cut."""
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

    `ecal` are energies, (N, X, Y, Z), in any unit; the angles are in rad, float32 (N,), 0 for an empty shower.
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


AXES = "xyz"


@lru_cache(8)
def cells_of_voxels(
    geometry: Geometry, *, y_first: bool
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Returns for each voxel its cell of the grid, (V,), and for each cell of the grid its voxel, (X*Y*Z,).

    Voxels are numbered layer by layer. The cell of a voxel is the one at its least x and y. A cell beyond the
    outermost edge of its layer belongs to the nearest voxel, so that every cell has one.
    """
    x, y, depth = geometry.shape
    edges = np.unique([edge for each in geometry.bins for edge in each.x])
    grid = np.arange(x * y * depth).reshape(x, y, depth)
    voxel_of_cell = np.empty((x, y, depth), np.intp)
    cells: list[NDArray[np.intp]] = []
    first = layer = 0
    for each in geometry.bins:
        own = np.asarray(each.x)
        row = np.clip(np.searchsorted(own, edges[:-1], "right") - 1, 0, len(own) - 2)
        column = np.arange(y) // (y // each.y)
        least_x, least_y = np.searchsorted(edges, own[:-1]), np.arange(each.y) * (y // each.y)
        rows = len(own) - 1
        number = row[:, None] + column * rows if y_first else row[:, None] * each.y + column
        for _ in range(each.layers):
            voxel_of_cell[:, :, layer] = first + number
            own_cells = grid[least_x[:, None], least_y, layer]
            cells.append((own_cells.T if y_first else own_cells).reshape(-1))
            first, layer = first + each.voxels, layer + 1
    return np.concatenate(cells), voxel_of_cell.reshape(-1)


def image_shape(layout: Layout, shapes: list[tuple[int, ...]]) -> tuple[int, int, int] | None:
    """Returns (X, Y, Z) of the images of datasets with these shapes per shower; None: they do not fit."""
    geometry, axes = layout.geometry, layout.axes
    if not geometry.bins:
        is_fit = len(shapes) == 1 and len(shapes[0]) == len(AXES)
        x, y, z = (shapes[0][axes.index(axis)] if is_fit else 0 for axis in AXES)
        return (x, y, z) if is_fit else None
    if len(shapes) > 1:
        return geometry.shape if shapes == _layer_shapes(layout) else None
    return geometry.shape if shapes == [(geometry.voxels,)] else None


def _layer_shapes(layout: Layout) -> list[tuple[int, ...]]:
    sizes = [
        {"x": len(each.x) - 1, "y": each.y}
        for each in layout.geometry.bins
        for _ in range(each.layers)
    ]
    return [(size[layout.axes[1]], size[layout.axes[2]]) for size in sizes]


def to_images(layout: Layout, cells: list[NDArray[Any]]) -> NDArray[Any]:
    """Returns images (n, X, Y, Z) of the datasets of a file, (n, ...) each, in their dtype, bit for bit."""
    if not layout.geometry.bins:
        return np.ascontiguousarray(
            cells[0].transpose(0, *(1 + layout.axes.index(axis) for axis in AXES))
        )
    flat = np.concatenate([one.reshape(len(one), -1) for one in cells], 1, dtype=cells[0].dtype)
    images = np.zeros((len(flat), int(np.prod(layout.geometry.shape))), flat.dtype)
    images[:, cells_of_voxels(layout.geometry, y_first=layout.axes == "zyx")[0]] = flat
    return images.reshape(-1, *layout.geometry.shape)


def as_read_out(layout: Layout, images_gev: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns generated images as the detector gives them: energy in its cells only, none below the threshold."""
    threshold = (layout.threshold_mev or 0) / 1e3
    cells = from_images(layout, images_gev)
    return to_images(layout, [np.where(one < threshold, np.float32(0), one) for one in cells])


def from_images(layout: Layout, images: NDArray[Any]) -> list[NDArray[Any]]:
    """Returns the datasets of a file: exact for images of `to_images`, and without loss of energy for others."""
    if not layout.geometry.bins:
        return [images.transpose(0, *(1 + AXES.index(axis) for axis in layout.axes))]
    voxel = cells_of_voxels(layout.geometry, y_first=layout.axes == "zyx")[1]
    order = np.argsort(voxel, kind="stable")
    starts = np.searchsorted(voxel[order], np.arange(layout.geometry.voxels))
    flat = np.add.reduceat(images.reshape(len(images), -1)[:, order], starts, axis=1)
    if len(layout.keys.cells) == 1:
        return [flat]
    shapes = _layer_shapes(layout)
    ends = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
    return [
        one.reshape(-1, *shape) for one, shape in zip(np.split(flat, ends, 1), shapes, strict=True)
    ]
