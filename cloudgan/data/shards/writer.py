"""Writes our sharded TFRecord sets. Needs TensorFlow, for the checksums of the format."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Self

import tensorflow as tf

from cloudgan.core.errors import CloudganError
from cloudgan.data.shards.manifest import SHARD_SUFFIX, Manifest, ShardInfo, write_manifest
from cloudgan.data.shards.shower_record import encode_block

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.data.shards.manifest import SourceInfo
    from cloudgan.data.sources.raw_showers import RawShowers


class ShardWriter:
    """Fills shard after shard in `folder`, each from one source; the manifest comes last."""

    def __init__(self, folder: Path, records_per_shard: int) -> None:
        self._folder = folder
        self._records_per_shard = records_per_shard
        self._sources: list[SourceInfo] = []
        self._shards: list[ShardInfo] = []
        self._file: tf.io.TFRecordWriter | None = None
        self._in_file = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self._file = None  # an unfinished shard stays without a manifest that names it

    def begin(self, source: SourceInfo) -> None:
        """Starts a source; what is appended from now on belongs to it."""
        self._end_shard()
        self._sources.append(source)

    def append(self, block: RawShowers) -> None:
        """Writes a block of the present source.

        Raises:
            CloudganError: The disk is full.
        """
        try:
            for record in encode_block(block, self._sources[-1].columns):
                if self._file is None:
                    self._file = tf.io.TFRecordWriter(str(self._path))
                self._file.write(record)
                self._in_file += 1
                if self._in_file == self._records_per_shard:
                    self._end_shard()
        except (tf.errors.OpError, OSError) as error:
            raise self._failed(error) from error

    def finish(self) -> Manifest:
        """Closes the last shard and writes the manifest.

        Raises:
            CloudganError: The disk is full.
        """
        try:
            self._end_shard()
            held = [0] * len(self._sources)
            for shard in self._shards:
                held[shard.source] += shard.records
            manifest = Manifest(
                records=sum(held),
                shape=self._sources[0].shape,
                shards=tuple(self._shards),
                sources=tuple(
                    source.model_copy(
                        update={"records": kept, "empty": source.empty + source.records - kept}
                    )
                    for source, kept in zip(self._sources, held, strict=True)
                ),
            )
            write_manifest(self._folder, manifest)
        except (tf.errors.OpError, OSError) as error:
            raise self._failed(error) from error
        return manifest

    @property
    def _path(self) -> Path:
        return self._folder / f"showers-{len(self._shards):05d}{SHARD_SUFFIX}"

    def _end_shard(self) -> None:
        if self._file is None:
            return
        self._file.close()
        with self._path.open("rb") as written:
            os.fsync(written.fileno())
            digest = hashlib.file_digest(written, "sha256").hexdigest()
        self._shards.append(
            ShardInfo(
                name=self._path.name,
                records=self._in_file,
                bytes=self._path.stat().st_size,
                sha256=digest,
                source=len(self._sources) - 1,
            )
        )
        self._file, self._in_file = None, 0

    def _failed(self, error: Exception) -> CloudganError:
        written = sum(shard.records for shard in self._shards) + self._in_file
        return CloudganError(
            f"{self._folder} could not be written after {written} showers: {' '.join(str(error).split())}."
            " Free disk space and run the command again."
        )
