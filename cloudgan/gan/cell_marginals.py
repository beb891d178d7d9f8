"""Generator output from marginals measured on training showers; training corrects what they leave.

Three steps, each a monotone function of standard normals, so that the distributions are right before the
first update and every value has a gradient:

1. Layers. A normal says how late the shower is. The square root of each layer's share of the primary energy, and
   that of their sum, have a measured mean, spread, quantiles and correlation matrix at given energy, angle and
   depth (a Gaussian copula); the lowest roots are empty layers, as often as in the training showers.
2. Axis. The barycentre is drawn from its measured quantiles along x and y; the axis leaves it with the
   requested angle.
3. Cells. A cell's place relative to the axis, its depth over the shower's mean depth and the energy of its
   layer give a threshold b, a scale s and an exponent k: its energy is ``s * relu(h + b)**k`` with h normal,
   so that occupancy ``Phi(b)``, mean and spread of its energy are those of the training showers. A power has
   no edge at the energy of one crossing particle: a monotone map of this energy, for each threshold, gives
   hits their measured spectrum. A layer with energy has one hit at least. Each layer is then scaled to its energy.
   The normals of neighbours in a layer vary together as measured, else layers would be too regular.

The network adds to the normals of the cells, as a function of energy and angle: training corrects means, and what
fluctuates comes from the tables. Where it also saw normals, 800 steps made the number of hits at given layers fluctuate 1.7
times as much as in the Monte Carlo (1.1 times untrained), and corrections of the layers made their energies wrong
(docs/decisions.md). Its last weights start at zero.
"""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from cloudgan.gan.shower_frame import (
    ENERGY_KNOTS,
    LARGEST_SCALE,
    LEAST_EXCESS,
    LEAST_GEV,
    LEAST_SHARE,
    QUANTILES,
    REACH,
    STAGES,
    Conditions,
    corrected,
    knot_position,
    layer_roots,
    layer_terms,
    middle_position,
    stages,
    table_shape,
)
from cloudgan.schema.presets import Preset

CORRECTION = 0.1
"""Factor of the network's output: the optimizer's steps are otherwise larger than the corrections that are needed."""

TO_LARGE_CELLS = 0.5
"""Share of a layer's missing energy that its largest cells get before all are scaled: untrained, Geant4 showers are then
1 % too narrow along x, and 2 % too wide with 0."""

_X, _Y = 1, 2
"""Axes of images."""
_LEAST_WEIGHT, _LEAST_VARIANCE = 1e-12, 0.1


