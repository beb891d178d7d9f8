"""One shower as one record of a shard: an Example of three bytes features, compact and without loss.

`cells` holds the flat numbers (uint16, or uint32 where an image has more than 65536 cells) of the
cells whose bits are not all zero, so that -0.0 survives; `values` what they hold, in the unit and
dtype of the source; `columns` the source's other datasets, one after the other in the order and with
the dtypes of the manifest (a packed NumPy record). All little-endian unless a dtype says otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.data.example import bytes_features, encode
from cloudgan.data.sparse_showers import SparseCells, cell_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from cloudgan.data.manifest import ColumnInfo, SourceInfo
    from cloudgan.data.raw_showers import Columns, RawShowers

CELLS, VALUES, COLUMNS = "cells", "values", "columns"

Parts = dict[str, bytes]


def row_dtype(columns: Sequence[ColumnInfo]) -> np.dtype[Any]:
    """Returns the packed record of all columns of one shower."""
    return np.dtype([(c.name, np.dtype(c.dtype), c.shape) for c in columns])


def encode_block(block: RawShowers, columns: Sequence[ColumnInfo]) -> Iterator[bytes]:
    """Yields one record per shower."""
    images = np.ascontiguousarray(block.ecal).reshape(len(block), -1)
    filled = np.flatnonzero(images.view(f"u{images.dtype.itemsize}").reshape(-1) != 0)
    value = images.reshape(-1)[filled]
    cell = (filled % images.shape[1]).astype(cell_dtype(block.ecal.shape[1:]))
    first = np.searchsorted(filled, np.arange(len(block) + 1) * images.shape[1]).tolist()
    rows = np.zeros(len(block), row_dtype(columns))
    for column in columns:
        rows[column.name] = block.columns[column.name]
    for row in range(len(block)):
        inside = slice(first[row], first[row + 1])
        yield encode(
            {
                COLUMNS: rows[row].tobytes(),
                CELLS: cell[inside].tobytes(),
                VALUES: value[inside].tobytes(),
            }
        )


class RecordDecoder:
    """Decodes the records of one source."""

    def __init__(self, source: SourceInfo) -> None:
        self._shape = source.shape
        self._row = row_dtype(source.columns)
        self._cell = cell_dtype(source.shape)
        self._value = np.dtype(source.ecal_dtype)

    def split(self, record: bytes) -> Parts:
        """Returns the three features of a record.

        Raises:
            ValueError: The record is damaged.
        """
        parts = bytes_features(record, (COLUMNS, CELLS, VALUES))
        cells, values, row = len(parts[CELLS]), len(parts[VALUES]), len(parts[COLUMNS])
        if cells // self._cell.itemsize != values // self._value.itemsize:
            raise ValueError(f"{cells} bytes of cell numbers do not fit {values} bytes of values")
        if row != self._row.itemsize:
            raise ValueError(f"{row} bytes of columns instead of {self._row.itemsize}")
        return parts

    def decode(self, records: Sequence[Parts]) -> tuple[SparseCells, Columns]:
        """Returns cells, in the unit of the source, and columns of records split before.

        Raises:
            ValueError: A cell number lies outside the image, or a value is no energy.
        """
        cell = np.frombuffer(b"".join([parts[CELLS] for parts in records]), self._cell)
        value = np.frombuffer(b"".join([parts[VALUES] for parts in records]), self._value)
        _check(cell, value, int(np.prod(self._shape)))
        sizes = [len(parts[CELLS]) // self._cell.itemsize for parts in records]
        first = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
        rows = np.frombuffer(b"".join([parts[COLUMNS] for parts in records]), self._row)
        columns: Columns = {name: rows[name] for name in self._row.names or ()}
        return SparseCells(cell, value, first, self._shape), columns


def _check(cell: NDArray[Any], value: NDArray[Any], cells: int) -> None:
    if cell.size and int(cell.max()) >= cells:
        raise ValueError(f"cell {cell.max()} of an image of {cells}")
    if value.size and not (value.min() >= 0 and value.max() < np.inf):
        raise ValueError("NaN, infinite or negative cells")
