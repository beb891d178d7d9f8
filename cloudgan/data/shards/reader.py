"""Reads sharded TFRecord datasets, at random or in order, without TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import DataError
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.shards.integrity import FileIdentity, check_folder, check_shard, check_shards
from cloudgan.data.shards.manifest import SourceInfo, read_manifest
from cloudgan.data.shards.shower_record import Parts, RecordDecoder
from cloudgan.data.sources.raw_showers import Columns, RawShowers, in_gev
from cloudgan.data.sparse_showers import SparseCells, join
from cloudgan.data.tfrecord_format import Extents, record_extents

IntArray = NDArray[np.int64]

LAYOUT = "sharded TFRecord"


class SparseShowers(NamedTuple):
    """Showers read at random: cells in GeV, float32, and the requested columns, energies in GeV."""

    cells: SparseCells
    columns: Columns


class _Verified(NamedTuple):
    """A shard whose bytes were compared with the manifest."""

    identity: FileIdentity
    extents: Extents


class ShardReader:
    """A folder of shards. Reads are thread-safe.

    The SHA-256 of a shard is compared with the manifest before its first shower is returned, and again
    if its file is replaced or written to.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise DataError(f"{self.folder} is not a folder of shards: it does not exist")
        self.manifest = read_manifest(self.folder)
        self.shape = self.manifest.shape
        self.counts = tuple(shard.records for shard in self.manifest.shards)
        self.count = self.manifest.records
        self._first = np.concatenate(([0], np.cumsum(self.counts))).astype(np.int64)
        self._verified: dict[int, _Verified] = {}
        self._decoders = tuple(map(RecordDecoder, self.manifest.sources))
        check_folder(self.folder, self.manifest)

    @property
    def column_names(self) -> frozenset[str]:
        """The columns that every source has."""
        names = [{c.name for c in source.columns} for source in self.manifest.sources]
        return frozenset(set.intersection(*names))

    def read(self, records: IntArray, columns: Collection[str]) -> SparseShowers:
        """Reads the showers numbered `records`, in that order.

        Raises:
            DataError: A record is damaged; names shard and record.
        """
        order = np.argsort(records, kind="stable")
        shards = np.searchsorted(self._first, records[order], "right") - 1
        parts: list[SparseCells] = []
        pieces: dict[str, list[NDArray[Any]]] = {name: [] for name in columns}
        for shard in np.unique(shards):
            inside = records[order][shards == shard] - self._first[shard]
            cells, found = self._read_shard(int(shard), inside)
            source = self.manifest.sources[self.manifest.shards[shard].source]
            value = in_gev(cells.value, source.ecal_per_gev)
            parts.append(SparseCells(cells.cell, value, cells.first, cells.shape))
            for name in columns:
                values = found[name]
                if name in {"energy", "target"} and source.energy_per_gev != 1:
                    values = values / source.energy_per_gev
                pieces[name].append(values)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return SparseShowers(
            join(parts).take(back),
            {name: np.concatenate(values)[back] for name, values in pieces.items()},
        )

    def verify(self, progress: Progress | None = None) -> None:
        """Compares the checksum of every shard with the manifest.

        Raises:
            DataError: A shard differs from the manifest; names shard and record.
        """
        identities = check_shards(self.folder, self.manifest, progress or Silent())
        for number, identity in enumerate(identities):
            self._verified[number] = _Verified(identity, self._extents_of(number))

    def files(self) -> tuple[ShardedFile, ...]:
        """Returns the sources of the dataset, each readable as the original file."""
        return tuple(ShardedFile(self, number) for number in range(len(self.manifest.sources)))

    def raw(self, shard: int, records: IntArray) -> RawShowers:
        """Reads `records` of one shard with all columns, bit for bit."""
        cells, columns = self._read_shard(shard, records)
        return RawShowers(cells.dense(), columns)

    def _read_shard(self, shard: int, records: IntArray) -> tuple[SparseCells, Columns]:
        decoder = self._decoders[self.manifest.shards[shard].source]
        parts: list[Parts] = []
        for record, content in zip(records, self._contents(shard, records), strict=True):
            try:
                parts.append(decoder.split(content))
            except ValueError as error:
                raise self._damaged(shard, int(record), error) from error
        try:
            return decoder.decode(parts)
        except ValueError as error:
            raise self._damaged(shard, _culprit(decoder, parts, records), error) from error

    def _contents(self, shard: int, records: IntArray) -> Iterator[bytes]:
        path = self.folder / self.manifest.shards[shard].name
        try:
            file = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
        try:
            known, status = self._verified.get(shard), os.fstat(file)
            if known is None or known.identity != (status.st_size, status.st_mtime_ns):
                known = self._verify_shard(shard)
            extents = known.extents
            for start, size in zip(
                extents.start[records].tolist(), extents.size[records].tolist(), strict=True
            ):
                yield os.pread(file, size, start)
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
        finally:
            os.close(file)

    def _verify_shard(self, shard: int) -> _Verified:
        # Two threads may both verify it, with the same result.
        identity = check_shard(self.folder, self.manifest.shards[shard])
        self._verified[shard] = _Verified(identity, self._extents_of(shard))
        return self._verified[shard]

    def _extents_of(self, shard: int) -> Extents:
        info = self.manifest.shards[shard]
        extents = record_extents(self.folder / info.name)
        if len(extents.start) != info.records:
            raise DataError(
                f"{self.folder / info.name} holds {len(extents.start)} records, the manifest"
                f" says {info.records}. Run convert again."
            )
        return extents

    def _damaged(self, shard: int, record: int, error: Exception) -> DataError:
        path = self.folder / self.manifest.shards[shard].name
        return DataError(f"{path}, record {record}: damaged ({error}). Run convert again.")


def _culprit(decoder: RecordDecoder, parts: list[Parts], records: IntArray) -> int:
    for record, part in zip(records, parts, strict=True):
        try:
            decoder.decode([part])
        except ValueError:
            return int(record)
    return int(records[0])


class ShardedFile:
    """One source of a sharded dataset, bit for bit."""

    def __init__(self, reader: ShardReader, source: int) -> None:
        self._reader = reader
        self._source = source
        self.path = reader.folder
        self.info: SourceInfo = reader.manifest.sources[source]

    def describe(self) -> tuple[str, ...]:
        """Returns sentences about the source and its unit."""
        cells = "x".join(map(str, self.info.shape))
        headline = (
            f"{self._reader.folder}: {self.info.records} showers of {cells} cells,"
            f" {LAYOUT} of {self.info.name} ({self.info.layout})."
        )
        return headline, *self.info.describe()

    def raw_blocks(self, size: int) -> Iterator[RawShowers]:
        """Yields all showers of the source in order, at most `size` at a time."""
        for number, shard in enumerate(self._reader.manifest.shards):
            if shard.source == self._source:
                for first in range(0, shard.records, size):
                    records = np.arange(first, min(first + size, shard.records))
                    yield self._reader.raw(number, records)
