"""Reusable memory for dense images, and the clock of the readers.

A shower of 51 x 51 x 25 cells has 260 kB, of which 3 kB are not zero. Allocating and zeroing that memory
for each batch costs more than all other reading.
"""

from __future__ import annotations

import threading
import time
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cloudgan.data.sparse_showers import SparseCells

    Floats = NDArray[np.float32]
    Places = NDArray[np.intp]
    from collections.abc import Iterator

_ALIGNED_BYTES = 64  # TensorFlow copies an array with another alignment


class ImageBuffers:
    """A pool of image batches; a buffer returns to the pool when its array and all views are released.

    Users must not write to the array: only the cells set here are cleared before the next use.
    """

    def __init__(self, batch: int, shape: tuple[int, int, int]) -> None:
        self._batch = batch
        self._shape = shape
        self._idle: list[tuple[Floats, Places]] = []  # append and pop are atomic
        self.made = 0

    def dense(self, images: SparseCells) -> Floats:
        """Returns `batch` images, float32 (B, X, Y, Z), zero where `images` has no cell."""
        try:
            buffer, filled = self._idle.pop()
            buffer[filled] = 0
        except IndexError:
            buffer = self._made()
        places = images.places()
        buffer[places] = images.value
        # The memoryview in between prevents views of the array from holding the buffer itself.
        lent = np.frombuffer(buffer.data, np.float32)
        weakref.finalize(lent, self._idle.append, (buffer, places)).atexit = False
        return lent.reshape(self._batch, *self._shape)

    def _made(self) -> Floats:
        self.made += 1
        count = self._batch * int(np.prod(self._shape))
        spare = np.zeros(count + _ALIGNED_BYTES // 4, np.float32)
        first = -spare.ctypes.data % _ALIGNED_BYTES // 4
        return spare[first : first + count]


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
