"""The image of a shower: the cells of the simulated planes around its barycentre."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Cells(NamedTuple):
    """Cells that hold energy.

    Attributes:
        place: Flat number of each in its image, C order of (x, y, layer), ascending, (K,).
        energy_gev: float32 (K,).
    """

    place: NDArray[np.int64]
    energy_gev: NDArray[np.float32]


def crop(cells: Cells, shape: tuple[int, int, int], window: tuple[int, int]) -> Cells:
    """Returns the cells of the window whose middle holds the barycentre; it stays inside the planes.

    Args:
        cells: Of the planes.
        shape: Cells of the planes along x and y, and layers.
        window: Cells of the image along x and y; odd, so that it has a middle.
    """
    x, y, layer = np.unravel_index(cells.place, shape)
    kept = np.ones(len(cells.place), bool)
    moved = []
    for number, planes, size in zip((x, y), shape[:2], window, strict=True):
        first = _first(number, cells.energy_gev, planes, size)
        kept &= (number >= first) & (number < first + size)
        moved.append(number - first)
    inside = tuple(part[kept] for part in (*moved, layer))
    return Cells(
        np.ravel_multi_index(inside, (*window, shape[2])).astype(np.int64), cells.energy_gev[kept]
    )


def _first(
    number: NDArray[np.intp], energy_gev: NDArray[np.float32], planes: int, size: int
) -> int:
    """Where the window begins; in the middle where nothing was seen."""
    total = energy_gev.sum(dtype=np.float64)
    centre = planes // 2
    if total > 0:
        centre = int(np.floor(energy_gev @ (number + 0.5) / total))
    return min(max(centre - size // 2, 0), planes - size)
