"""Prepared showers beside their shards: made once for a view, used by every process and run after.

A file's name has a key made of the manifest, which holds the checksums of all shards, of the view,
and of what preparing made-up showers gives on this machine: a file never stands for other bits than
decoding would give. Where no file can be, showers are decoded when they are needed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
from dataclasses import astuple
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cloudgan.core.errors import DataError
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.manifest import MANIFEST
from cloudgan.data.prepared_file import UNFINISHED, PreparedWriter, open_prepared
from cloudgan.data.shards import SparseShowers
from cloudgan.data.sparse_showers import SparseCells

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from cloudgan.data.image_view import ImageView, Prepared

FOLDER = "prepared"
MOST_FILES = 4
SPARE_BYTES = 1 << 30
"""Stays free on the disk, for checkpoints and logs."""
_FORMAT = 1
_SUFFIX = ".cells"


class NoCacheError(Exception):
    """No file can be made or read; says why, for the sentence that tells it."""


class Wanted(NamedTuple):
    """What a cache holds: all showers of a set.

    Attributes:
        bytes: About how large it becomes.
        blocks: Prepares all showers, in order, some at a time.
    """

    shards: Path
    view: ImageView
    bytes: int
    blocks: Callable[[], Iterable[Prepared]]


def cache_path(shards: Path, view: ImageView) -> Path:
    """Returns where the prepared showers of a folder of shards are, or would be."""
    key = hashlib.sha256(json.dumps([_FORMAT, np.__version__, *astuple(view)]).encode())
    key.update((shards / MANIFEST).read_bytes())
    key.update(_bits_of_this_machine(view))
    name = "x".join(map(str, view.shape))
    return shards / FOLDER / f"{name}-{key.hexdigest()[:16]}{_SUFFIX}"


def open_or_make(wanted: Wanted, progress: Progress) -> Prepared:
    """Maps the prepared showers into memory; makes the file first where there is none.

    Several processes may ask at once: one makes it, the others wait.

    Raises:
        NoCacheError: There is none, and none can be made here.
        DataError: A shard is damaged.
    """
    path = cache_path(wanted.shards, wanted.view)
    try:
        found = _opened(path, progress)
        if found is None:
            path.parent.mkdir(exist_ok=True)
            with _alone(path, progress):
                # Another one may have made it meanwhile; what is wrong with it was told already.
                found = _opened(path, Silent()) or _made(path, wanted, progress)
    except OSError as error:
        raise NoCacheError(f"{path.parent} cannot be written ({error.strerror})") from error
    return found


def _opened(path: Path, progress: Progress) -> Prepared | None:
    """Maps a file that is there and whole."""
    try:
        found = open_prepared(path, progress)
    except FileNotFoundError:
        return None
    except DataError as error:
        progress.say(f"{error}; it is made anew.")
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # those not used for the longest time go first
    return found


def _made(path: Path, wanted: Wanted, progress: Progress) -> Prepared:
    for left in path.parent.glob(f"{path.name}.*{UNFINISHED}"):
        left.unlink(missing_ok=True)  # of a process that was killed
    _make_room(path, wanted.bytes)
    with PreparedWriter(path, wanted.view.shape) as writer:
        for block in wanted.blocks():
            writer.append(block)
    return open_prepared(path, progress)


def _make_room(path: Path, needed: int) -> None:
    """Removes the files that were not used for the longest time, for one more of `needed` bytes."""
    others = [file for file in path.parent.glob(f"*{_SUFFIX}") if file != path]
    others.sort(key=lambda file: file.stat().st_mtime)
    for old in others[: max(0, len(others) - MOST_FILES + 1)]:
        old.unlink(missing_ok=True)
    free = shutil.disk_usage(path.parent).free
    if free < needed + SPARE_BYTES:
        raise NoCacheError(
            f"{path.parent} has no room for them ({needed / 1e9:.2g} GB, and {SPARE_BYTES / 1e9:.2g} GB"
            f" to spare; {free / 1e9:.2g} GB are free)"
        )


@contextlib.contextmanager
def _alone(path: Path, progress: Progress) -> Iterator[None]:
    """Waits until no other process of the machines that share this disk makes the same file."""
    with path.with_suffix(".lock").open("a") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress.start("Waiting for another process that prepares these images")
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError:
                pass  # a shared disk without locks: each makes it, the last one stays
        yield


def _bits_of_this_machine(view: ImageView) -> bytes:
    """Prepares made-up showers: NumPy's powers differ in the last bit between processors."""
    count, cells = 4, int(np.prod(view.shape))
    number = np.arange(count * 1024)
    cell = np.sort((number * 2654435761 % cells).reshape(count, -1), axis=1).reshape(-1)
    value = ((number * 48271 % 65521 + 1) * 1e-6).astype(np.float32)
    images = SparseCells(cell, value, np.arange(count + 1) * 1024, view.shape)
    energy = np.linspace(1, 100, count, dtype=np.float32)
    made = view.prepare(SparseShowers(images, {"energy": energy}))
    arrays = (made.image.value, made.energy, made.angle, made.ecal)
    return b"".join(array.tobytes() for array in arrays)
