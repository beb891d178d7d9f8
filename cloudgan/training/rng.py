"""Random numbers of training, as functions of (seed, stream, step, row of the global batch).

Philox with an explicit counter (Salmon et al. 2011, doi:10.1145/2063384.2063405) fills its output
in order, four 32-bit words per block, so a replica with rows [first, first + B) starts at block
first * blocks_per_row and gets the same bits as a single replica would for those rows. There is no
state, so checkpoints store none.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from cloudgan.training.draws import Stream, dropout_threshold

_PHILOX = 1  # tf.random.Algorithm.PHILOX


class Rng(threading.local):
    """Generates numbers at a position, which the step sets in each replica's thread.

    Attributes are tensors, so that one trace serves all steps and replicas. Implements
    `cloudgan.models.layers.MaskSource`.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._step: Any = None
        self._first_row: Any = None
        self._call = 0

    @contextmanager
    def at(self, step: Any, first_row: Any, call: int) -> Iterator[None]:
        """Sets the position: `call` of `step`, rows from `first_row` on (int64 scalars)."""
        before = self._step, self._first_row, self._call
        self._step, self._first_row, self._call = step, first_row, int(call)
        try:
            yield
        finally:
            self._step, self._first_row, self._call = before

    def dropout_mask(self, shape: tuple[int, ...], rate: float, stream: int) -> tf.Tensor:
        """Returns a dropout mask: True with probability 1 - rate (to 1/65536).

        Sixteen bits per value halve the random words and cost less than Keras' own dropout.
        """
        uniform = self.uniform(shape, stream)[:, : int(np.prod(shape[1:]))]
        return tf.reshape(uniform >= tf.constant(dropout_threshold(rate), tf.uint16), shape)

    def uniform(self, shape: tuple[int, ...], stream: int) -> tf.Tensor:
        """Returns 16 random bits per value, uint16 (rows, values per row, padded)."""
        rows, per_row = shape[0], int(np.prod(shape[1:]))
        words = self._words(Stream.DROPOUT + stream, rows, -(-per_row // 2))
        return tf.reshape(tf.bitcast(words, tf.uint16), (rows, -1))

    def bernoulli(self, probability: float, rows: int, *, step: Any = None) -> tf.Tensor:
        """Returns booleans (rows, 1), True with `probability`; `step` overrides the position."""
        words = self._words(Stream.LABEL, rows, 1, step)[:, :1]
        return words < tf.constant(round(probability * 2**32), tf.uint32)

    def normal(self, rows: int, per_row: int) -> tf.Tensor:
        """Returns standard normals, float32 (rows, per_row)."""
        padded = -(-per_row // 4) * 4
        return tf.raw_ops.StatelessRandomNormalV2(
            shape=[rows, padded],
            key=self._key(Stream.LATENT),
            counter=self._counter(padded, None),
            alg=_PHILOX,
            dtype=tf.float32,
        )[:, :per_row]

    def _words(self, stream: int, rows: int, per_row: int, step: Any = None) -> tf.Tensor:
        padded = -(-per_row // 4) * 4
        return tf.raw_ops.StatelessRandomUniformFullIntV2(
            shape=[rows, padded],
            key=self._key(stream),
            counter=self._counter(padded, step),
            alg=_PHILOX,
            dtype=tf.uint32,
        )

    def _key(self, stream: int) -> tf.Tensor:
        return tf.constant([(self._seed << 32) + (int(stream) << 8) + self._call], tf.uint64)

    def _counter(self, padded: int, step: Any) -> tf.Tensor:
        at = self._step if step is None else tf.constant(step, tf.int64)
        first = tf.cast(self._first_row, tf.uint64) * (padded // 4)
        return tf.stack([first, tf.cast(at, tf.uint64)])
