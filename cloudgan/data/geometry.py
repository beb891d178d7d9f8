"""Cells of a file, in its layout, to images on a regular grid and back."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.data.layouts import Geometry, Layout

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
