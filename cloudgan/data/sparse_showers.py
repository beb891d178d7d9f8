"""Showers as lists of their non-zero cells: about 1 % of all cells hold energy.

N showers, row i has the cells first[i]:first[i + 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class SparseCells:
    """The non-zero cells of N images.

    Attributes:
        cell: Flat number of each cell in its image, C order, (K,).
        value: Its content, (K,).
        first: Where each image begins in both, int64 (N + 1,).
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
        """The image each cell belongs to, (K,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    def take(self, rows: NDArray[np.int64]) -> SparseCells:
        """Returns the images `rows`, in that order."""
        begin = self.first[rows]
        size = self.first[rows + 1] - begin
        first = np.concatenate(([0], np.cumsum(size)))
        pick = np.arange(first[-1]) + np.repeat(begin - first[:-1], size)
        return SparseCells(self.cell[pick], self.value[pick], first, self.shape)

    def dense(self) -> NDArray[Any]:
        """Returns the images, (N, X, Y, Z)."""
        cells = int(np.prod(self.shape))
        images = np.zeros(len(self) * cells, self.value.dtype)
        images[self.row * cells + self.cell] = self.value
        return images.reshape(len(self), *self.shape)

    def sums(self) -> NDArray[np.float64]:
        """Returns the sum over each image, (N,)."""
        return np.bincount(self.row, self.value, len(self)).astype(np.float64, copy=False)

    def central(self, shape: tuple[int, int, int]) -> SparseCells:
        """Returns what `cloudgan.data.showers.central` cuts out of the dense images."""
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
        return SparseCells(moved[kept], self.value[kept], first, shape)


def join(parts: Sequence[SparseCells]) -> SparseCells:
    """Returns all images of `parts`, one part after the other."""
    starts = np.cumsum([0, *(part.first[-1] for part in parts)])
    first = [part.first[:-1] + start for part, start in zip(parts, starts, strict=False)]
    return SparseCells(
        np.concatenate([part.cell for part in parts]),
        np.concatenate([part.value for part in parts]),
        np.concatenate([*first, starts[-1:]]).astype(np.int64),
        parts[0].shape,
    )
