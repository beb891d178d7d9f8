"""Sharded set of showers in a bucket: the manifest is uploaded last and read first."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.core.atomic_file import TEMPORARY_SUFFIX, atomic_writer
from cloudgan.core.errors import ConfigError, DataError, DiskFullError
from cloudgan.data.shards.integrity import check_shard
from cloudgan.data.shards.manifest import (
    MANIFEST,
    SHARD_SUFFIX,
    has_manifest,
    parse_manifest,
    read_manifest,
)
from cloudgan.storage.store import ObjectMissingError, StoreError, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.progress import Progress
    from cloudgan.data.shards.manifest import Manifest, ShardInfo
    from cloudgan.storage.store import Store

_TRANSFERS = 8  # concurrent: one connection does not use the full bandwidth
_STALE_SECONDS = 3600.0  # age of a temporary file whose writer was killed


def is_url(source: str) -> bool:
    """Whether a value of `--data`, a source or a target is a URL and not a path."""
    return "://" in source


@dataclass(frozen=True)
class BucketShards:
    """Shards under one prefix of a bucket."""

    store: Store

    @classmethod
    def from_url(cls, url: str) -> BucketShards:
        """Opens the store at `url` without sending a request.

        Raises:
            ConfigError: The URL names no store, or the cloud's SDK is not installed.
        """
        return cls(open_store(url))

    def require_absent(self, *, overwrite: bool) -> None:
        """Checks that the bucket has no complete set, before a conversion starts.

        Raises:
            ConfigError: There is one, and not `overwrite`.
        """
        if MANIFEST in self.store.list(MANIFEST) and not overwrite:
            raise ConfigError(f"{self.store.url} already exists; give --overwrite to replace it")

    def is_downloaded(self, folder: Path) -> bool:
        """Whether `folder` holds a complete copy of this set.

        Raises:
            DataError: The bucket holds no complete set.
        """
        content = self._manifest()
        return has_manifest(folder) and (folder / MANIFEST).read_bytes() == content

    @property
    def count(self) -> int:
        """Number of showers in the set.

        Raises:
            DataError: The bucket holds no complete set.
        """
        return parse_manifest(self._manifest(), f"{self.store.url}/{MANIFEST}").records

    def is_copy_of(self, folder: Path) -> bool:
        """Whether the bucket holds a complete copy of the set in `folder`."""
        return MANIFEST in self.store.list(MANIFEST) and self.is_downloaded(folder)

    def upload(self, folder: Path, progress: Progress) -> None:
        """Uploads a local set; until it is complete, readers find none.

        Raises:
            DataError: A local shard differs from its manifest; names shard and record.
        """
        manifest = read_manifest(folder)
        progress.start(f"uploading to {self.store.url}", manifest.records, "showers")
        self.store.delete(MANIFEST)
        for shard in manifest.shards:
            check_shard(folder, shard)
            self.store.put(shard.name, folder / shard.name)
            progress.advance(shard.records)
        self.store.put(MANIFEST, folder / MANIFEST)

    def download(self, folder: Path, progress: Progress) -> None:
        """Downloads the set to `folder`, except shards that are there with the right checksum.

        Downloads several shards concurrently, each atomically, and the manifest last. Removes shards
        of another set and temporary files of killed processes.

        Raises:
            DataError: The set is incomplete, or a shard differs from its manifest; names the record.
            DiskFullError: The disk is too small.
            StoreError: A shard cannot be downloaded; names it.
        """
        content = self._manifest()
        manifest = parse_manifest(content, f"{self.store.url}/{MANIFEST}")
        progress.start(f"downloading {self.store.url}", manifest.records, "showers")
        _remove_stale(folder, manifest, content)
        self._check_room(folder, manifest)
        pool = ThreadPoolExecutor(_TRANSFERS, thread_name_prefix="download")
        try:
            for shard in pool.map(lambda shard: self._download(shard, folder), manifest.shards):
                progress.advance(shard.records)
        finally:
            pool.shutdown(cancel_futures=True)
        with atomic_writer(folder / MANIFEST, error_class=StoreError) as file:
            file.write(content)

    def _check_room(self, folder: Path, manifest: Manifest) -> None:
        missing = sum(s.bytes for s in manifest.shards if not _has_size(s, folder / s.name))
        free = shutil.disk_usage(folder).free
        if missing > free:
            raise DiskFullError(
                f"{self.store.url} needs {missing / 1e9:.3g} GB more in {folder}, where {free / 1e9:.3g} GB"
                " are free; free space, or choose a folder on a larger disk"
            )

    def _download(self, shard: ShardInfo, folder: Path) -> ShardInfo:
        path = folder / shard.name
        if not _is_intact(shard, path):
            self.store.get(shard.name, path)
            check_shard(folder, shard, f"{self.store.url}/{shard.name}")
        return shard

    def _manifest(self) -> bytes:
        try:
            return self.store.read(MANIFEST)
        except ObjectMissingError as error:
            raise DataError(
                f"{self.store.url} holds no complete set of shards (no {MANIFEST}); create one with"
                f" `cloudgan convert FILE.h5 {self.store.url}`"
            ) from error


@contextmanager
def local_copy(source: str, progress: Progress) -> Iterator[str]:
    """Yields a local path of `source`; a set in a bucket is downloaded and removed after the block."""
    if not is_url(source):
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="cloudgan-") as folder:
        BucketShards.from_url(source).download(Path(folder), progress)
        yield folder


def _remove_stale(folder: Path, manifest: Manifest, content: bytes) -> None:
    """Removes files of other sets, their manifest first so that no incomplete set looks complete."""
    folder.mkdir(parents=True, exist_ok=True)
    old = folder / MANIFEST
    if old.is_file() and old.read_bytes() != content:
        old.unlink()
    names = {shard.name for shard in manifest.shards}
    for path in folder.glob(f"*{SHARD_SUFFIX}"):
        if path.name not in names:
            path.unlink(missing_ok=True)
    with tempfile.TemporaryFile(dir=folder) as now:  # its time stamp is of the file system's clock
        oldest = os.fstat(now.fileno()).st_mtime - _STALE_SECONDS
    for path in folder.glob(f"*{TEMPORARY_SUFFIX}"):
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)


def _has_size(shard: ShardInfo, path: Path) -> bool:
    return path.is_file() and path.stat().st_size == shard.bytes


def _is_intact(shard: ShardInfo, path: Path) -> bool:
    if not _has_size(shard, path):
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == shard.sha256
