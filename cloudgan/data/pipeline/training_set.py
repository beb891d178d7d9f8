"""Training and held-out showers, both from one folder of shards."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from cloudgan.core.errors import DataError
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.pipeline.preprocessed_cache import CacheRequest, NoCacheError, open_or_make
from cloudgan.data.pipeline.preprocessing import (
    Batch,
    PreprocessedShowers,
    Preprocessing,
    join_preprocessed,
    needed_columns,
)
from cloudgan.data.shards.reader import ShardReader, SparseShowers
from cloudgan.data.showers import Showers, measured_angle
from cloudgan.data.sources.raw_showers import energies_gev, thetas_rad
from cloudgan.data.summary import TrainingSummary, summarize
from cloudgan.schema.held_out import held_out_every

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from cloudgan.data.shards.manifest import SourceInfo
    from cloudgan.schema.config import DataConfig
    from cloudgan.schema.presets import Preset

Kept = Literal["memory", "disk", "none"]
Cache = Literal["auto"] | Kept
SMALL_BYTES = 64 << 20
"""Preprocessed in about a second: not worth a file."""
MEMORY_BYTES = 2 << 30
"""Memory that `auto` uses if no file can be written."""
READ_BLOCK = 512
SUMMARY_SHOWERS = 5000
PROBE_SHOWERS = 256


class TrainingSet:
    """Every k-th shower is held out; the others are numbered 0..count-1 in the order of the shards.

    Attributes:
        view: The preprocessing.
        kept: Where preprocessed images are stored.
    """

    def __init__(
        self, reader: ShardReader, view: Preprocessing, every: int, fold: int | None = None
    ) -> None:
        self.view = view
        self._reader = reader
        self._every = every
        self._fold = every - 1 if fold is None else fold
        self._columns = needed_columns(reader.column_names)
        self._preprocessed: PreprocessedShowers | None = (
            None  # of all showers, in the order of the shards
        )
        self._where = "Images are decoded on demand."
        self.kept: Kept = "none"
        sources = reader.manifest.sources
        self._units = tuple(
            line
            for source in sources
            for line in (f"{source.name}: {source.describe()[0]}", *source.describe()[1:])
        )
        self._particle = _one_particle(sources, str(reader.folder))
        ends = np.concatenate(([0], np.cumsum(reader.counts)))
        self.train_counts: tuple[int, ...] = tuple(
            np.diff(ends - (ends + every - 1 - self._fold) // every).tolist()
        )
        self.count = sum(self.train_counts)
        self.held_out_count = reader.count - self.count

    @classmethod
    def open(
        cls,
        folder: Path | str,
        view: Preprocessing,
        *,
        held_out_fraction: float = 0.1,
        fold: int | None = None,
        cache: Cache = "auto",
        progress: Progress | None = None,
    ) -> TrainingSet:
        """Verifies a folder of shards and preprocesses all images, unless `cache` is none.

        Args:
            folder: Output of `convert`.
            view: The preprocessing.
            held_out_fraction: Fraction of held-out showers: one of every round(1 / fraction).
            fold: Number of the first held-out shower. Default: the last of its group.
            cache: memory keeps the preprocessed images (sparse) in memory, disk in a file beside the
                shards for later runs, none decodes on demand; auto uses memory for small sets and
                if no file can be written, else disk. The numbers are equal.
            progress: Receives the verification and the preprocessing.

        Raises:
            DataError: The shards are incomplete, damaged, too small or of several particles; names
                file and record.
        """
        reader, progress = ShardReader(folder), progress or Silent()
        view.check(reader.shape, str(folder))
        if reader.count < 2:  # noqa: PLR2004 - one to train on, one held out
            raise DataError(
                f"{folder} holds one shower; at least two are needed, one of them held out"
            )
        reader.verify(progress)
        every = held_out_every(held_out_fraction, reader.count)
        if fold is not None and fold >= every:
            raise DataError(f"{folder} has {reader.count} showers, too few for fold {fold}")
        training_set = cls(reader, view, every, fold)
        training_set._fill(cache, progress)
        return training_set

    def describe(self) -> tuple[str, ...]:
        """Returns sentences about unit, split and cache."""
        split = (
            f"{self.count} showers to train on, {self.held_out_count} held out: every"
            f" {self._every}th, the first being number {self._fold}."
        )
        return (*self._units, split, self._where)

    @property
    def digests(self) -> tuple[str, ...]:
        """SHA-256 of the files that the showers came from, held-out ones included."""
        return tuple(sorted(self._reader.manifest.digests()))

    @cached_property
    def summary(self) -> TrainingSummary:
        """Summary of at most 5000 training showers, taken with a fixed stride."""
        stride = -(-self.count // SUMMARY_SHOWERS)
        rows = np.arange(0, self.count, stride)
        blocks = (rows[at : at + READ_BLOCK] for at in range(0, len(rows), READ_BLOCK))
        parts = (self._read(self._records(block)) for block in blocks)
        return summarize(parts, self.view, self.count, self._particle)

    def train_cells(self, rows: NDArray[np.int64]) -> PreprocessedShowers:
        """Returns the preprocessed training showers numbered `rows`, with sparse images.

        Raises:
            DataError: A record is damaged; names shard and record.
        """
        return self._showers(self._records(rows))

    def train_rows(self, rows: NDArray[np.int64]) -> Batch:
        """Returns the same with dense images."""
        return self.train_cells(rows).batch()

    def held_out(self, limit: int | None = None) -> Showers:
        """Returns the first `limit` held-out showers in GeV, not cropped.

        Dense images of 51 x 51 x 25 cells have 260 kB each: pass a limit for a large dataset.
        """
        count = self.held_out_count if limit is None else min(limit, self.held_out_count)
        return self.held_out_rows(np.arange(count))

    def held_out_rows(self, rows: NDArray[np.int64]) -> Showers:
        """Returns the held-out showers numbered `rows` in GeV, not cropped."""
        showers = self._read(rows * self._every + self._fold)
        ecal = np.asarray(showers.cells.dense(), np.float32)
        mtheta = showers.columns.get("mtheta")
        return Showers(
            ecal,
            energies_gev(showers.columns),
            thetas_rad(showers.columns),
            measured_angle(ecal) if mtheta is None else np.asarray(mtheta, np.float32),
        )

    def held_out_batch(self, limit: int | None = None) -> Batch:
        """Returns the first `limit` held-out showers, preprocessed."""
        count = self.held_out_count if limit is None else min(limit, self.held_out_count)
        return self.held_out_rows_batch(np.arange(count))

    def held_out_rows_batch(self, rows: NDArray[np.int64]) -> Batch:
        """Returns the held-out showers numbered `rows`, preprocessed."""
        return self._showers(rows * self._every + self._fold).batch()

    def _showers(self, records: NDArray[np.int64]) -> PreprocessedShowers:
        if self._preprocessed is not None:
            return self._preprocessed.take(records)
        return self.view.prepare(self._read(records))

    def _records(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        kept = self._every - 1
        within = rows % kept
        return rows // kept * self._every + within + (within >= self._fold)

    def _read(self, records: NDArray[np.int64]) -> SparseShowers:
        return self._reader.read(records, self._columns)

    def _fill(self, cache: Cache, progress: Progress) -> None:
        """Preprocesses all images, or opens the cache."""
        if cache == "none":
            return
        size = self._preprocessed_bytes()
        if cache == "memory" or (cache == "auto" and size <= SMALL_BYTES):
            self._fill_memory(progress)
            return
        wanted = CacheRequest(self._reader.folder, self.view, size, lambda: self._blocks(progress))
        try:
            self._preprocessed, self.kept = open_or_make(wanted, progress), "disk"
            self._where = f"Preprocessed images are in a file beside the shards ({self._mib()})."
        except NoCacheError as error:
            if cache == "auto" and size <= MEMORY_BYTES:
                self._fill_memory(progress)
            self._where = f"{self._where} They are not cached: {error}."

    def _fill_memory(self, progress: Progress) -> None:
        self._preprocessed, self.kept = join_preprocessed(list(self._blocks(progress))), "memory"
        self._where = f"Preprocessed images are in memory ({self._mib()})."

    def _mib(self) -> str:
        return f"{self._preprocessed.nbytes / 2**20:.0f} MiB" if self._preprocessed else ""

    def _preprocessed_bytes(self) -> int:
        probe = np.unique(np.linspace(0, self._reader.count - 1, PROBE_SHOWERS).astype(np.int64))
        size = self.view.prepare(self._read(probe)).nbytes
        return size * self._reader.count // len(probe)

    def _blocks(self, progress: Progress) -> Iterator[PreprocessedShowers]:
        count = self._reader.count
        progress.start("Preprocessing images", count, "showers")
        for start in range(0, count, READ_BLOCK):
            records = np.arange(start, min(start + READ_BLOCK, count))
            yield self.view.prepare(self._read(records))
            progress.advance(len(records))


def _one_particle(sources: Iterable[SourceInfo], folder: str) -> str | None:
    """Primary particle of the sources; None: a source states none.

    Raises:
        DataError: The sources have different particles.
    """
    found = {source.particle: source.name for source in sources}
    stated = sorted(name for name in found if name)
    if len(stated) > 1:
        files = ", ".join(f"{found[name]} ({name})" for name in stated)
        raise DataError(
            f"{folder} mixes primary particles: {files}. The networks have no input for the particle;"
            " convert the showers of one particle and train on them"
        )
    return stated[0] if stated and None not in found else None


def preprocessing(model: Preset) -> Preprocessing:
    """Returns the preprocessing of a preset."""
    return Preprocessing(model.image_shape, model.image_scale, model.image_power, model.angle)


def open_training_set(
    folder: Path | str,
    model: Preset,
    data: DataConfig,
    *,
    cache: Cache | None = None,
    progress: Progress | None = None,
) -> TrainingSet:
    """Opens shards with the configuration of a run; `cache` overrides its own.

    Raises:
        DataError: As `TrainingSet.open`.
    """
    return TrainingSet.open(
        folder,
        preprocessing(model),
        held_out_fraction=data.held_out_fraction,
        fold=data.fold,
        cache=cache or data.cache,
        progress=progress,
    )
