"""One shower as one record of a shard: an Example of three bytes features, compact and without loss.

`cells` holds the flat numbers (uint16, or uint32 where an image has more than 65536 cells) of the
cells whose bits are not all zero, so that -0.0 survives; `values` what they hold, in the unit and
dtype of the source; `columns` the source's other datasets, one after the other in the order and with
the dtypes of the manifest (a packed NumPy record). All little-endian unless a dtype says otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cloudgan.data.sparse_showers import SparseCells, cell_dtype
from cloudgan.data.tfrecord_format import bytes_features, encode, entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from cloudgan.data.shards.manifest import ColumnInfo, SourceInfo
    from cloudgan.data.sources.raw_showers import Columns, RawShowers

CELLS, VALUES, COLUMNS = "cells", "values", "columns"

_TRIES = 4  # the frame size converges in two or three iterations

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


class _Frame(NamedTuple):
    """The bytes that `encode` writes around the features of a record of one size.

    Attributes:
        opening: Bytes before each feature, with their positions.
        content: Position of each feature.
    """

    opening: tuple[tuple[int, bytes], ...]
    content: tuple[slice, slice, slice]


class RecordDecoder:
    """Decodes the records of one source."""

    def __init__(self, source: SourceInfo) -> None:
        self._shape = source.shape
        self._row = row_dtype(source.columns)
        self._cell = cell_dtype(source.shape)
        self._value = np.dtype(source.ecal_dtype)
        self._frames: dict[int, _Frame | None] = {}

    def split(self, record: bytes) -> Parts:
        """Returns the three features of a record.

        Raises:
            ValueError: The record is damaged.
        """
        frame = self._frame(len(record))
        if frame and all(record.startswith(opening, at) for at, opening in frame.opening):
            columns, cells, values = frame.content
            return {COLUMNS: record[columns], CELLS: record[cells], VALUES: record[values]}
        return self._parsed(record)

    def _parsed(self, record: bytes) -> Parts:
        parts = bytes_features(record, (COLUMNS, CELLS, VALUES))
        cells, values, row = len(parts[CELLS]), len(parts[VALUES]), len(parts[COLUMNS])
        if cells // self._cell.itemsize != values // self._value.itemsize:
            raise ValueError(f"{cells} bytes of cell numbers do not fit {values} bytes of values")
        if row != self._row.itemsize:
            raise ValueError(f"{row} bytes of columns instead of {self._row.itemsize}")
        return parts

    def _frame(self, size: int) -> _Frame | None:
        """Returns the frame of a record of `size` bytes; None: `encode` writes none of that size.

        The size determines the number of cells. Comparing the frame is ten times faster than parsing.
        """
        if size not in self._frames:
            per_cell = self._cell.itemsize + self._value.itemsize
            framing = 0
            for _ in range(_TRIES):
                count = max(0, (size - framing - self._row.itemsize) // per_cell)
                frame, found = self._framed(count)
                framing = found - count * per_cell - self._row.itemsize
                if found == size:
                    break
            self._frames[size] = frame if found == size else None
        return self._frames[size]

    def _framed(self, count: int) -> tuple[_Frame, int]:
        """Returns the frame of a record of `count` cells, and the record's size."""
        sizes = (self._row.itemsize, count * self._cell.itemsize, count * self._value.itemsize)
        features = {
            name: bytes(size) for name, size in zip((COLUMNS, CELLS, VALUES), sizes, strict=True)
        }
        entries = [entry(name, value) for name, value in features.items()]
        whole = encode(features)
        at = len(whole) - sum(map(len, entries))
        openings, contents = [(0, whole[:at])], []
        for one, size in zip(entries, sizes, strict=True):
            openings.append((at, one[: len(one) - size]))
            at += len(one)
            contents.append(slice(at - size, at))
        columns, cells, values = contents
        return _Frame(tuple(openings), (columns, cells, values)), len(whole)

    def decode(self, records: Sequence[Parts]) -> tuple[SparseCells, Columns]:
        """Returns cells, in the unit of the source, and columns of split records.

        Raises:
            ValueError: A cell number is outside the image, or a value is not an energy.
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