@keras.saving.register_keras_serializable(package="cloudgan")
class MarginalOutput(keras.layers.Layer):
    """Turns normals and the network's corrections into an image, (B, X, Y, Z, 1) of powered cells."""

    def __init__(self, preset: Preset, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._shape = table_shape(preset)
        self._scale, self._power = preset.image_scale, preset.image_power

    def build(self, input_shape: Any) -> None:
        """Creates the tables; they are empty until `set_tables`."""
        del input_shape
        for name, shape in self._shape.weights().items():
            made = self.add_weight(name=name, shape=shape, initializer="zeros", trainable=False)
            setattr(self, name, made)

    def set_tables(self, tables: dict[str, Any]) -> None:
        """Sets the measured tables, by the names of `TableShape.weights`."""
        for name in self._shape.weights():
            getattr(self, name).assign(tables[name])

    def call(self, inputs: list[Any]) -> Any:
        """Returns the image.

        Args:
            inputs: Corrections of the cells (B, X, Y, Z, 1); energy/100 and angle in rad, (B, 2); normals
                (B, `TableShape.normals`).
        """
        of_cells, given, normals = (ops.cast(each, self.compute_dtype) for each in inputs)
        x, y, depth = self._shape.image
        energy = ops.maximum(given[:, :1] * 100.0, LEAST_GEV)
        conditions = self._conditions(energy, given[:, 1:])
        of_depth, of_layers = normals[:, :1], normals[:, 1 : depth + 2]
        layer = energy * self._layer_shares(conditions, of_depth, of_layers)
        offset = _interpolate(normals[:, depth + 2 : depth + 4], self.offsets)
        places = self._places(layer, conditions, offset)
        noise = ops.reshape(normals[:, depth + 4 :], (-1, x, y, depth))
        log_cell, is_hit = self._cells(layer, places, noise, CORRECTION * of_cells[..., 0])
        log_cell = _scaled(log_cell, is_hit, layer) + math.log(self._scale)
        return ops.where(is_hit, ops.exp(self._power * log_cell), 0.0)[..., None]

    def _conditions(self, energy: Any, angle: Any) -> Conditions:
        """Conditions within those of the measured showers: polynomials say nothing beyond them."""
        least, most, left, right = (self.limits[number] for number in range(4))
        # Not `ops.clip`, whose limits are options of the operation: an export cannot save tensors there.
        return Conditions(
            ops.maximum(least, ops.minimum(most, ops.log(energy))),
            ops.maximum(left, ops.minimum(right, 1.0 / ops.tan(angle))),
        )

    def _layer_shares(self, conditions: Conditions, of_depth: Any, of_layers: Any) -> Any:
        """Energy of each layer over that of the primary, (B, Z); 0 of an empty layer."""
        terms = layer_terms(conditions, of_depth, ops)
        normal = ops.matmul(of_layers, ops.transpose(self.layer_factor))
        deviation = _interpolate(normal, self.layer_quantiles)
        root = layer_roots(terms, deviation, self.layer_mean, self.layer_spread, ops)
        share = ops.square(ops.maximum(root, math.sqrt(LEAST_SHARE)))
        layers = ops.where(root[:, :-1] > self.layer_least, share[:, :-1], 0.0)
        total = ops.maximum(ops.sum(layers, 1, keepdims=True), LEAST_SHARE)
        return layers * (share[:, -1:] / total)

    def _places(self, layer: Any, conditions: Conditions, offset: Any) -> tuple[Any, Any]:
        """Weights of the table's bins for each cell: of y, (B, Z, Y, rows), and of x, (B, X, columns).

        Linear between the middles of the bins: whole bins would move all cells of a shower at once where the
        axis crosses an edge, so that barycentres would be a comb. Of rings each radius has its bin, counted
        from the inner edge, and all angles are alike: their axis is that of the showers.
        """
        x, y, _ = self._shape.image
        rows, columns = self._shape.bins
        if self._shape.is_ring:
            radius = ops.zeros_like(offset[:, :1]) + ops.arange(x, dtype=offset.dtype)
            every_angle = ops.zeros_like(layer)[:, :, None] + ops.zeros((y,), dtype=layer.dtype)
            return _bin_weights(every_angle, rows), _bin_weights(radius, columns)
        depth = ops.convert_to_tensor(self.depth)
        mean = ops.sum(layer * depth, 1, keepdims=True) / ops.maximum(
            ops.sum(layer, 1, keepdims=True), LEAST_GEV
        )
        axis = conditions.cotangent * (depth - ops.stop_gradient(mean)) + offset[:, 1:2]
        # At right angles to the axis: the cut of a layer through an inclined shower is longer along y.
        sine = ops.rsqrt(1.0 + ops.square(conditions.cotangent))
        along_y = ops.abs(self._centred(y)[None, None, :] - axis[:, :, None]) * sine[:, :, None]
        along_x = ops.abs(self._centred(x)[None, :] - offset[:, :1])
        return (
            _bin_weights(middle_position(along_y, rows, ops), rows),
            _bin_weights(middle_position(along_x, columns, ops), columns),
        )

    def _with_neighbours(self, values: Any) -> Any:
        """Adds to values of the cells, (B, X, Y, Z), those of neighbours in a layer; normals stay normals."""
        for axis, share in ((_X, self.neighbours[0]), (_Y, self.neighbours[1])):
            inside = np.ones((2, values.shape[axis]))
            if not (self._shape.is_ring and axis == _Y):
                inside[0, 0] = inside[1, -1] = 0
            sides = [1, *(values.shape[at] if at == axis else 1 for at in (_X, _Y)), 1]
            before, after = (
                ops.convert_to_tensor(each.reshape(sides), values.dtype) for each in inside
            )
            # A tensor of numbers first would not accept the symbols of an export.
            both = ops.roll(values, 1, axis) * before + ops.roll(values, -1, axis) * after
            variance = 1.0 + (before + after) * ops.square(share)
            values = (values + both * share) * ops.rsqrt(variance)
        return values

    def _together(self, noise: Any, threshold: Any) -> Any:
        """Normals of the cells of which neighbours vary together, and the number of hits of a layer as if none did.

        The energy of the layer is given, so that more hits on one side are fewer elsewhere.
        """
        noise = self._with_neighbours(noise)
        weight = ops.exp(-0.5 * ops.square(threshold))

        def over_layer(values: Any) -> Any:
            return ops.sum(values, axis=(_X, _Y), keepdims=True)

        squares = ops.maximum(over_layer(ops.square(weight)), _LEAST_WEIGHT)
        gain = over_layer(ops.square(self._with_neighbours(weight))) / squares
        gain = ops.maximum(gain, 1.0)
        common = over_layer(weight * noise) / squares
        noise = noise - (1.0 - ops.rsqrt(gain)) * weight * common
        variance = 1.0 - (gain - 1.0) * ops.square(weight) / squares
        return noise * ops.rsqrt(ops.maximum(variance, _LEAST_VARIANCE))

    def _centred(self, cells: int) -> Any:
        return ops.convert_to_tensor(np.arange(cells) - (cells - 1) / 2, dtype=self.compute_dtype)

    def _cells(
        self, layer: Any, places: tuple[Any, Any], noise: Any, correction: Any
    ) -> tuple[Any, Any]:
        """Logarithm of each cell's energy in GeV before its layer is scaled, and whether it is hit."""
        (x, y, depth), (rows, columns) = self._shape.image, self._shape.bins
        stage = stages(layer, ops.convert_to_tensor(self.layer_depth), ops)
        log_energy = ops.stop_gradient(ops.log(ops.maximum(layer, LEAST_GEV)))
        knot, position = knot_position(log_energy, ops.convert_to_tensor(self.knots), stage, ops)
        first = stage * ENERGY_KNOTS + knot
        table = ops.reshape(self.cells, (STAGES * ENERGY_KNOTS, rows * columns * 3))
        below, above = ops.take(table, first, axis=0), ops.take(table, first + 1, axis=0)
        values = below + position[:, :, None] * (above - below)
        values = ops.reshape(values, (-1, depth, rows, columns * 3))
        values = ops.reshape(ops.matmul(places[0], values), (-1, depth, y, columns, 3))
        values = ops.reshape(ops.transpose(values, (0, 3, 4, 2, 1)), (-1, columns, 3 * y * depth))
        values = ops.reshape(ops.matmul(places[1], values), (-1, x, 3, y, depth))
        threshold, log_scale, exponent = values[:, :, 0], values[:, :, 1], values[:, :, 2]
        excess = self._together(noise, threshold) + correction + threshold
        most = ops.max(excess, axis=(1, 2), keepdims=True)
        excess = ops.where(ops.logical_and(most <= 0, excess >= most), 1.0, excess)
        log_excess = ops.log(ops.maximum(excess, LEAST_EXCESS))
        log_cell = log_scale + exponent * log_excess
        spectrum = ops.convert_to_tensor(self.spectrum)
        is_hit = ops.logical_and(excess > 0, (layer > LEAST_GEV)[:, None, None, :])
        return corrected(log_cell, threshold, spectrum, ops), is_hit


def _scaled(log_cell: Any, is_hit: Any, layer: Any) -> Any:
    """Returns the logarithms of the cells, (B, X, Y, Z), such that hits sum to the energies of the layers, (B, Z).

    A common factor alone would add the fluctuations of the largest cells to all others, and widen the layers of
    few hits: half of what is missing first goes to the cells by the squares of their energies.
    """
    cell = ops.where(is_hit, ops.exp(log_cell), 0.0)
    missing = layer - ops.sum(cell, axis=(1, 2))
    squares = ops.maximum(ops.sum(ops.square(cell), axis=(1, 2)), LEAST_GEV**2)
    share = (TO_LARGE_CELLS * missing / squares)[:, None, None, :] * cell
    log_cell = log_cell + ops.clip(share, -1.0, 1.0)
    own = ops.sum(ops.where(is_hit, ops.exp(log_cell), 0.0), axis=(1, 2))
    scale = ops.log(ops.maximum(layer, LEAST_GEV)) - ops.log(ops.maximum(own, LEAST_GEV))
    return log_cell + ops.clip(scale, -LARGEST_SCALE, LARGEST_SCALE)[:, None, None, :]


def _bin_weights(position: Any, bins: int) -> Any:
    """Weights of the bins for positions between their middles, (..., bins): linear, their sum is 1."""
    return ops.relu(1.0 - ops.abs(position[..., None] - ops.arange(bins, dtype=position.dtype)))


def _interpolate(normal: Any, quantiles: Any) -> Any:
    """Values of quantile functions (N, `QUANTILES`) at normals (B, N), linear between the nodes."""
    position = (ops.clip(normal, -REACH, REACH) + REACH) * ((QUANTILES - 1) / (2 * REACH))
    nodes = ops.arange(QUANTILES, dtype=position.dtype)
    weights = ops.relu(1.0 - ops.abs(position[..., None] - nodes))
    return ops.sum(weights * quantiles, -1)
