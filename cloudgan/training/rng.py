"""Random numbers of training, as functions of (seed, stream, pass, step, row of the global batch).

Philox with an explicit counter (Salmon et al. 2011, doi:10.1145/2063384.2063405) fills its output
in order, four 32-bit words per block, so a replica with rows [first, first + B) starts at block
first * blocks_per_row and gets the same bits as a single replica would for those rows. There is no
state, so checkpoints store none. TensorFlow and JAX draw the same words.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import numpy as np
from keras import ops

from cloudgan.training.backend import backend


class Call(IntEnum):
    """Pass of a step, so that two passes do not share their masks."""

    REAL = 0
    FAKE = 1
    TEST = 2
    CALIBRATION = 3
    GENERATE = 4
    GENERATOR = 5  # and the following ones: one per generator update


class Stream(IntEnum):
    """Purpose of the numbers; dropout layer n has stream DROPOUT + n."""

    LABEL = 0
    LATENT = 1
    DROPOUT = 2


def dropout_threshold(rate: float) -> int:
    """Returns the smallest 16-bit number that dropout keeps."""
    return round(rate * 65536)


class Rng(threading.local):
    """Generates numbers at a position, which the step sets in each replica's thread.

    The position may be traced, so that one trace serves all steps and replicas; the pass is not.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._place: tuple[Any, Any] = (0, 0)
        self._call = 0

    @contextmanager
    def at(self, step: Any, first_row: Any, call: int) -> Iterator[None]:
        """Sets the position: `call` of `step`, rows from `first_row` on (integer scalars)."""
        before = self._place, self._call
        self._place, self._call = (step, first_row), int(call)
        try:
            yield
        finally:
            self._place, self._call = before

    def dropout_mask(self, shape: tuple[int, ...], rate: float, stream: int) -> Any:
        """Returns a dropout mask: True with probability 1 - rate (to 1/65536).

        Sixteen bits per value halve the random words and cost less than Keras' own dropout.
        """
        uniform = self.uniform(shape, stream)[:, : math.prod(shape[1:])]
        threshold = np.array(dropout_threshold(rate), np.uint16)
        return ops.reshape(uniform >= threshold, shape)

    def uniform(self, shape: tuple[int, ...], stream: int) -> Any:
        """Returns 16 random bits per value, uint16 (rows, values per row, padded)."""
        count = -(-math.prod(shape[1:]) // 2)
        return backend().halves(self._words(Stream.DROPOUT + stream, shape[0], count))

    def bernoulli(self, probability: float, rows: int, *, step: Any = None) -> Any:
        """Returns booleans (rows, 1), True with `probability`; `step` overrides the position."""
        words = self._words(Stream.LABEL, rows, 1, step)[:, :1]
        return words < np.array(round(probability * 2**32), np.uint32)

    def normal(self, rows: int, per_row: int) -> Any:
        """Returns standard normals, float32 (rows, per_row)."""
        return backend().normals(self.seed, self._stream(Stream.LATENT), self._place, rows, per_row)

    def _words(self, stream: int, rows: int, per_row: int, step: Any = None) -> Any:
        place = self._place if step is None else (step, self._place[1])
        return backend().words(self.seed, self._stream(stream), place, rows, per_row)

    def _stream(self, stream: int) -> int:
        return (int(stream) << 8) + self._call
