"""Prepared showers in a file: the arrays of `Prepared` as they are, mapped into memory when read.

The first HEAD_BYTES hold one line, filled up with blanks: a checksum and JSON that says where each
array is. The last array holds the checksums of all bytes behind the head and before it, CHECKED_BYTES
each.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import secrets
import shutil
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from cloudgan.core.errors import DataError
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.image_view import Prepared
from cloudgan.data.sparse_showers import SparseCells, cell_dtype

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]
    Extent = tuple[str, int, int]  # dtype, how many, first byte

HEAD_BYTES = 4096
CHECKED_BYTES = 16 << 20
UNFINISHED = ".tmp"
COLUMNS = ("energy", "angle", "ecal")
_ALIGNED_BYTES = 64


class PreparedWriter:
    """Writes a file beside and renames it when the block ends well; else nothing is left of it.

    Raises OSError where the disk is full or forbids it.
    """

    def __init__(self, path: Path, shape: tuple[int, int, int]) -> None:
        self._path = path
        self._shape = shape
        name = f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}{UNFINISHED}"
        self._beside = path.with_name(name)
        self._sizes: list[NDArray[np.int64]] = []
        self._columns: dict[str, list[NDArray[np.float32]]] = {name: [] for name in COLUMNS}
        self._extents: dict[str, Extent] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opened:
            opened.callback(self._beside.unlink, missing_ok=True)
            self._file = opened.enter_context(self._beside.open("x+b"))
            self._file.seek(HEAD_BYTES)
            # Has no name: the cells move behind the values when all values are there.
            self._cells = opened.enter_context(tempfile.TemporaryFile(dir=self._path.parent))
            self._opened = opened.pop_all()
        return self

    def append(self, showers: Prepared) -> None:
        """Adds showers behind those that are there."""
        image = showers.image
        self._file.write(image.value.astype("<f4", copy=False).tobytes())
        self._cells.write(image.cell.astype(cell_dtype(self._shape), copy=False).tobytes())
        self._sizes.append(np.diff(image.first))
        for name, parts in self._columns.items():
            parts.append(getattr(showers, name))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._opened:
            if kind is None:
                self._finish()
                self._beside.replace(self._path)

    def _finish(self) -> None:
        first = np.concatenate(([0], np.cumsum(np.concatenate(self._sizes)))).astype("<i8")
        count = int(first[-1])
        self._extents["value"] = ("<f4", count, HEAD_BYTES)
        self._align()
        self._extents["cell"] = (cell_dtype(self._shape).str, count, self._file.tell())
        self._cells.seek(0)
        shutil.copyfileobj(self._cells, self._file, CHECKED_BYTES)
        self._write("first", first)
        for name, parts in self._columns.items():
            self._write(name, np.concatenate(parts).astype("<f4", copy=False))
        self._align()
        self._file.flush()
        with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            checks = _checksums(content, len(content), Silent())
        self._write("checks", checks)
        self._file.seek(0)
        self._file.write(_head(self._shape, self._extents))
        self._file.flush()
        os.fsync(self._file.fileno())

    def _write(self, name: str, values: NDArray[Any]) -> None:
        self._align()
        self._extents[name] = (values.dtype.str, values.size, self._file.tell())
        self._file.write(values.tobytes())

    def _align(self) -> None:
        self._file.write(bytes(-self._file.tell() % _ALIGNED_BYTES))


def open_prepared(path: Path, progress: Progress) -> Prepared:
    """Maps a file into memory when every checksum has been found right.

    Raises:
        DataError: It is damaged or cut off.
        OSError: There is none, or it cannot be read.
    """
    with path.open("rb") as file:
        try:
            shape, extents = _read_head(file.read(HEAD_BYTES))
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            arrays = {name: np.frombuffer(content, *extent) for name, extent in extents.items()}
            found = _checksums(content, extents["checks"][-1], progress)
            if not np.array_equal(found, arrays["checks"]):
                raise ValueError("a checksum is wrong")  # noqa: TRY301 - told with the others
            return _prepared(arrays, shape)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is damaged: {error}") from error


def _prepared(arrays: Arrays, shape: tuple[int, int, int]) -> Prepared:
    images = SparseCells(arrays["cell"], arrays["value"], arrays["first"], shape)
    return Prepared(images, *(arrays[name].reshape(-1, 1) for name in COLUMNS))


def _head(shape: tuple[int, int, int], extents: dict[str, Extent]) -> bytes:
    told = json.dumps({"shape": shape, "arrays": extents}).encode()
    text = told.ljust(HEAD_BYTES - len("01234567 \n"))
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _read_head(head: bytes) -> tuple[tuple[int, int, int], dict[str, Extent]]:
    checksum, _, text = head.removesuffix(b"\n").partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        raise ValueError("its head is not what was written")
    told = json.loads(text)
    x, y, z = told["shape"]
    return (x, y, z), told["arrays"]


def _checksums(content: mmap.mmap, end: int, progress: Progress) -> NDArray[np.uint32]:
    """Sums up what stands behind the head and before `end`, by as many threads as there are cores."""
    progress.start("Checking prepared images", end - HEAD_BYTES, "bytes")
    starts = range(HEAD_BYTES, end, CHECKED_BYTES)
    found = np.zeros(len(starts), "<u4")
    with (
        memoryview(content) as whole,
        ThreadPoolExecutor(this_machine().cores, "check") as pool,
    ):
        parts = (whole[at : min(at + CHECKED_BYTES, end)] for at in starts)
        for number, checksum in enumerate(pool.map(zlib.crc32, parts)):
            found[number] = checksum
            progress.advance(min(CHECKED_BYTES, end - starts[number]))
    return found
