"""Detects the layout of shower files by content and reads them in GeV."""

from __future__ import annotations

import glob
import hashlib
import importlib
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from cloudgan.core.documents import open_regular
from cloudgan.core.errors import DataError, install_command
from cloudgan.core.user_text import check_text
from cloudgan.data.record_checksums import HEADER_BYTES
from cloudgan.data.shards.manifest import MANIFEST, SHARD_SUFFIX, read_manifest
from cloudgan.data.shards.reader import ShardReader
from cloudgan.data.shards.shower_record import CELLS, COLUMNS, VALUES
from cloudgan.data.sources.hdf5 import Hdf5File
from cloudgan.data.sources.raw_showers import check_columns, check_ecal, non_empty
from cloudgan.data.tfrecord_format import feature_names, record_extents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.progress import Progress
    from cloudgan.data.showers import Showers
    from cloudgan.data.sources.raw_showers import RawFile

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
GZIP_SIGNATURE = b"\x1f\x8b"
BLOCK = 64
HDF5_SUFFIXES = (".h5", ".hdf5")
SUFFIXES = (*HDF5_SUFFIXES, SHARD_SUFFIX, ".tfrecords")
TFRECORD_READER = "cloudgan.data.sources.tfrecord"  # imported on use: it needs TensorFlow
KNOWN = (
    "HDF5 with ECAL and energy (or target), a published 3DGAN TFRecord file, or a folder of shards"
    f" with {MANIFEST} written by convert"
)


