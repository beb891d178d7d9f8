"""Shower observables with a gradient, in `keras.ops`: measured angle, energy sum and shape features.

Every value and gradient is finite for an empty image.
"""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from cloudgan.schema.presets import Preset

Floats = NDArray[np.float64]


_LEAST = 1e-30  # 1e-38 of float32 would make the logarithm's gradient overflow


def safe_power(cells: Any, exponent: float) -> Any:
    """Returns `cells ** exponent` for cells >= 0 and exponent >= 1; any shape.

    Exponential and logarithm are vectorised where a general power is not (TensorFlow on CPU: 0.5 instead of
    2.7 ms for 230,000 cells). Value and gradient are 0 at 0.
    """
    if exponent == 1.0:
        return cells
    least = ops.maximum(cells, _LEAST)
    return ops.where(cells > 0, ops.exp(exponent * ops.log(least)), ops.zeros_like(cells))


_TINY = 1e-7  # smallest squared distance, cells; as in the published code


@keras.saving.register_keras_serializable(package="cloudgan")
class AngleAndSum(keras.layers.Layer):
    """Image (B, X, Y, Z, 1) of powered cells -> angle (B, 1) in rad, sum (B, 1) in scaled GeV.

    The angle is `cloudgan.data.showers.measured_angle` in differentiable form. One contraction gives, per
    layer, the energy and its first moments in x and y; the rest works on one value per layer. An empty image
    has angle 0 and sum 0 (the published code gives NaN).
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
        """Returns angle and sum."""
        dtype = self.compute_dtype
        cells = ops.cast(ops.reshape(image, (-1, self._cells, self._depth)), dtype)
        cells = safe_power(cells, 1.0 / self._image_power)
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
        """Sums of cells (B, X*Y, Z) per layer, (B, Z): energy, times x, times y."""
        moments = ops.matmul(ops.convert_to_tensor(self._moments, cells.dtype), cells)
        return moments[:, 0], moments[:, 1], moments[:, 2]


def _ratio(above: Any, below: Any) -> Any:
    """`above / below`, 0 where `below` is not positive; the gradient is finite everywhere."""
    positive = below > 0
    return ops.where(positive, above / ops.where(positive, below, 1.0), ops.zeros_like(above))


_LEAST_ENERGY = 1e-2  # of 100 GeV
_ROOT_AT_ZERO = 1e-4  # a share of 1e-4 of the shower: below it a root's slope would explode
_SECTIONS = 5  # along the depth; rings and barycentres are taken in each
_SOFT_SHARE = 1e-5  # of the primary's energy: the barycentre of an empty layer is the centre
_RING_CELLS = (0.7, 1.5, 2.5, 4.0, 6.0, 9.0)
_HITS_GEV = (1e-4, 3e-4, 3e-3)


def shape_weights(preset: Preset) -> Floats:
    """Returns the weight of each feature, (F,): every kind of feature weighs equally; the sum is 1."""
    x, y, z = preset.image_shape
    rings = _SECTIONS * (len(_RING_CELLS) + 1)
    kinds = (z, x, y, rings, 1, 2 * _SECTIONS, 6, 1, len(_HITS_GEV), 2 * z, z)
    return np.concatenate([np.full(size, 1 / (len(kinds) * size)) for size in kinds])


def shower_shape(preset: Preset, image: Any, energy: Any) -> Any:
    """Returns the shape features of each shower, (B, F), dimensionless or in cells.

    Roots of the energy shares per layer, per column along x and y, per ring about the centre in five
    sections of the depth, and of all cells (a root equalises the spread of large and small shares);
    barycentres of the sections along x, then y; mean and width along x, y and depth; root of the largest
    cell's share; roots of the soft numbers of cells above 0.1, 0.3 and 3 MeV; barycentre and width of each layer,
    without which layers drift apart from each other while the sections stay right.

    Args:
        preset: Provides scale and power.
        image: Powered cells, (B, X, Y, Z, 1).
        energy: energy/100, (B, 1).
    """
    cells = safe_power(image[..., 0], 1.0 / preset.image_power)
    # Of order 1: the sampling fraction is 1/50, and the published scale is 50.
    shares = cells / ops.reshape(ops.maximum(energy, _LEAST_ENERGY) * 100.0, (-1, 1, 1, 1))
    x, y, z = preset.image_shape
    flat = ops.reshape(shares, (-1, x * y, z))
    masks = ops.convert_to_tensor(_plane_masks(x, y), flat.dtype)  # (K, X * Y)
    planes = ops.matmul(masks, flat)  # (B, K, Z)
    rings = len(_RING_CELLS) + 1
    sections = ops.matmul(planes, ops.convert_to_tensor(_section_masks(z), flat.dtype))
    columns = ops.sum(planes[:, rings + 2 :], -1)
    layers = ops.sum(planes[:, :rings], 1)
    total = ops.sum(layers, 1, keepdims=True)
    per_section = ops.sum(sections[:, :rings], 1)
    centres = _ratio(sections[:, rings : rings + 2], per_section[:, None])
    roots = [layers, columns, ops.reshape(sections[:, :rings], (-1, rings * _SECTIONS)), total]
    return ops.concatenate(
        [
            *(_root(share) for share in roots),
            ops.reshape(centres, (-1, 2 * _SECTIONS)),
            *_widths(columns[:, :x], columns[:, x:], layers),
            _root(ops.max(flat, (1, 2))[:, None]),
            _soft_hits(cells / preset.image_scale),
            *_layer_places(flat, planes[:, rings : rings + 2], layers, (x, y)),
        ],
        1,
    )


def _layer_places(flat: Any, moments: Any, layers: Any, sides: tuple[int, int]) -> list[Any]:
    """Barycentres of the layers, (B, 2 Z), and root mean square distances from them, (B, Z), in cells.

    Args:
        flat: Shares of the cells, (B, X * Y, Z).
        moments: Their sums times the place along x and y from the centre, (B, 2, Z).
        layers: Their sums, (B, Z).
        sides: X and Y.
    """
    off_x, off_y = (np.arange(size) - (size - 1) / 2 for size in sides)
    square = (off_x[:, None] ** 2 + off_y**2).reshape(1, -1)
    second = ops.matmul(ops.convert_to_tensor(square, flat.dtype), flat)[:, 0]
    total = layers + _SOFT_SHARE
    centre = moments / total[:, None]
    width = second / total - ops.sum(ops.square(centre), 1)
    return [
        ops.reshape(centre, (-1, 2 * layers.shape[1])),
        ops.sqrt(ops.maximum(width, _ROOT_AT_ZERO)),
    ]


def _plane_masks(x: int, y: int) -> Floats:
    """Rings about the centre; x and y in cells from the centre; columns along x, along y."""
    off_x, off_y = np.arange(x) - (x - 1) / 2, np.arange(y) - (y - 1) / 2
    distance = np.hypot(off_x[:, None], off_y)
    ring = np.digitize(distance, _RING_CELLS)
    rings = [(ring == number) * 1.0 for number in range(len(_RING_CELLS) + 1)]
    ones = np.ones((x, y))
    places = [off_x[:, None] * ones, off_y * ones]
    along_x = [ones * np.eye(x)[column][:, None] for column in range(x)]
    along_y = [ones * np.eye(y)[column] for column in range(y)]
    return np.stack([*rings, *places, *along_x, *along_y]).reshape(-1, x * y)


def _section_masks(z: int) -> Floats:
    return np.eye(_SECTIONS)[np.arange(z) * _SECTIONS // z]


def _widths(along_x: Any, along_y: Any, layers: Any) -> list[Any]:
    """Barycentre and root mean square about it, (B, 2) per axis."""
    found = []
    for profile in (along_x, along_y, layers):
        place = ops.convert_to_tensor(np.arange(profile.shape[1]) * 1.0, profile.dtype)
        total = ops.sum(profile, 1, keepdims=True)
        mean = _ratio(ops.sum(profile * place, 1, keepdims=True), total)
        square = _ratio(ops.sum(profile * (place - mean) ** 2, 1, keepdims=True), total)
        found += [mean, ops.sqrt(ops.maximum(square, _ROOT_AT_ZERO))]
    return found


def _soft_hits(cells_gev: Any) -> Any:
    """Roots of the number of cells above each threshold; a cell at the threshold counts half."""
    counts = []
    for cut in _HITS_GEV:
        above = ops.square(ops.square(cells_gev / cut))
        counts.append(ops.sum(above / (above + 1.0), (1, 2, 3)))
    return ops.sqrt(ops.stack(counts, 1) + 1.0)


def _root(share: Any) -> Any:
    return ops.sqrt(share + _ROOT_AT_ZERO) - _ROOT_AT_ZERO**0.5
