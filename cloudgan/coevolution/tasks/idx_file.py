"""Reads the idx files of MNIST, plain or compressed with gzip.

Format: two zero bytes, the type (8: unsigned bytes), the number of axes, the length of each axis as
a big-endian 32-bit number, then the values (http://yann.lecun.com/exdb/mnist/, read 2026-11-23).
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cloudgan.core.documents import open_regular
from cloudgan.core.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

CLASSES: Final = 10
MAX_BYTES: Final = 2**30
"""Largest content; the largest set of digits, EMNIST with 280,000, has 220 MB."""
_UNSIGNED_BYTES: Final = 8
_GZIP: Final = b"\x1f\x8b"
_MOST_EXPANSION: Final = 1032
"""Of deflate: 258 bytes in two bits (https://zlib.net/zlib_tech.html, read 2026-11-23)."""


def read_images(path: Path) -> Bytes:
    """Returns images, (N, rows, columns), from 0 to 255.

    Raises:
        DataError: The file cannot be read, is not an idx file of images, or is damaged.
    """
    return _read(path, "images", ("images", "rows", "columns"))


def read_labels(path: Path) -> Bytes:
    """Returns labels, (N,), from 0 to 9.

    Raises:
        DataError: The file cannot be read, is not an idx file of labels, is damaged, or a label is
            above 9.
    """
    labels = _read(path, "labels", ("labels",))
    wrong = np.flatnonzero(labels >= CLASSES)
    if len(wrong):
        raise DataError(
            f"{path}: label {wrong[0]} is {labels[wrong[0]]}; valid labels are 0 to {CLASSES - 1}"
        )
    return labels


def _read(path: Path, kind: str, axes: tuple[str, ...]) -> Bytes:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        is_packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        stream: Any = gzip.GzipFile(fileobj=file) if is_packed else file
        try:
            lengths = _lengths(path, stream.read(4 + 4 * len(axes)), kind, axes)
            expected = math.prod(lengths)
            # A header may claim any size: memory is allocated for what the file can hold.
            holds = size * _MOST_EXPANSION if is_packed else size - 4 - 4 * len(axes)
            content = b"" if expected > holds else stream.read(expected + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path}: damaged ({error}); copy or download it again") from error
    if len(content) != expected:
        found = "more" if len(content) > expected else "fewer"
        shape = " x ".join(map(str, lengths))
        raise DataError(
            f"{path}: damaged: its header names {shape} bytes ({', '.join(axes)}), and {found} follow;"
            " copy or download it again"
        )
    return np.frombuffer(content, np.uint8).reshape(lengths)


def _lengths(path: Path, header: bytes, kind: str, axes: tuple[str, ...]) -> tuple[int, ...]:
    """Returns the length of each axis."""
    magic = bytes((0, 0, _UNSIGNED_BYTES, len(axes)))
    if header[:4] != magic:
        raise DataError(
            f"{path}: not an idx file of {kind}: it begins with {header[:4].hex(' ') or 'nothing'};"
            f" expected {magic.hex(' ')}, as in the files of MNIST"
        )
    if len(header) != 4 + 4 * len(axes):
        raise DataError(f"{path}: ends within its header; copy or download it again")
    lengths = struct.unpack(f">{len(axes)}I", header[4:])
    if not all(lengths):
        empty = axes[lengths.index(0)]
        raise DataError(f"{path}: has no {empty}; give a file with {kind}")
    if math.prod(lengths) > MAX_BYTES:
        raise DataError(
            f"{path}: its header names {' x '.join(map(str, lengths))} bytes; valid are at most"
            f" {MAX_BYTES}"
        )
    return lengths