@dataclass(frozen=True)
class ShowerSource:
    """One or several files of showers of one shape, read in order."""

    files: tuple[RawFile, ...]

    @property
    def count(self) -> int:
        """Showers in all files."""
        return sum(file.info.records for file in self.files)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Cells of a shower in x, y and depth."""
        return self.files[0].info.shape

    @property
    def particles(self) -> frozenset[str]:
        """Primary particles that the files state; empty: none states one."""
        return frozenset(file.info.particle for file in self.files if file.info.particle)

    def digests(self) -> frozenset[str]:
        """Returns the SHA-256 of the files, for shards of those that they were made of."""
        found: set[str] = set()
        for file in self.files:
            folder = file.path.is_dir()
            found |= read_manifest(file.path).digests() if folder else {file_sha256(file.path)}
        return frozenset(found)

    def describe(self) -> tuple[str, ...]:
        """Returns sentences about layouts and units."""
        return tuple(line for file in self.files for line in file.describe())

    def blocks(self, size: int, omitted: list[int] | None = None) -> Iterator[Showers]:
        """Yields all showers in GeV, at most `size` at a time.

        Args:
            size: Showers in a block.
            omitted: Receives the numbers of empty showers, which are then left out.

        Raises:
            DataError: A record is damaged; the message names file and record.
        """
        for file in self.files:
            found = file.raw_blocks(size) if omitted is None else non_empty(file, size, omitted)
            for block in found:
                yield block.to_showers(file.info)


def file_sha256(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(source: ShowerSource, progress: Progress) -> int:
    """Reads every shower: compares checksums with records and manifest, and checks all numbers.

    Returns:
        The number of empty showers, which training, conversion and a reference leave out.

    Raises:
        DataError: A file is damaged or incomplete, or holds fewer showers than it states; names file
            and record.
    """
    progress.start("Verifying", source.count, "showers")
    empty = 0
    for file in source.files:
        found = 0
        for block in file.raw_blocks(BLOCK):
            check_ecal(block.ecal, str(file.path), found)
            check_columns(block.columns, str(file.path), found, file.info.energy_per_gev)
            empty += int(block.is_empty(file.info).sum())
            found += len(block)
            progress.advance(len(block))
        if found != file.info.records:
            raise DataError(
                f"{file.path} holds {found} showers of {file.info.name}, it states {file.info.records}"
            )
    return empty


def open_source(paths: str, unit: str = "") -> ShowerSource:
    """Opens a file, a glob, a folder, or a comma-separated list of them.

    Args:
        paths: What to open.
        unit: Unit of ECAL in files that were not written by cloudgan and state none; "": as detected.

    Raises:
        DataError: No file is found, a layout or a unit is unknown, or the files differ in shape.
    """
    files: list[RawFile] = []
    for path in _expanded(paths):
        if not _exists(path):
            raise DataError(f"{path} does not exist")
        files += _open_folder(path, unit) if path.is_dir() else _open_file(path, unit)
    first = files[0].info
    for file in files:
        if file.info.shape != first.shape:
            raise DataError(
                f"{file.info.name} has showers of {file.info.shape} cells and {first.name} of"
                f" {first.shape}: read them separately"
            )
    return ShowerSource(tuple(files))


def _expanded(paths: str) -> list[Path]:
    found = []
    for part in filter(None, (piece.strip() for piece in paths.split(","))):
        if glob.has_magic(part) and not _exists(part):
            matches = sorted(glob.glob(part, recursive=True))  # noqa: PTH207 - may be absolute
            if not matches:
                raise DataError(f"{part} matches no file")
            found += matches
        else:
            found.append(part)
    if not found:
        raise DataError(f"no data given; valid: {KNOWN}")
    return [Path(path) for path in found]


def _exists(path: Path | str) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - False for a name that is too long too


def _open_folder(folder: Path, unit: str) -> tuple[RawFile, ...]:
    if (folder / MANIFEST).exists() or any(folder.glob(f"showers-*{SHARD_SUFFIX}")):
        return ShardReader(folder).files()
    paths = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)
    if not paths:
        raise DataError(f"{folder} holds no showers; valid: {KNOWN}")
    return tuple(file for path in paths for file in _open_file(path, unit))


def _open_file(path: Path, unit: str) -> tuple[RawFile, ...]:
    check_text("a file of the showers", str(path))  # the manifest and the record name it
    with open_regular(path) as file:
        head = file.read(HEADER_BYTES)
    if not head:
        raise DataError(f"{path} is empty (0 bytes)")
    if path.name == MANIFEST:
        return ShardReader(path.parent).files()
    if head.startswith(HDF5_SIGNATURE) or path.suffix in HDF5_SUFFIXES:
        return (Hdf5File(path, unit),)
    if head.startswith(GZIP_SIGNATURE):
        raise DataError(f"{path} is compressed with gzip: unpack it first ({_unpack(path.name)})")
    features = _features_of_first_record(path)
    if {CELLS, COLUMNS, VALUES} <= features:
        raise DataError(f"{path} is one shard of a set: give its folder, {path.parent}")
    if not features and path.suffix not in SUFFIXES:
        raise DataError(f"{path} has an unknown layout; valid: {KNOWN}")
    return (_open_tfrecord(path, features, unit),)


def _unpack(name: str) -> str:
    """Returns the command that unpacks a file; gunzip refuses names without .gz."""
    if name.endswith((".tar.gz", ".tgz")):
        return f"tar -xzf {name}"
    return f"gunzip {name}" if name.endswith(".gz") else f"gunzip -c {name} > unpacked-{name}"


def _features_of_first_record(path: Path) -> set[str]:
    """Names the features of the first TFRecord record; empty if the file is something else."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        size = int.from_bytes(content[:8], "little")
        with memoryview(content) as whole, whole[HEADER_BYTES : HEADER_BYTES + size] as record:
            return feature_names(record)


def _open_tfrecord(path: Path, features: set[str], unit: str) -> RawFile:
    record_extents(path)  # reports a truncated record before TensorFlow is loaded
    try:
        reader = importlib.import_module(TFRECORD_READER)
    except ImportError as error:
        raise DataError(
            f"{path} is a TFRecord file: reading it needs TensorFlow; run {install_command('train')}"
        ) from error
    return cast("RawFile", reader.open_tfrecord(path, features, unit))
