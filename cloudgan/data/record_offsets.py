"""Where each record of a TFRecord file begins: found by hopping over the lengths, without TensorFlow.

A record is: length (uint64), checksum of the length (uint32), the bytes, their checksum (uint32),
little-endian (tensorflow.org/tutorials/load_data/tfrecord, read 2026-11-21).
"""

from __future__ import annotations

import mmap
import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cloudgan.core.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

HEADER_BYTES, FOOTER_BYTES = 12, 4
_LENGTH = struct.Struct("<Q")


class Extents(NamedTuple):
    """First byte and size of the content of each record."""

    start: NDArray[np.int64]
    size: NDArray[np.int64]


def record_extents(path: Path) -> Extents:
    """Finds every record of the file at `path`.

    Raises:
        DataError: The file cannot be read, is empty, or is cut off; names the record.
    """
    starts: list[int] = []
    sizes: list[int] = []
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            if end == 0:
                raise DataError(f"{path} is empty (0 bytes)")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                at = 0
                while at < end:
                    if at + HEADER_BYTES > end:
                        raise _cut_off(path, len(starts), at, end)
                    size = _LENGTH.unpack_from(content, at)[0]
                    start = at + HEADER_BYTES
                    at = start + size + FOOTER_BYTES
                    if at > end:
                        raise _cut_off(path, len(starts), start, end)
                    starts.append(start)
                    sizes.append(size)
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    return Extents(np.array(starts, np.int64), np.array(sizes, np.int64))


def _cut_off(path: Path, record: int, start: int, end: int) -> DataError:
    return DataError(
        f"{path}, record {record}: cut off or damaged: it begins at byte {start} and does not end"
        f" before the file does, at byte {end}. Copy or convert the file again."
    )
