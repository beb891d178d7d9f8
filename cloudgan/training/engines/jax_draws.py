"""Random numbers of a step under JAX: those of `cloudgan.training.rng`, to the rounding of a logarithm.

TensorFlow's Philox has the key (seed, stream and pass) and the counter (block of the row, step); normals
are Box and Muller's from two words each (tensorflow/core/lib/random/random_distributions.h of 2.21).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cloudgan.models.philox import FULL_TURN, LEAST_UNIFORM, float_bits, high_word, philox
from cloudgan.training.draws import Stream, dropout_threshold

_BLOCK = 4  # words of a block of Philox


class JaxDraws:
    """Implements `cloudgan.training.draws.Draws`; the position is traced, the pass is not."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._step: Any = 0
        self._first_row: Any = 0
        self._call = 0

    @contextmanager
    def at(self, step: Any, first_row: Any, call: int) -> Iterator[None]:
        """Sets the position: `call` of `step`, rows from `first_row` on (below 2**31)."""
        before = self._step, self._first_row, self._call
        self._step, self._first_row, self._call = step, first_row, int(call)
        try:
            yield
        finally:
            self._step, self._first_row, self._call = before

    def dropout_mask(self, shape: tuple[int, ...], rate: float, stream: int) -> Any:
        """Returns a dropout mask: True with probability 1 - rate (to 1/65536)."""
        rows, per_row = shape[0], math.prod(shape[1:])
        words = self._words(Stream.DROPOUT + stream, rows, -(-per_row // 2))
        halves = jnp.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], -1)
        uniform = halves.reshape(rows, -1)[:, :per_row]
        return (uniform >= np.uint32(dropout_threshold(rate))).reshape(shape)

    def bernoulli(self, probability: float, rows: int, *, step: Any = None) -> Any:
        """Returns booleans (rows, 1), True with `probability`; `step` overrides the position."""
        words = self._words(Stream.LABEL, rows, 1, step)[:, :1]
        return words < np.uint32(round(probability * 2**32))

    def normal(self, rows: int, per_row: int) -> Any:
        """Returns standard normals, float32 (rows, per_row)."""
        words = self._words(Stream.LATENT, rows, per_row)
        bits = jax.lax.bitcast_convert_type(float_bits(words), jnp.float32)
        unit = (bits - 1.0).reshape(rows, -1, 2)
        radius = jnp.sqrt(-2.0 * jnp.log(jnp.maximum(unit[..., 0], LEAST_UNIFORM)))
        turn = FULL_TURN * unit[..., 1]
        pairs = jnp.stack([jnp.sin(turn) * radius, jnp.cos(turn) * radius], -1)
        return pairs.reshape(rows, -1)[:, :per_row]

    def _words(self, stream: int, rows: int, per_row: int, step: Any = None) -> Any:
        """Returns random words, uint32 (rows, per_row rounded up to blocks)."""
        blocks = -(-per_row // _BLOCK)
        at = jnp.asarray(self._step if step is None else step).astype(jnp.uint32)
        row = jnp.asarray(self._first_row).astype(jnp.uint32) + jnp.arange(rows, dtype=jnp.uint32)
        row, count = row[:, None], np.uint32(blocks)
        # The number of a block has 64 bits, as TensorFlow's: 33,000 rows of the paper's dropout need more than 32.
        low = row * count + jnp.arange(blocks, dtype=jnp.uint32)
        high = high_word(count, row) + (low < row * count)
        key = ((int(stream) << 8) + self._call, self._seed)
        words = philox((low, high, jnp.broadcast_to(at, low.shape), jnp.zeros_like(low)), key)
        return jnp.stack(words, -1).reshape(rows, blocks * _BLOCK)
