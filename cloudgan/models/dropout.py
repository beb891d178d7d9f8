"""Dropout whose mask comes from an injected source, so that replicas agree on every draw.

Keras' own layer draws the same mask on every replica of a MirroredStrategy and another one for
another number of replicas (measured with Keras 3.15).
"""

from __future__ import annotations

from typing import Any, Protocol

import keras
from keras import ops


class MaskSource(Protocol):
    """Decides which values survive."""

    def keep(self, shape: tuple[int, ...], rate: float, stream: int) -> Any:
        """Returns a boolean tensor of `shape`, True with probability 1 - `rate`."""


class KerasMasks:
    """Masks from `keras.random`, on any backend: for one device, without the promise above."""

    def __init__(self, seed: int) -> None:
        self._seeds = keras.random.SeedGenerator(seed)

    def keep(self, shape: tuple[int, ...], rate: float, stream: int) -> Any:
        """Returns a boolean tensor of `shape`; `stream` is not needed here."""
        del stream
        return keras.random.uniform(shape, seed=self._seeds) >= rate


class Dropout(keras.layers.Layer):
    """Zeroes a share `rate` of its input while training and scales the rest up."""

    def __init__(self, rate: float, stream: int, masks: MaskSource, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._rate, self._stream, self._masks = rate, stream, masks

    def call(self, values: Any, training: bool = False) -> Any:
        """Drops while training; otherwise returns `values` as they are."""
        if not training or not self._rate:
            return values
        keep = self._masks.keep(tuple(values.shape), self._rate, self._stream)
        return values * (ops.cast(keep, values.dtype) * (1 / (1 - self._rate)))
