"""Showers to train on and showers held back, both from one folder of shards."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from cloudgan.core.errors import DataError
from cloudgan.core.held_back import held_back_every
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.image_view import Batch, ImageView, Prepared, join_prepared, needed_columns
from cloudgan.data.prepared_cache import NoCacheError, Wanted, open_or_make
from cloudgan.data.raw_showers import energies_gev, thetas_rad
from cloudgan.data.shards import ShardReader, SparseShowers
from cloudgan.data.showers import Showers, measured_angle
from cloudgan.data.summary import TrainingSummary, summarize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from cloudgan.core.config import DataConfig
    from cloudgan.core.presets import Preset

Kept = Literal["memory", "disk", "none"]
Cache = Literal["auto"] | Kept
SMALL_BYTES = 64 << 20
"""Prepared in about a second: no file is worth it."""
MEMORY_BYTES = 2 << 30
"""What `auto` takes of the memory where no file can be made."""
READ_BLOCK = 512
SUMMARY_SHOWERS = 5000
PROBE_SHOWERS = 256


class TrainingSet:
    """Every k-th shower is held back; the others are numbered 0..count-1, shard after shard.

    Attributes:
        view: What the networks see.
        kept: Where prepared images are kept in the end.
    """

    def __init__(self, reader: ShardReader, view: ImageView, every: int) -> None:
        self.view = view
        self._reader = reader
        self._every = every
        self._columns = needed_columns(reader.column_names)
        self._prepared: Prepared | None = None  # of all showers, in the order of the shards
        self._where = "Images are decoded as they are needed."
        self.kept: Kept = "none"
        sources = reader.manifest.sources
        self._units = tuple(f"{source.name}: {source.ecal_decided}" for source in sources)
        ends = np.concatenate(([0], np.cumsum(reader.counts)))
        self.train_counts: tuple[int, ...] = tuple(np.diff(ends - ends // every).tolist())
        self.count = sum(self.train_counts)
        self.held_back_count = reader.count - self.count

    @classmethod
    def open(
        cls,
        folder: Path | str,
        view: ImageView,
        *,
        held_back_fraction: float = 0.1,
        cache: Cache = "auto",
        progress: Progress | None = None,
    ) -> TrainingSet:
        """Opens a folder of shards and, where the cache asks for it, prepares all images now.

        Args:
            folder: Made by `convert`.
            view: What the networks see.
            held_back_fraction: Share never trained on; one of every round(1 / fraction) showers.
            cache: memory keeps the prepared images (sparse) in memory, disk in a file beside the
                shards that later runs find, none decodes each when it is needed; auto takes memory
                for small sets and where no file can be made, else disk. The numbers are the same.
            progress: Told of the preparation.

        Raises:
            DataError: The shards are incomplete or damaged, or too small for the view.
        """
        reader = ShardReader(folder)
        view.check(reader.shape, str(folder))
        if reader.count < 2:  # noqa: PLR2004 - one to train on and one to hold back
            raise DataError(f"{folder} holds one shower: there is none to hold back")
        every = held_back_every(held_back_fraction, reader.count)
        training_set = cls(reader, view, every)
        training_set._fill(cache, progress or Silent())
        return training_set

    def describe(self) -> tuple[str, ...]:
        """Returns the unit, the split and where images are kept, as sentences."""
        split = (
            f"{self.count} showers to train on, {self.held_back_count} held back: every"
            f" {self._every}th, the first being number {self._every - 1}."
        )
        return (*self._units, split, self._where)

    @cached_property
    def summary(self) -> TrainingSummary:
        """What the training showers are like, from at most 5000 taken by a fixed stride."""
        stride = -(-self.count // SUMMARY_SHOWERS)
        rows = np.arange(0, self.count, stride)
        blocks = (rows[at : at + READ_BLOCK] for at in range(0, len(rows), READ_BLOCK))
        parts = (self._read(self._records(block)) for block in blocks)
        return summarize(parts, self.view, self.count)

    def train_cells(self, rows: NDArray[np.int64]) -> Prepared:
        """Returns the training showers numbered `rows`, as the networks see them, images sparse.

        Raises:
            DataError: A record is damaged; names shard and record.
        """
        return self._showers(self._records(rows))

    def train_rows(self, rows: NDArray[np.int64]) -> Batch:
        """Returns the same with dense images."""
        return self.train_cells(rows).batch()

    def held_back(self, limit: int | None = None) -> Showers:
        """Returns held-back showers, whole (not cut to the view), in GeV, the first `limit`.

        They are dense: 260 kB each at 51 x 51 x 25 cells, so give a limit for a large set.
        """
        count = self.held_back_count if limit is None else min(limit, self.held_back_count)
        return self.held_back_rows(np.arange(count))

    def held_back_rows(self, rows: NDArray[np.int64]) -> Showers:
        """Returns the held-back showers numbered `rows`, whole, in GeV."""
        showers = self._read(rows * self._every + self._every - 1)
        ecal = np.asarray(showers.cells.dense(), np.float32)
        mtheta = showers.columns.get("mtheta")
        return Showers(
            ecal,
            energies_gev(showers.columns),
            thetas_rad(showers.columns),
            measured_angle(ecal) if mtheta is None else np.asarray(mtheta, np.float32),
        )

    def held_back_batch(self, limit: int | None = None) -> Batch:
        """Returns held-back showers as the networks see them, the first `limit`."""
        count = self.held_back_count if limit is None else min(limit, self.held_back_count)
        return self._showers(np.arange(count) * self._every + self._every - 1).batch()

    def _showers(self, records: NDArray[np.int64]) -> Prepared:
        if self._prepared is not None:
            return self._prepared.take(records)
        return self.view.prepare(self._read(records))

    def _records(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        kept = self._every - 1
        return rows // kept * self._every + rows % kept

    def _read(self, records: NDArray[np.int64]) -> SparseShowers:
        return self._reader.read(records, self._columns)

    def _fill(self, cache: Cache, progress: Progress) -> None:
        """Prepares all images, or finds those that were, where `cache` wants it."""
        if cache == "none":
            return
        size = self._prepared_bytes()
        if cache == "memory" or (cache == "auto" and size <= SMALL_BYTES):
            self._fill_memory(progress)
            return
        wanted = Wanted(self._reader.folder, self.view, size, lambda: self._blocks(progress))
        try:
            self._prepared, self.kept = open_or_make(wanted, progress), "disk"
            self._where = f"Prepared images are kept in a file beside the shards ({self._mib()})."
        except NoCacheError as error:
            if cache == "auto" and size <= MEMORY_BYTES:
                self._fill_memory(progress)
            self._where = f"{self._where} No file keeps them: {error}."

    def _fill_memory(self, progress: Progress) -> None:
        self._prepared, self.kept = join_prepared(list(self._blocks(progress))), "memory"
        self._where = f"Prepared images are kept in memory ({self._mib()})."

    def _mib(self) -> str:
        return f"{self._prepared.nbytes / 2**20:.0f} MiB" if self._prepared else ""

    def _prepared_bytes(self) -> int:
        probe = np.unique(np.linspace(0, self._reader.count - 1, PROBE_SHOWERS).astype(np.int64))
        size = self.view.prepare(self._read(probe)).nbytes
        return size * self._reader.count // len(probe)

    def _blocks(self, progress: Progress) -> Iterator[Prepared]:
        count = self._reader.count
        progress.start("Preparing images", count, "showers")
        for start in range(0, count, READ_BLOCK):
            records = np.arange(start, min(start + READ_BLOCK, count))
            yield self.view.prepare(self._read(records))
            progress.advance(len(records))


def open_training_set(
    folder: Path | str,
    model: Preset,
    data: DataConfig,
    *,
    cache: Cache | None = None,
    progress: Progress | None = None,
) -> TrainingSet:
    """Opens shards as a run's configuration says; `cache` overrides its own.

    Raises:
        DataError: As `TrainingSet.open`.
    """
    return TrainingSet.open(
        folder,
        ImageView(shape=model.image_shape, scale=model.image_scale, power=model.image_power),
        held_back_fraction=data.held_back_fraction,
        cache=cache or data.cache,
        progress=progress,
    )
