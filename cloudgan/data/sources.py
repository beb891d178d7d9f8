"""Detects the layout of shower files by content and reads them in GeV."""

from __future__ import annotations

import glob
import hashlib
import importlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cloudgan.core import settings
from cloudgan.core.documents import open_regular
from cloudgan.core.errors import DataError, install_command
from cloudgan.core.local_path import missing_file
from cloudgan.core.progress import Progress
from cloudgan.core.user_text import check_text
from cloudgan.data.hdf5 import open_hdf5
from cloudgan.data.layouts import Layout
from cloudgan.data.manifest import MANIFEST, PART_SUFFIX, read_manifest
from cloudgan.data.showers import Showers
from cloudgan.data.store import Store
from cloudgan.data.tfrecord import HEADER_BYTES, is_tfrecord, record_extents
from cloudgan.data.units import RawFile, check_columns, check_ecal

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
GZIP_SIGNATURE = b"\x1f\x8b"
NUMPY_SIGNATURE = b"\x93NUMPY"
BLOCK = 64
HDF5_SUFFIXES = (".h5", ".hdf5")
TFRECORD_SUFFIXES = (".tfrecord", ".tfrecords")
TFRECORD_READER = "cloudgan.data.published"  # imported on use: it needs TensorFlow
KNOWN = (
    "HDF5 with ECAL and energy (or target) or of another known layout, a published 3DGAN TFRecord file, or a store: a folder"
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
    def layout(self) -> Layout | None:
        """Layout and geometry of the files; None: 3DGAN's."""
        return self.files[0].info.dataset

    @property
    def particles(self) -> frozenset[str]:
        """Primary particles that the files state; empty: none states one."""
        return frozenset(file.info.particle for file in self.files if file.info.particle)

    def digests(self) -> frozenset[str]:
        """Returns the SHA-256 of the files, for a store of those that it was made of."""
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

        `omitted` receives the numbers of empty showers, which are then left out.
        """
        for file in self.files:
            blocks = file.raw_blocks(size) if omitted is None else file.non_empty(size, omitted)
            for block in blocks:
                yield block.to_showers(file.info)


def file_sha256(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(source: ShowerSource, progress: Progress) -> int:
    """Reads every shower: compares checksums with records and manifest, and checks all numbers.

    Returns:
        The number of empty showers, which training, conversion and a reference leave out.
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


def open_source(paths: str, unit: str = "", binning: str = "") -> ShowerSource:
    """Opens a file, a glob, a folder, or a comma-separated list of them.

    `unit` is that of ECAL in files that were not written by cloudgan and state none, by default as detected.
    `binning` is a binning XML or dataset.yaml of HDF5 files; by default the layout is recognised by its keys.
    """
    files: list[RawFile] = []
    for path in _expanded(paths):
        if not _exists(path):
            raise missing_file(path)
        files += (_open_folder if path.is_dir() else _open_file)(path, unit, binning)
    first = files[0].info
    for file in files:
        if file.info.shape != first.shape:
            raise DataError(
                f"{file.info.name} has showers of {file.info.shape} cells and {first.name} of"
                f" {first.shape}: read them separately"
            )
        geometries = [
            info.dataset.geometry if info.dataset else None for info in (first, file.info)
        ]
        if geometries[0] != geometries[1]:
            raise DataError(
                f"{file.info.name} and {first.name} have cells of different geometries: read them separately"
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


def _open_folder(folder: Path, unit: str, binning: str) -> tuple[RawFile, ...]:
    if (folder / MANIFEST).exists() or any(folder.glob(f"part-*{PART_SUFFIX}")):
        return Store(folder).files()
    known = (*HDF5_SUFFIXES, *TFRECORD_SUFFIXES)
    if not (paths := sorted(path for path in folder.iterdir() if path.suffix in known)):
        raise DataError(f"{folder} holds no showers; valid: {KNOWN}")
    return tuple(file for path in paths for file in _open_file(path, unit, binning))


def _open_file(path: Path, unit: str, binning: str) -> tuple[RawFile, ...]:
    check_text("a file of the showers", str(path))  # the manifest and the record name it
    with open_regular(path) as file:
        head = file.read(HEADER_BYTES)
    if not head:
        raise DataError(f"{path} is empty (0 bytes)")
    if path.name == MANIFEST:
        return Store(path.parent).files()
    if head.startswith(HDF5_SIGNATURE) or path.suffix in HDF5_SUFFIXES:
        return (open_hdf5(path, unit, binning),)
    if head.startswith(GZIP_SIGNATURE):
        unpack = f"gunzip -c {path.name} > unpacked-{path.name}"  # gunzip refuses names without .gz
        if path.name.endswith((".tar.gz", ".tgz")):
            unpack = f"tar -xzf {path.name}"
        elif path.name.endswith(".gz"):
            unpack = f"gunzip {path.name}"
        raise DataError(f"{path} is compressed with gzip: unpack it first ({unpack})")
    if head.startswith(NUMPY_SIGNATURE):
        raise DataError(f"{path} is one file of a store: give its folder, {path.parent}")
    if not is_tfrecord(head) and path.suffix not in TFRECORD_SUFFIXES:
        raise DataError(f"{path} has an unknown layout; valid: {KNOWN}")
    record_extents(path)  # names a damaged record before TensorFlow is loaded
    settings.quiet_tensorflow()
    try:
        published = importlib.import_module(TFRECORD_READER)
    except ImportError as error:
        raise DataError(
            f"{path} is a TFRecord file: reading it needs TensorFlow; run {install_command('train')}"
        ) from error
    found: RawFile = published.open_tfrecord(path, unit)
    return (found,)
