"""What the discriminator reads off an image without learning: its angle and its sum.

One contraction gives, per layer, the energy and its first moments in x and y; everything after
it works on vectors of one number per layer. Every division and root is safe at zero, in value
and in gradient: an empty image measures angle 0 and sum 0 (the published code gives NaN).
"""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from cloudgan.models.power import raised

_TINY = 1e-7  # the smallest squared distance, in cells; as in the published code


@keras.saving.register_keras_serializable(package="cloudgan")
class Measure(keras.layers.Layer):
    """Image (B, X, Y, Z, 1) of powered cells -> angle (B, 1) in rad, sum (B, 1) in scaled GeV.

    The angle is `cloudgan.data.showers.measured_angle` as a differentiable function.
    """

    def __init__(self, image_power: float, **kwargs: Any) -> None:
        # A bfloat16 moment over 51 cells has two digits, so this layer keeps full precision.
        dtype = "float64" if keras.config.dtype_policy().compute_dtype == "float64" else "float32"
        super().__init__(dtype=dtype, **kwargs)
        self._image_power = image_power

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Prepares the rows 1, x, y of the contraction."""
        x, y = int(input_shape[1] or 0), int(input_shape[2] or 0)
        ones = np.ones((x, y))
        self._moments = np.stack(
            [ones, ones * (np.arange(x) + 0.5)[:, None], ones * (np.arange(y) + 0.5)]
        ).reshape(1, 3, x * y)
        self._cells, self._depth = x * y, int(input_shape[3] or 0)

    def call(self, image: Any) -> tuple[Any, Any]:
        """Measures."""
        dtype = self.compute_dtype
        cells = ops.cast(ops.reshape(image, (-1, self._cells, self._depth)), dtype)
        cells = raised(cells, 1.0 / self._image_power)
        layer, x_moment, y_moment = self.layer_moments(cells)
        total = ops.sum(layer, axis=1, keepdims=True)
        z = ops.convert_to_tensor(np.arange(self._depth) + 0.5, dtype)
        x_mean = _ratio(ops.sum(x_moment, axis=1, keepdims=True), total)
        y_mean = _ratio(ops.sum(y_moment, axis=1, keepdims=True), total)
        z_mean = _ratio(ops.sum(layer * z, axis=1, keepdims=True), total)
        run = ops.sqrt(
            ops.maximum((_ratio(x_moment, layer) - x_mean) ** 2 + (z - z_mean) ** 2, _TINY)
        )
        slope = (_ratio(y_moment, layer) - y_mean) / run
        slope = ops.where(z < z_mean, -slope, slope)
        weight = z * ops.cast(layer > 0, dtype)
        angle = _ratio(
            ops.sum((math.pi / 2 - ops.arctan(slope)) * weight, axis=1, keepdims=True),
            ops.sum(weight, axis=1, keepdims=True),
        )
        return angle, total

    def layer_moments(self, cells: Any) -> tuple[Any, Any, Any]:
        """Sums of cells (B, X*Y, Z) by layer, (B, Z): their energy, times x, times y."""
        moments = ops.matmul(ops.convert_to_tensor(self._moments, cells.dtype), cells)
        return moments[:, 0], moments[:, 1], moments[:, 2]


def _ratio(above: Any, below: Any) -> Any:
    """`above / below`, 0 where `below` is not positive; the gradient is finite everywhere."""
    positive = below > 0
    return ops.where(positive, above / ops.where(positive, below, 1.0), ops.zeros_like(above))
