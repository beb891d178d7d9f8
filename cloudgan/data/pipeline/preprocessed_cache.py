"""Cache of preprocessed showers beside their shards, written once per preprocessing and reused by later runs.

The file name has a key of the manifest (with the checksums of all shards), of the preprocessing, and of
its result for fixed showers on this machine, so a file always equals what decoding would give. If no file
can be written, showers are decoded on demand. The first HEAD_BYTES of a file hold one line, padded with
blanks: a checksum and JSON with the position of each array. The last array holds the checksums of the
bytes between head and itself, CHECKED_BYTES each.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import shutil
import sys
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from cloudgan.core.atomic_file import atomic_writer, unfinished
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError, DataError
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.pipeline.preprocessing import PreprocessedShowers
from cloudgan.data.shards.manifest import MANIFEST
from cloudgan.data.shards.reader import SparseShowers
from cloudgan.data.sparse_showers import SparseCells, cell_dtype

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]
    Extent = tuple[str, int, int]  # dtype, how many, first byte
    from collections.abc import Callable, Iterable, Iterator

    from cloudgan.data.pipeline.preprocessing import Preprocessing

HEAD_BYTES = 4096

CHECKED_BYTES = 16 << 20

COLUMNS = ("energy", "angle", "ecal")

_ALIGNED_BYTES = 64


class NoCacheError(CloudganError):
    """The cache cannot be written or read; the message states the reason."""


@contextlib.contextmanager
def preprocessed_writer(path: Path, shape: tuple[int, int, int]) -> Iterator[PreprocessedWriter]:
    """Yields a writer of images of `shape`; what it wrote replaces `path` when the block succeeds.

    Raises:
        NoCacheError: The disk is full or not writable.
    """
    with (
        atomic_writer(path, error_class=NoCacheError) as file,
        # Unnamed: the cells are copied behind the values when all values are written.
        tempfile.TemporaryFile(dir=path.parent) as cells,
    ):
        writer = PreprocessedWriter(file, cells, shape)
        yield writer
        writer.finish()


class PreprocessedWriter:
    """Appends preprocessed showers to an open file."""

    def __init__(self, file: BinaryIO, cells: BinaryIO, shape: tuple[int, int, int]) -> None:
        self._file = file
        self._cells = cells
        self._shape = shape
        self._sizes: list[NDArray[np.int64]] = []
        self._columns: dict[str, list[NDArray[np.float32]]] = {name: [] for name in COLUMNS}
        self._extents: dict[str, Extent] = {}
        file.seek(HEAD_BYTES)

    def append(self, showers: PreprocessedShowers) -> None:
        """Appends showers."""
        image = showers.image
        self._file.write(image.value.astype("<f4", copy=False).tobytes())
        self._cells.write(image.cell.astype(cell_dtype(self._shape), copy=False).tobytes())
        self._sizes.append(np.diff(image.first))
        for name, parts in self._columns.items():
            parts.append(getattr(showers, name))

    def finish(self) -> None:
        """Writes the other arrays, the checksums and the head."""
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

    def _write(self, name: str, values: NDArray[Any]) -> None:
        self._align()
        self._extents[name] = (values.dtype.str, values.size, self._file.tell())
        self._file.write(values.tobytes())

    def _align(self) -> None:
        self._file.write(bytes(-self._file.tell() % _ALIGNED_BYTES))


def open_preprocessed(path: Path, progress: Progress) -> PreprocessedShowers:
    """Maps a file into memory after checking every checksum.

    Raises:
        DataError: The file is damaged or truncated.
        OSError: The file is missing or not readable.
    """
    with path.open("rb") as file:
        try:
            shape, extents = _read_head(file.read(HEAD_BYTES))
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            arrays = {name: np.frombuffer(content, *extent) for name, extent in extents.items()}
            found = _checksums(content, extents["checks"][-1], progress)
            if not np.array_equal(found, arrays["checks"]):
                raise ValueError("a checksum is wrong")  # noqa: TRY301 - reported with the others
            return _prepared(arrays, shape)
        except (DataError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is damaged: {error}") from error


def _prepared(arrays: Arrays, shape: tuple[int, int, int]) -> PreprocessedShowers:
    images = SparseCells(arrays["cell"], arrays["value"], arrays["first"], shape)
    return PreprocessedShowers(images, *(arrays[name].reshape(-1, 1) for name in COLUMNS))


def _head(shape: tuple[int, int, int], extents: dict[str, Extent]) -> bytes:
    fields = json.dumps({"shape": shape, "arrays": extents}).encode()
    text = fields.ljust(HEAD_BYTES - len("01234567 \n"))
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _read_head(head: bytes) -> tuple[tuple[int, int, int], dict[str, Extent]]:
    checksum, _, text = head.removesuffix(b"\n").partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        raise ValueError("the checksum of its head is wrong")
    fields = parse_json(text, "head")
    x, y, z = fields["shape"]
    return (x, y, z), fields["arrays"]


def _checksums(content: mmap.mmap, end: int, progress: Progress) -> NDArray[np.uint32]:
    """Returns the checksums of the bytes between the head and `end`, with one thread per core."""
    progress.start("Checking preprocessed images", end - HEAD_BYTES, "bytes")
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


if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

FOLDER = "preprocessed"

MOST_FILES = 4

SPARE_BYTES = 1 << 30

"""Free disk space that remains for checkpoints and logs."""

_FORMAT = 1

_SUFFIX = ".cells"


class CacheRequest(NamedTuple):
    """What a cache contains: all showers of a dataset.

    Attributes:
        bytes: Approximate size.
        blocks: Yields all preprocessed showers in order, in blocks.
    """

    shards: Path
    view: Preprocessing
    bytes: int
    blocks: Callable[[], Iterable[PreprocessedShowers]]


def cache_path(shards: Path, view: Preprocessing) -> Path:
    """Returns the path of the cache of a folder of shards."""
    key = hashlib.sha256(json.dumps([_FORMAT, np.__version__, *astuple(view)]).encode())
    key.update((shards / MANIFEST).read_bytes())
    key.update(_bits_of_this_machine(view))
    name = "x".join(map(str, view.shape))
    return shards / FOLDER / f"{name}-{key.hexdigest()[:16]}{_SUFFIX}"


def open_or_make(wanted: CacheRequest, progress: Progress) -> PreprocessedShowers:
    """Maps the preprocessed showers into memory; writes the file first if it is missing.

    Of several concurrent processes one writes it and the others wait.

    Raises:
        NoCacheError: The file is missing and cannot be written here.
        DataError: A shard is damaged.
    """
    path = cache_path(wanted.shards, wanted.view)
    try:
        found = _opened(path, progress)
        if found is None:
            path.parent.mkdir(exist_ok=True)
            with _alone(path, progress):
                # Another process may have written it meanwhile; its errors are reported already.
                found = _opened(path, Silent()) or _made(path, wanted, progress)
    except OSError as error:
        raise NoCacheError(f"{path.parent} cannot be written ({error.strerror})") from error
    return found


def _opened(path: Path, progress: Progress) -> PreprocessedShowers | None:
    """Maps an existing, undamaged file."""
    try:
        found = open_preprocessed(path, progress)
    except FileNotFoundError:
        return None
    except DataError as error:
        progress.say(f"{error}; the cache is written again.")
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # the least recently used are deleted first
    return found


def _made(path: Path, wanted: CacheRequest, progress: Progress) -> PreprocessedShowers:
    for left in unfinished(path):
        left.unlink(missing_ok=True)
    _make_room(path, wanted.bytes)
    with preprocessed_writer(path, wanted.view.shape) as writer:
        for block in wanted.blocks():
            writer.append(block)
    return open_preprocessed(path, progress)


def _make_room(path: Path, needed: int) -> None:
    """Deletes the least recently used files to make room for one of `needed` bytes."""
    others = [file for file in path.parent.glob(f"*{_SUFFIX}") if file != path]
    others.sort(key=lambda file: file.stat().st_mtime)
    for old in others[: max(0, len(others) - MOST_FILES + 1)]:
        old.unlink(missing_ok=True)
    free = shutil.disk_usage(path.parent).free
    if free < needed + SPARE_BYTES:
        raise NoCacheError(
            f"{path.parent} has too little space ({needed / 1e9:.2g} GB and {SPARE_BYTES / 1e9:.2g} GB of"
            f" reserve needed; {free / 1e9:.2g} GB free)"
        )


@contextlib.contextmanager
def _alone(path: Path, progress: Progress) -> Iterator[None]:
    """Waits until no other process on this disk writes the same file."""
    with path.with_suffix(".lock").open("a") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress.start("Waiting for another process that preprocesses these images")
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError:
                pass  # a shared disk without locks: each process writes it, the last one remains
        yield


def _bits_of_this_machine(view: Preprocessing) -> bytes:
    """Preprocesses fixed showers: NumPy's powers differ in the last bit between processors."""
    count, cells = 4, int(np.prod(view.shape))
    number = np.arange(count * 1024)
    cell = np.sort((number * 2654435761 % cells).reshape(count, -1), axis=1).reshape(-1)
    value = ((number * 48271 % 65521 + 1) * 1e-6).astype(np.float32)
    images = SparseCells(cell, value, np.arange(count + 1) * 1024, view.shape)
    energy = np.linspace(1, 100, count, dtype=np.float32)
    made = view.prepare(SparseShowers(images, {"energy": energy}))
    arrays = (made.image.value, made.energy, made.angle, made.ecal)
    return b"".join(array.tobytes() for array in arrays)
