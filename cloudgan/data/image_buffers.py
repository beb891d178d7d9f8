"""Dense images in memory that is used again.

A shower of 51 x 51 x 25 cells is 260 kB, of which 3 kB are not zero. To ask the system for that memory
anew, and to let it be zeroed, costs more than all other reading.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cloudgan.data.sparse_showers import SparseCells

    Floats = NDArray[np.float32]
    Places = NDArray[np.intp]

_ALIGNED_BYTES = 64  # TensorFlow copies an array that begins elsewhere


class ImageBuffers:
    """Lends batches of images; one comes back when nobody holds its array, or a view of it, any more.

    Who borrows may not write: only the cells that were filled are emptied before the next use.
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
        # The memory view between keeps views of what is lent from holding the buffer in its stead.
        lent = np.frombuffer(buffer.data, np.float32)
        weakref.finalize(lent, self._idle.append, (buffer, places)).atexit = False
        return lent.reshape(self._batch, *self._shape)

    def _made(self) -> Floats:
        self.made += 1
        count = self._batch * int(np.prod(self._shape))
        spare = np.zeros(count + _ALIGNED_BYTES // 4, np.float32)
        first = -spare.ctypes.data % _ALIGNED_BYTES // 4
        return spare[first : first + count]
