"""Random numbers of a step under JAX: functions of a key, so that a compiled step has no state."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from collections.abc import Iterator

_GENERATOR = "rbg"  # on a GPU XLA's Philox, the generator of cloudgan.training.rng
_LABEL, _LATENT, _DROPOUT = range(3)  # dropout layers count up from the last


def key_of(seed: int) -> Any:
    """Returns the key of a step; an argument of it, or XLA would draw while it compiles."""
    return jax.random.key(seed, impl=_GENERATOR)


class KeyedDraws:
    """Draws of a pass; implements `cloudgan.models.layers.MaskSource`."""

    def __init__(self) -> None:
        self._key: Any = None

    @contextmanager
    def at(self, key: Any, call: int) -> Iterator[None]:
        """Draws inside belong to pass `call` of the step whose key this is."""
        before, self._key = self._key, jax.random.fold_in(key, call)
        try:
            yield
        finally:
            self._key = before

    def dropout_mask(self, shape: tuple[int, ...], rate: float, stream: int) -> Any:
        """Returns a dropout mask: True with probability 1 - rate (to 1/65536)."""
        bits = jax.random.bits(self._stream(_DROPOUT + stream), shape, jnp.uint16)
        return bits >= round(rate * 65536)

    def bernoulli(self, probability: float, rows: int) -> Any:
        """Returns booleans (rows, 1), True with `probability`."""
        return jax.random.uniform(self._stream(_LABEL), (rows, 1)) < probability

    def normal(self, rows: int, per_row: int) -> Any:
        """Returns standard normals, float32 (rows, per_row)."""
        return jax.random.normal(self._stream(_LATENT), (rows, per_row), jnp.float32)

    def _stream(self, stream: int) -> Any:
        return jax.random.fold_in(self._key, stream)
