"""From a store to the batches of training: preprocessing, the split, and a reader of rows as dense arrays.

N showers; images (N, X, Y, Z), energies (N, 1) in units of 100 GeV, angles (N, 1) in rad, sums (N, 1) in
scaled cells before the power. NumPy only.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import DataError
from cloudgan.core.progress import Progress
from cloudgan.data.epoch_sampler import EpochSampler
from cloudgan.data.held_out import held_out_every
from cloudgan.data.layouts import Geometry, Layout
from cloudgan.data.manifest import SourceInfo
from cloudgan.data.showers import ENERGY_UNIT_GEV, Cells, Showers, measured_angle
from cloudgan.data.store import Store
from cloudgan.data.summary import TrainingSummary, summarize
from cloudgan.schema.config import DataConfig
from cloudgan.schema.presets import Preset

Floats = NDArray[np.float32]
Image = TypeVar("Image", Cells, Floats)

READ_BLOCK = 512
SUMMARY_SHOWERS = 5000
_ALIGNED_BYTES = 64  # TensorFlow copies an array with another alignment


class Batch(NamedTuple, Generic[Image]):
    """Input of one replica in one step, float32."""

    image: Image  # (B, X, Y, Z), or its cells
    energy: Floats  # (B, 1), energy / 100 GeV
    angle: Floats  # (B, 1), rad, see `Preset.angle`
    ecal: Floats  # (B, 1), sum of the scaled cells


def check_cells(
    model: Preset, have: tuple[int, int, int], where: str, layout: Layout | None
) -> None:
    """Checks that showers are large enough; rings, and layers that differ, have no centre to cut."""
    shape, is_whole = model.image_shape, layout is not None and layout.geometry != Geometry()
    is_small = have[2] != shape[2] or have[0] < shape[0] or have[1] < shape[1]
    if is_small or (is_whole and have != shape):
        cells, needed = ("x".join(map(str, each)) for each in (have, shape))
        raise DataError(
            f"{where}: its showers have {cells} cells, the preset needs {needed}: add"
            f" --image-shape={cells} for the preset's networks over these cells, or use a preset whose"
            " cells are the centre of these (51x51x25 paper, 25x25x25 fixed25, 17x17x25 mini,"
            " 9x9x25 smoke)"
        )


class TrainingSet:
    """Every k-th shower of a store is held out; the others are numbered 0..count-1 in the order of the store.

    What is one number per shower is in memory, 20 bytes for each: it costs more to prepare than the image.

    The image of a shower is (central cells in GeV * `image_scale`) ** `image_power` of the preset, and its angle is
    the measured one, or theta of the primary where it is known.
    """

    def __init__(self, store: Store, model: Preset, every: int, fold: int) -> None:
        self.model = model
        self._store, self._every, self._fold = store, every, fold
        sources = store.manifest.sources
        self._particle = _one_particle(sources, str(store.folder))
        self._units = tuple(
            line
            for source in sources
            for line in (f"{source.name}: {source.describe()[0]}", *source.describe()[1:])
        )
        self._energy_gev, self._theta_rad, self._mtheta_rad = store.primaries()
        # Energy / 100 GeV, angle and sum of each shower; NaN: not computed yet. Threads that compute the same
        # numbers write the same bits.
        self._facts = np.full((store.count, 3), np.nan, np.float32)
        self._facts[:, 0] = self._energy_gev / np.float32(ENERGY_UNIT_GEV)
        self._layout = sources[0].dataset
        is_shown = self._layout is None or self._layout.tilts
        if (model.angle == "primary" or not is_shown) and self._theta_rad is not None:
            self._facts[:, 1] = self._theta_rad
        elif self._mtheta_rad is not None and store.shape == model.image_shape:
            self._facts[:, 1] = self._mtheta_rad
        ends = np.cumsum([0, *store.manifest.block_counts()])
        self.train_counts: tuple[int, ...] = tuple(
            np.diff(ends - (ends + every - 1 - fold) // every).tolist()
        )
        self.count = sum(self.train_counts)
        self.held_out_count = store.count - self.count

    @classmethod
    def open(
        cls,
        folder: Path | str,
        model: Preset,
        data: DataConfig | None = None,
        *,
        progress: Progress | None = None,
    ) -> TrainingSet:
        """Verifies a store and opens it, for the networks of a preset and with the split of `data`."""
        data, store = data or DataConfig(), Store(folder)
        check_cells(model, store.shape, str(folder), store.manifest.sources[0].dataset)
        if store.count < 2:  # noqa: PLR2004 - one to train on, one held out
            raise DataError(
                f"{folder} holds one shower; at least two are needed, one of them held out"
            )
        store.verify(progress)
        every = held_out_every(data.held_out_fraction, store.count)
        if data.fold is not None and data.fold >= every:
            raise DataError(f"{folder} has {store.count} showers, too few for fold {data.fold}")
        return cls(store, model, every, every - 1 if data.fold is None else data.fold)

    def describe(self) -> tuple[str, ...]:
        """Returns sentences about unit and split."""
        split = (
            f"{self.count} showers to train on, {self.held_out_count} held out: every"
            f" {self._every}th, the first being number {self._fold}."
        )
        return (*self._units, split)

    @property
    def digests(self) -> tuple[str, ...]:
        """SHA-256 of the files that the showers came from, held-out ones included."""
        return tuple(sorted(self._store.manifest.digests()))

    @cached_property
    def summary(self) -> TrainingSummary:
        """Summary of at most 5000 training showers, taken with a fixed stride."""
        stride = -(-self.count // SUMMARY_SHOWERS)
        numbers = self._numbers(np.arange(0, self.count, stride))
        theta = None if self._theta_rad is None else self._theta_rad[numbers]
        blocks = [numbers[at : at + READ_BLOCK] for at in range(0, len(numbers), READ_BLOCK)]
        parts = ((block, self._prepared(block)) for block in blocks)
        sample = (
            (self._store.take(block), batch.image, self._energy_gev[block], batch.angle[:, 0])
            for block, batch in parts
        )
        return summarize(
            *(sample, self.model.image_power, theta, self.count),
            particle=self._particle,
            layout=self._layout,
        )

    def train_cells(self, rows: NDArray[np.int64]) -> Batch[Cells]:
        """Returns the preprocessed training showers numbered `rows`, with sparse images."""
        return self._prepared(self._numbers(rows))

    def train_rows(self, rows: NDArray[np.int64]) -> Batch[Floats]:
        """Returns the same with dense images."""
        return _dense(self.train_cells(rows))

    def held_out(self, rows: NDArray[np.int64] | int | None = None) -> Showers:
        """Returns held-out showers in GeV, not cropped: those numbered `rows`, the first so many, or all.

        Dense images of 51 x 51 x 25 cells have 260 kB each: not all of a large dataset.
        """
        numbers = self._held_out_numbers(rows)
        ecal = self._store.take(numbers).dense()
        theta, mtheta = self._theta_rad, self._mtheta_rad
        return Showers(
            ecal,
            self._energy_gev[numbers],
            None if theta is None else theta[numbers],
            measured_angle(ecal) if mtheta is None else mtheta[numbers],
        )

    def held_out_batch(self, rows: NDArray[np.int64] | int | None = None) -> Batch[Floats]:
        """Returns the same showers, preprocessed."""
        return _dense(self._prepared(self._held_out_numbers(rows)))

    def _held_out_numbers(self, rows: NDArray[np.int64] | int | None) -> NDArray[np.int64]:
        if not isinstance(rows, np.ndarray):
            rows = np.arange(self.held_out_count)[:rows]
        return rows * self._every + self._fold

    def _numbers(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the numbers in the store of the training showers `rows`."""
        group, within = np.divmod(rows, self._every - 1)
        return group * self._every + within + (within >= self._fold)

    def _prepared(self, numbers: NDArray[np.int64]) -> Batch[Cells]:
        cells = self._store.take(numbers).central(self.model.image_shape)
        scaled = cells.value * np.float32(self.model.image_scale)
        facts = self._facts[numbers]
        if np.isnan(facts).any():
            if np.isnan(facts[:, 1]).any():
                facts[:, 1] = cells.measured_angle()
            facts[:, 2] = cells.with_values(scaled).sums()
            self._facts[numbers] = facts
        image = cells.with_values(scaled ** np.float32(self.model.image_power))
        return Batch(image, facts[:, 0:1], facts[:, 1:2], facts[:, 2:3])


