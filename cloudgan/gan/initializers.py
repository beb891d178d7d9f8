"""Initial weights that do not depend on the backend of Keras."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from cloudgan.gan.philox import truncated_normal_of_tensorflow, uniform_of_tensorflow

_SPREAD_OF_TRUNCATED = 0.87962566103423978
"""Standard deviation of a normal that is cut at 2."""


class InitializerOfTensorFlow(keras.initializers.Initializer):
    """Draws, on any backend, what an initializer of Keras draws under TensorFlow.

    Keras 3.15 uses the generator of its backend, so that a seed means other weights with each.
    """

    def __init__(self, other: keras.initializers.VarianceScaling) -> None:
        """Takes scale, mode, distribution (uniform or truncated normal) and seed of `other`."""
        self._other = other

    def __call__(self, shape: tuple[int, ...], dtype: Any = None) -> Any:
        """Returns the weights, computed in float32."""
        receptive = math.prod(shape[:-2])
        fan_in, fan_out = shape[-2] * receptive, shape[-1] * receptive
        fans = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}
        scale, seed = self._other.scale / max(1.0, fans[self._other.mode]), self._other.seed
        if self._other.distribution == "uniform":
            limit = math.sqrt(3.0 * scale)
            found = uniform_of_tensorflow(shape, -limit, limit, seed)
        else:
            spread = math.sqrt(scale) / _SPREAD_OF_TRUNCATED
            found = truncated_normal_of_tensorflow(shape, spread, seed)
        return ops.cast(found, dtype or "float32")
