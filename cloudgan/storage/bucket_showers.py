"""A store of showers in a bucket: the manifest is uploaded last and read first."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cloudgan.core.atomic_file import TEMPORARY_SUFFIX, atomic_writer
from cloudgan.core.errors import ConfigError, DataError, DiskFullError
from cloudgan.core.progress import Progress
from cloudgan.data.manifest import (
    MANIFEST,
    PART_SUFFIX,
    Manifest,
    StoredFile,
    check_file,
    has_manifest,
    parse_manifest,
    read_manifest,
)
from cloudgan.storage.store import ObjectMissingError, Store, StoreError, open_store

_TRANSFERS = 8  # concurrent: one connection does not use the full bandwidth
_STALE_SECONDS = 3600.0  # age of a temporary file whose writer was killed


def is_url(source: str) -> bool:
    """Whether a value of `--data`, a source or a target is a URL and not a path."""
    return "://" in source


@dataclass(frozen=True)
class BucketShowers:
    """The files of a store of showers under one prefix of a bucket."""

    store: Store

    @classmethod
    def from_url(cls, url: str) -> BucketShowers:
        """Opens the store at `url` without sending a request."""
        return cls(open_store(url))

    def require_absent(self, *, overwrite: bool) -> None:
        """Checks that the bucket has no complete store, before a conversion starts."""
        if MANIFEST in self.store.list(MANIFEST) and not overwrite:
            raise ConfigError(f"{self.store.url} already exists; give --overwrite to replace it")

    def is_downloaded(self, folder: Path) -> bool:
        """Whether `folder` holds a complete copy of this store.

        Raises:
            DataError: The bucket holds no complete store.
        """
        content = self._manifest()
        return has_manifest(folder) and (folder / MANIFEST).read_bytes() == content

    @property
    def manifest(self) -> Manifest:
        """The manifest of the store.

        Raises:
            DataError: The bucket holds no complete store.
        """
        return parse_manifest(self._manifest(), f"{self.store.url}/{MANIFEST}")

    @property
    def count(self) -> int:
        """Number of showers in the store."""
        return self.manifest.records

    def is_copy_of(self, folder: Path) -> bool:
        """Whether the bucket holds a complete copy of the store in `folder`."""
        return MANIFEST in self.store.list(MANIFEST) and self.is_downloaded(folder)

    def upload(self, folder: Path, progress: Progress) -> None:
        """Uploads a local store; until it is complete, readers find none.

        Raises:
            DataError: A local file differs from its manifest; names it.
        """
        files = tuple(read_manifest(folder).files)
        progress.start(f"uploading to {self.store.url}", sum(one.bytes for one in files), "bytes")
        self.store.delete(MANIFEST)
        for file in files:
            check_file(folder, file)
            self.store.put(file.name, folder / file.name)
            progress.advance(file.bytes)
        self.store.put(MANIFEST, folder / MANIFEST)

    def download(self, folder: Path, progress: Progress) -> None:
        """Downloads the store to `folder`, except files that are there with the right checksum.

        Downloads several files concurrently, each atomically, and the manifest last. Removes files
        of another store and temporary files of killed processes.

        Raises:
            DataError: The store is incomplete, or a file differs from its manifest; names it.
            DiskFullError: The disk is too small.
            StoreError: A file cannot be downloaded; names it.
        """
        content = self._manifest()
        manifest = parse_manifest(content, f"{self.store.url}/{MANIFEST}")
        files = tuple(manifest.files)
        progress.start(f"downloading {self.store.url}", sum(one.bytes for one in files), "bytes")
        _remove_stale(folder, manifest, content)
        missing = sum(file.bytes for file in files if not _has_size(file, folder))
        free = shutil.disk_usage(folder).free
        if missing > free:
            raise DiskFullError(
                f"{self.store.url} needs {missing / 1e9:.3g} GB more in {folder}, where {free / 1e9:.3g} GB"
                " are free; free space, or choose a folder on a larger disk"
            )
        pool = ThreadPoolExecutor(_TRANSFERS, thread_name_prefix="download")
        try:
            for file in pool.map(lambda file: self._download(file, folder), files):
                progress.advance(file.bytes)
        finally:
            pool.shutdown(cancel_futures=True)
        with atomic_writer(folder / MANIFEST, error_class=StoreError) as written:
            written.write(content)

    def _download(self, file: StoredFile, folder: Path) -> StoredFile:
        path = folder / file.name
        if not (_has_size(file, folder) and StoredFile.of(path) == file):
            self.store.get(file.name, path)
            check_file(folder, file, f"{self.store.url}/{file.name}")
        return file

    def _manifest(self) -> bytes:
        try:
            return self.store.read(MANIFEST)
        except ObjectMissingError as error:
            raise DataError(
                f"{self.store.url} holds no complete store (no {MANIFEST}); create one with"
                f" `cloudgan convert FILE.h5 {self.store.url}`"
            ) from error


@contextmanager
def local_copy(source: str, progress: Progress) -> Iterator[str]:
    """Yields a local path of `source`; a store in a bucket is downloaded and removed after the block."""
    if not is_url(source):
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="cloudgan-") as folder:
        BucketShowers.from_url(source).download(Path(folder), progress)
        yield folder


def _remove_stale(folder: Path, manifest: Manifest, content: bytes) -> None:
    """Removes files of other stores, their manifest first so that no incomplete store looks complete."""
    folder.mkdir(parents=True, exist_ok=True)
    old = folder / MANIFEST
    if old.is_file() and old.read_bytes() != content:
        old.unlink()
    names = {file.name for file in manifest.files}
    for path in folder.glob(f"part-*{PART_SUFFIX}"):
        if path.name not in names:
            path.unlink(missing_ok=True)
    with tempfile.TemporaryFile(dir=folder) as now:  # its time stamp is of the file system's clock
        oldest = os.fstat(now.fileno()).st_mtime - _STALE_SECONDS
    for path in folder.glob(f"*{TEMPORARY_SUFFIX}"):
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)


def _has_size(file: StoredFile, folder: Path) -> bool:
    path = folder / file.name
    return path.is_file() and path.stat().st_size == file.bytes