def _dense(batch: Batch[Cells]) -> Batch[Floats]:
    return Batch(batch.image.dense(), batch.energy, batch.angle, batch.ecal)


def _one_particle(sources: Iterable[SourceInfo], folder: str) -> str | None:
    """Primary particle of the sources; None: a source states none."""
    found = {source.particle: source.name for source in sources}
    stated = sorted(name for name in found if name)
    if len(stated) > 1:
        files = ", ".join(f"{found[name]} ({name})" for name in stated)
        raise DataError(
            f"{folder} mixes primary particles: {files}. The networks have no input for the particle;"
            " convert the showers of one particle and train on them"
        )
    return stated[0] if stated and None not in found else None


class ReadingTime:
    """A sum of seconds to which several threads add."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lock = threading.Lock()

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Adds the duration of the block."""
        began = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self.seconds += time.perf_counter() - began


class ImageBuffers:
    """A pool of image batches; a buffer returns to the pool when its array and all views are released.

    A shower of 51 x 51 x 25 cells has 260 kB, of which 3 kB are not zero: allocating and zeroing that memory
    for each batch costs more than all other reading. Users must not write to the array: only the cells set
    here are cleared before the next use.
    """

    def __init__(self, batch: int, shape: tuple[int, int, int]) -> None:
        self._batch = batch
        self._shape = shape
        self._idle: list[tuple[Floats, NDArray[np.intp]]] = []  # append and pop are atomic
        self.made = 0

    def dense(self, images: Cells) -> Floats:
        """Returns `batch` images, float32 (B, X, Y, Z), zero where `images` has no cell."""
        try:
            buffer, filled = self._idle.pop()
            buffer[filled] = 0
        except IndexError:
            self.made += 1
            count = self._batch * int(np.prod(self._shape))
            spare = np.zeros(count + _ALIGNED_BYTES // 4, np.float32)
            first = -spare.ctypes.data % _ALIGNED_BYTES // 4
            buffer = spare[first : first + count]
        places = images.places()
        buffer[places] = images.value
        # The memoryview in between prevents views of the array from holding the buffer itself.
        lent = np.frombuffer(buffer.data, np.float32)
        weakref.finalize(lent, self._idle.append, (buffer, places)).atexit = False
        return lent.reshape(self._batch, *self._shape)


class BatchReader:
    """Reads `batch` rows at a time, in any thread."""

    def __init__(
        self, training_set: TrainingSet, order: EpochSampler, batch: int, reading: ReadingTime
    ) -> None:
        self._training_set, self._order = training_set, order
        self._batch, self._reading = batch, reading
        # The engines neither copy nor write these, and release them after the step.
        self._buffers = ImageBuffers(batch, training_set.model.image_shape)

    def read(self, step: int, first_row: int) -> tuple[Batch[Floats], int]:
        """Returns the rows of this worker's `step` from `first_row` on, and the number of the global step.

        Images are (B, X, Y, Z, 1), and must not be written.
        """
        with self._reading.measured():
            rows = self._order.rows(step, first_row, self._batch)
            showers = self._training_set.train_cells(rows)
            image = self._buffers.dense(showers.image)[..., np.newaxis]
        batch = Batch(image, showers.energy, showers.angle, showers.ecal)
        return batch, self._order.global_step(step)
