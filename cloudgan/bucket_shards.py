"""A sharded set of showers in a bucket: its manifest is put there last and asked for first."""

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

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.data.manifest import (
    MANIFEST,
    SHARD_SUFFIX,
    has_manifest,
    parse_manifest,
    read_manifest,
)
from cloudgan.stores import ObjectMissingError, open_store
from cloudgan.stores.whole_file import UNFINISHED, whole_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.progress import Progress
    from cloudgan.data.manifest import Manifest, ShardInfo
    from cloudgan.stores import Store

_TRANSFERS = 8  # at a time: one alone does not fill the line to a bucket
_ABANDONED_SECONDS = 3600.0  # no shard takes that long: who wrote to the file was killed


def is_bucket(named: str) -> bool:
    """Whether `--data`, a source or a target is a URL and no path."""
    return "://" in named


@dataclass(frozen=True)
class BucketShards:
    """Shards in a bucket, under one prefix."""

    store: Store

    @classmethod
    def at(cls, url: str) -> BucketShards:
        """Opens a place, without asking its server anything yet.

        Raises:
            ConfigError: It is no URL of a store, or the cloud's SDK is not installed.
            CredentialsError: No login for this cloud was found.
        """
        return cls(open_store(url))

    def refuse_existing(self, *, overwrite: bool) -> None:
        """Asks whether there is a finished set, so that nothing is converted in vain.

        Raises:
            ConfigError: There is one, and nobody said --overwrite.
        """
        if MANIFEST in self.store.list(MANIFEST) and not overwrite:
            raise ConfigError(f"{self.store.url} exists already; --overwrite replaces it")

    def is_in(self, folder: Path) -> bool:
        """Whether `folder` holds this very set, fetched to its end.

        Raises:
            DataError: There is no finished set.
        """
        content = self._manifest()
        return has_manifest(folder) and (folder / MANIFEST).read_bytes() == content

    @property
    def count(self) -> int:
        """How many showers the set holds.

        Raises:
            DataError: There is no finished set.
        """
        return parse_manifest(self._manifest(), f"{self.store.url}/{MANIFEST}").records

    def holds(self, folder: Path) -> bool:
        """Whether this very set is there to its end."""
        return MANIFEST in self.store.list(MANIFEST) and self.is_in(folder)

    def upload(self, folder: Path, progress: Progress) -> None:
        """Puts a local set there; while that lasts, readers find none."""
        manifest = read_manifest(folder)
        progress.start(f"uploading to {self.store.url}", manifest.records, "showers")
        self.store.delete(MANIFEST)
        for shard in manifest.shards:
            self.store.put(shard.name, folder / shard.name)
            progress.advance(shard.records)
        self.store.put(MANIFEST, folder / MANIFEST)

    def download(self, folder: Path, progress: Progress) -> None:
        """Fetches the set into `folder`; what is there already, and right, is not fetched again.

        Several shards arrive at a time, each whole or not at all, the manifest last. What an earlier set
        or a killed process left there goes.

        Raises:
            DataError: There is no finished set, a shard is not what its manifest says, or the disk has
                no room for those that are missing.
            StoreError: A shard cannot be fetched; names it.
        """
        content = self._manifest()
        manifest = parse_manifest(content, f"{self.store.url}/{MANIFEST}")
        progress.start(f"fetching {self.store.url}", manifest.records, "showers")
        _clear(folder, manifest, content)
        self._check_room(folder, manifest)
        pool = ThreadPoolExecutor(_TRANSFERS, thread_name_prefix="fetch")
        try:
            for shard in pool.map(lambda shard: self._fetch(shard, folder), manifest.shards):
                progress.advance(shard.records)
        finally:
            pool.shutdown(cancel_futures=True)
        with whole_file(folder / MANIFEST) as file:
            file.write(content)

    def _check_room(self, folder: Path, manifest: Manifest) -> None:
        missing = sum(s.bytes for s in manifest.shards if not _has_size(s, folder / s.name))
        free = shutil.disk_usage(folder).free
        if missing > free:
            raise DataError(
                f"{self.store.url} needs {missing / 1e9:.3g} GB more in {folder}, where {free / 1e9:.3g} GB"
                " are free; make room there, or name a place on a larger disk"
            )

    def _fetch(self, shard: ShardInfo, folder: Path) -> ShardInfo:
        path = folder / shard.name
        if not _is(shard, path):
            self.store.get(shard.name, path)
            if not _is(shard, path):
                raise DataError(
                    f"{self.store.url}/{shard.name} is not what its manifest says: run"
                    f" `cloudgan convert SOURCE {self.store.url} --overwrite`"
                )
        return shard

    def _manifest(self) -> bytes:
        try:
            return self.store.read(MANIFEST)
        except ObjectMissingError as error:
            raise DataError(
                f"{self.store.url} holds no finished set of shards (no {MANIFEST}); make one with"
                f" `cloudgan convert FILE.h5 {self.store.url}`"
            ) from error


@contextmanager
def fetched(source: str, progress: Progress) -> Iterator[str]:
    """Gives the path of `source`: itself, or a copy of a bucket's that goes when the block ends."""
    if not is_bucket(source):
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="cloudgan-") as folder:
        BucketShards.at(source).download(Path(folder), progress)
        yield folder


def _clear(folder: Path, manifest: Manifest, content: bytes) -> None:
    """Removes what is not of this set; the manifest of another one first, so that none is half there."""
    folder.mkdir(parents=True, exist_ok=True)
    old = folder / MANIFEST
    if old.is_file() and old.read_bytes() != content:
        old.unlink()
    names = {shard.name for shard in manifest.shards}
    for path in folder.glob(f"*{SHARD_SUFFIX}"):
        if path.name not in names:
            path.unlink(missing_ok=True)
    with tempfile.TemporaryFile(dir=folder) as now:  # has the time of this disk's clock
        oldest = os.fstat(now.fileno()).st_mtime - _ABANDONED_SECONDS
    for path in folder.glob(f"*{UNFINISHED}"):
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)


def _has_size(shard: ShardInfo, path: Path) -> bool:
    return path.is_file() and path.stat().st_size == shard.bytes


def _is(shard: ShardInfo, path: Path) -> bool:
    if not _has_size(shard, path):
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == shard.sha256
