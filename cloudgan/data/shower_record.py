"""One shower as one record of a shard: an Example of bytes features, compact and without loss.

`cells` holds the flat numbers (uint16, or uint32 where an image has more than 65536 cells) of the
cells whose bits are not all zero, so that -0.0 survives; `values` what they hold, in the unit and
dtype of the source; then each column of the source under its own name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.data.example import bytes_features, encode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from cloudgan.data.manifest import ColumnInfo, SourceInfo
    from cloudgan.data.raw_showers import RawShowers

CELLS, VALUES = "cells", "values"
COLUMN = "column/"
SMALL_IMAGE = 1 << 16


def cell_dtype(shape: tuple[int, int, int]) -> np.dtype[Any]:
    """Returns the integer type that numbers the cells of an image."""
    return np.dtype("<u2" if np.prod(shape) <= SMALL_IMAGE else "<u4")


def encode_block(block: RawShowers) -> Iterator[bytes]:
    """Yields one record per shower."""
    images = np.ascontiguousarray(block.ecal).reshape(len(block), -1)
    bits = images.view(f"u{images.dtype.itemsize}")
    number = cell_dtype(block.ecal.shape[1:])
    columns = {COLUMN + name: np.ascontiguousarray(c) for name, c in block.columns.items()}
    for row, (image, filled) in enumerate(zip(images, bits, strict=True)):
        cells = np.flatnonzero(filled)
        yield encode(
            {
                CELLS: cells.astype(number).tobytes(),
                VALUES: image[cells].tobytes(),
                **{name: column[row].tobytes() for name, column in columns.items()},
            }
        )


class RecordDecoder:
    """Decodes the records of one source, for the columns that are wanted."""

    def __init__(self, source: SourceInfo, wanted: Collection[str]) -> None:
        self.columns: tuple[ColumnInfo, ...] = tuple(c for c in source.columns if c.name in wanted)
        self._features = frozenset({CELLS, VALUES, *(COLUMN + c.name for c in self.columns)})
        self._cell = cell_dtype(source.shape)
        self._value = np.dtype(source.ecal_dtype)
        self._cells_per_image = int(np.prod(source.shape))

    def split(self, record: bytes) -> dict[str, bytes]:
        """Returns the wanted features of a record.

        Raises:
            ValueError: The record is damaged.
        """
        found = bytes_features(record, self._features)
        cells, values = len(found[CELLS]), len(found[VALUES])
        if cells // self._cell.itemsize != values // self._value.itemsize:
            raise ValueError(f"{cells} bytes of cell numbers do not fit {values} bytes of values")
        return found

    def cells(self, features: list[dict[str, bytes]]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns numbers and values of all cells of records split before.

        Raises:
            ValueError: A cell number lies outside the image, or a value is no energy.
        """
        cell = np.frombuffer(b"".join([f[CELLS] for f in features]), self._cell)
        value = np.frombuffer(b"".join([f[VALUES] for f in features]), self._value)
        if cell.size and int(cell.max()) >= self._cells_per_image:
            raise ValueError(f"cell {cell.max()} of an image of {self._cells_per_image}")
        if value.size and not (value.min() >= 0 and value.max() < np.inf):
            raise ValueError("NaN, infinite or negative cells")
        return cell, value

    def first(self, features: list[dict[str, bytes]]) -> NDArray[np.int64]:
        """Returns where the cells of each record begin, and the total at the end."""
        sizes = [len(f[CELLS]) // self._cell.itemsize for f in features]
        return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))

    def column(self, info: ColumnInfo, features: list[dict[str, bytes]]) -> NDArray[Any]:
        """Returns one column of records split before.

        Raises:
            ValueError: A value has another size than the manifest says.
        """
        content = b"".join([f[COLUMN + info.name] for f in features])
        return np.frombuffer(content, np.dtype(info.dtype)).reshape(len(features), *info.shape)
