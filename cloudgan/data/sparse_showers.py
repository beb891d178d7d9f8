"""Showers as lists of their non-zero cells: about 1 % of all cells hold energy.

N showers, row i has the cells first[i]:first[i + 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALL_IMAGE = 1 << 16


def cell_dtype(shape: tuple[int, int, int]) -> np.dtype[Any]:
    """Returns the integer type that numbers the cells of an image."""
    return np.dtype("<u2" if np.prod(shape) <= SMALL_IMAGE else "<u4")


@dataclass(frozen=True)
class SparseCells:
    """The non-zero cells of N images.

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

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def nbytes(self) -> int:
        """Memory of the three arrays."""
        return self.cell.nbytes + self.value.nbytes + self.first.nbytes

    @property
    def row(self) -> NDArray[np.int64]:
        """The image of each cell, (K,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    def take(self, rows: NDArray[np.int64]) -> SparseCells:
        """Returns copies of the images `rows`, in that order."""
        begin, end = self.first[rows], self.first[rows + 1]
        pieces = [slice(*ends) for ends in zip(begin.tolist(), end.tolist(), strict=True)]
        first = np.concatenate(([0], np.cumsum(end - begin)))
        cell, value = self.cell, self.value
        return SparseCells(
            np.concatenate([cell[:0], *(cell[piece] for piece in pieces)]),
            np.concatenate([value[:0], *(value[piece] for piece in pieces)]),
            first,
            self.shape,
        )

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

    def central(self, shape: tuple[int, int, int]) -> SparseCells:
        """Crops as `cloudgan.data.showers.central` does for dense images."""
        if shape == self.shape:
            return self
        cut = [(have - want) // 2 for have, want in zip(self.shape[:2], shape[:2], strict=True)]
        new_number = np.full(self.shape, -1, np.int32)
        x, y = (slice(c, c + want) for c, want in zip(cut, shape[:2], strict=True))
        new_number[x, y, :] = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        moved = new_number.reshape(-1)[self.cell]
        kept = moved >= 0
        size = np.bincount(self.row[kept], minlength=len(self))
        first = np.concatenate(([0], np.cumsum(size)))
        return SparseCells(moved[kept].astype(cell_dtype(shape)), self.value[kept], first, shape)


def join(parts: Sequence[SparseCells]) -> SparseCells:
    """Concatenates `parts`."""
    starts = np.cumsum([0, *(part.first[-1] for part in parts)])
    first = [part.first[:-1] + start for part, start in zip(parts, starts, strict=False)]
    return SparseCells(
        np.concatenate([part.cell for part in parts]),
        np.concatenate([part.value for part in parts]),
        np.concatenate([*first, starts[-1:]]).astype(np.int64),
        parts[0].shape,
    )
