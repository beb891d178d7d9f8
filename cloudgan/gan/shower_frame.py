"""Where a cell lies in its shower: bins of the tables of `cloudgan.gan.cell_marginals`. No Keras here.

`library` is NumPy or `keras.ops`: tables are measured with the one and read with the other. Sizes need neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

from cloudgan.schema.presets import Preset, generator_table

ENERGY_KNOTS = 6
"""Layer energies at which the cells of a layer are measured."""
QUANTILES = 33
"""Nodes of a quantile function, evenly spaced in the normal variable from -`REACH` to `REACH`."""
REACH = 3.2
LAYER_TERMS = 9
"""Terms of a layer's mean and spread, see `layer_terms`."""
STAGES = 26
"""Bins of a layer's depth over the shower's mean depth, as in the parametrisation hep-ex/0001020: a shower
that starts late widens late."""
_STAGES_PER_MEAN = 10
_FINE = ((2.5, 4.0), (5.5, 2.0))
"""Bins per cell up to a distance from the axis, in cells; one bin per cell beyond."""
LEAST_GEV = 1e-9
LEAST_ENERGY = 1e-6
"""Of energy/100 before a logarithm."""
LEAST_SHARE = 1e-6
"""Of a layer with energy, of that of the primary."""
LEAST_DEPTH = 0.5
"""Layers: of the mean depth of a shower, which is 0 of an empty one."""
LEAST_EXCESS = 1e-3
"""Of the normal variable above the threshold: below it the slope of a power would explode."""
LARGEST_SCALE = 3.0
"""Of the logarithm of a layer's scale factor."""
CLASSES, FIRST_CLASS, CLASS_STEP = 9, -2.0, 0.5
"""Thresholds b at which the spectrum of hits is corrected: their number, the first and their distance."""
NODES, FIRST_NODE, NODE_STEP = 140, math.log(1e-6), 0.1
"""Energies of a cell at which it is corrected: number, logarithm of the first in GeV, step of the logarithm."""


_NUMBERS = SimpleNamespace(minimum=min, maximum=max)
"""The library of single numbers: plans are made without NumPy."""


class Conditions(NamedTuple):
    """Conditions of showers as the tables need them, (B, 1) each."""

    log_energy: Any
    cotangent: Any


@dataclass(frozen=True)
class TableShape:
    """Sizes of the tables of an image.

    Attributes:
        image: Cells in x, y and depth.
        bins: Bins of the distance from the axis along y, then x; of rings one for all angles, then each radius.
        is_ring: Whether x is the radius and y the angle about the axis of the showers, which then does not move.
    """

    image: tuple[int, int, int]
    bins: tuple[int, int]
    is_ring: bool

    @property
    def normals(self) -> int:
        """Normals of a shower: of its depth, of each layer and their sum, of the barycentre's x and y, of each cell."""
        return self.image[2] + 4 + math.prod(self.image)

    def weights(self) -> dict[str, tuple[int, ...]]:
        """Shape of each table.

        * cells: threshold, logarithm of the scale in GeV, exponent; rows are stage, knot, bin of y, bin of x.
        * knots: logarithm of the layer energy in GeV, for each stage.
        * layer_mean, layer_spread: factors of `layer_terms` for the mean of the root of the energy share,
          and for the logarithm of its spread.
        * layer_quantiles: of the root's deviation over its spread; the last entry is that of the sum.
        * layer_factor: lower Cholesky factor of the correlation matrix.
        * layer_least: root of a layer's energy share up to which the layer is empty.
        * offsets: quantiles of the barycentre along x and y, cells from the centre.
        * depth: place of each layer along the axis, in cells.
        * layer_depth: of each layer in usual distances of layers, see `stages`.
        * neighbours: share of the normals of the cells before and after in that of each cell, along x and y in each layer.
        * limits: least and largest logarithm of energy in GeV, then cotangent of the angle, of the showers.
        * spectrum: what is added to the logarithm of a hit's energy, at `CLASSES` thresholds and `NODES` energies.
        """
        layers, roots = self.image[2], self.image[2] + 1
        return {
            "cells": (STAGES * ENERGY_KNOTS * math.prod(self.bins), 3),
            "knots": (STAGES, ENERGY_KNOTS),
            "layer_mean": (LAYER_TERMS, roots),
            "layer_spread": (LAYER_TERMS, roots),
            "layer_quantiles": (roots, QUANTILES),
            "layer_factor": (roots, roots),
            "layer_least": (layers,),
            "offsets": (2, QUANTILES),
            "depth": (layers,),
            "layer_depth": (layers,),
            "neighbours": (2, layers),
            "limits": (4,),
            "spectrum": (CLASSES, NODES),
        }

    @property
    def numbers(self) -> int:
        """Numbers in all tables."""
        return sum(math.prod(shape) for shape in self.weights().values())


def table_shape(preset: Preset) -> TableShape:
    """Returns the sizes of the tables for the images of a preset; a periodic y is the angle of rings.

    The axis of an inclined shower leaves the centre by at most 0.6 cells per layer (the angles of the public
    samples are 60 to 120 degrees); the last bin holds what lies further out.
    """
    x, y, depth = preset.image_shape
    if preset.periodic[1]:
        return TableShape(preset.image_shape, (1, x), is_ring=True)
    reach = (y / 2 + 0.3 * depth + 1, x / 2 + 1)
    rows, columns = (int(bin_number(distance, _NUMBERS)) + 1 for distance in reach)
    return TableShape(preset.image_shape, (rows, columns), is_ring=False)


def latent_length(preset: Preset) -> int:
    """Length of the generator input: latent vector, noise of the coarse cells, normals of the marginals."""
    cells = math.prod(generator_table(preset).grid)
    normals = table_shape(preset).normals if preset.cell_marginals else 0
    return preset.latent_size + preset.noise_channels * cells + normals


def bin_number(distance: Any, library: Any) -> Any:
    """Bin of a distance >= 0 in cells, as a real number: narrow near the axis, where energies change most."""
    near, middle = _FINE
    first = near[0] * near[1]
    second = first + (middle[0] - near[0]) * middle[1]
    return library.minimum(
        library.minimum(
            distance * near[1], first + library.maximum(distance - near[0], 0) * middle[1]
        ),
        second + library.maximum(distance - middle[0], 0),
    )


def middle_position(distance: Any, bins: int, library: Any) -> Any:
    """Position of a distance >= 0 in cells between the middles of `bins` bins; 0 is the first middle."""
    return library.clip(bin_number(distance, library) - 0.5, 0.0, bins - 1.0)


def stages(layers: Any, depth: Any, library: Any) -> Any:
    """Depth of each layer over the mean depth of the shower's energy, in bins, (B, Z).

    Args:
        layers: Energies, (B, Z).
        depth: Of each layer, (Z,): layers behind thicker absorbers are later.
        library: `keras.ops` or NumPy.
    """
    total = library.maximum(library.sum(layers, 1, keepdims=True), LEAST_GEV)
    mean = library.sum(layers * depth, 1, keepdims=True) / total
    mean = library.maximum(mean, LEAST_DEPTH)
    return integers(library.minimum(depth / mean * _STAGES_PER_MEAN, STAGES - 1), library)


def knot_position(log_energy: Any, knots: Any, stage: Any, library: Any) -> tuple[Any, Any]:
    """Returns the number of the knot below each layer energy, and the position up to the next, 0 to 1.

    Args:
        log_energy: Logarithms of layer energies in GeV, (B, Z).
        knots: Of each stage, (`STAGES`, `ENERGY_KNOTS`).
        stage: Of each layer, (B, Z).
        library: `keras.ops` or NumPy.
    """
    knots = library.take(knots, stage, axis=0)
    # The floor is for tables that were not measured yet: measured knots are 1e-3 apart or more.
    steps = library.maximum(knots[..., 1:] - knots[..., :-1], 1e-6)
    whole = (log_energy[..., None] - knots[..., :-1]) / steps
    whole = library.sum(library.clip(whole, 0.0, 1.0), -1)
    knot = library.minimum(library.floor(whole), ENERGY_KNOTS - 2)
    return integers(knot, library), whole - knot


def integers(numbers: Any, library: Any) -> Any:
    """Whole numbers for a look-up: `keras.ops` casts tensors, NumPy its arrays."""
    cast = getattr(library, "cast", None)
    return cast(numbers, "int32") if cast else numbers.astype("int64")


def corrected(log_cell: Any, threshold: Any, spectrum: Any, library: Any) -> Any:
    """Returns the logarithms of cells with what the measured spectrum adds; beyond its ends that of the end.

    Bilinear between the classes and the nodes of the table, with one look-up per cell: of the lower class and
    node, the steps to the next node and to the next class, and the step of both.

    Args:
        log_cell: Logarithm of the energy of each cell in GeV, any shape.
        threshold: b of each cell.
        spectrum: The table, (`CLASSES`, `NODES`).
        library: `keras.ops` or NumPy.
    """
    low, high = spectrum[:-1], spectrum[1:]
    along = low[:, 1:] - low[:, :-1]
    corners = [low[:, :-1], along, high[:, :-1] - low[:, :-1], high[:, 1:] - high[:, :-1] - along]
    corners = library.reshape(library.stack(corners, -1), (-1, 4))
    classes = library.clip((threshold - FIRST_CLASS) / CLASS_STEP, 0.0, CLASSES - 1.0)
    nodes = library.clip((log_cell - FIRST_NODE) / NODE_STEP, 0.0, NODES - 1.0)
    lower_class = library.minimum(library.floor(classes), CLASSES - 2.0)
    lower_node = library.minimum(library.floor(nodes), NODES - 2.0)
    row = integers(lower_class * (NODES - 1.0) + lower_node, library)
    at = library.take(corners, row, axis=0)
    value, of_node, of_class, of_both = (at[..., number] for number in range(4))
    up, across = nodes - lower_node, classes - lower_class
    return log_cell + value + up * (of_node + across * of_both) + across * of_class


def layer_terms(conditions: Conditions, depth: Any, library: Any) -> Any:
    """Returns the terms of a layer's mean and spread, (B, `LAYER_TERMS`).

    Given its depth, the layers of a shower are nearly normal: the first ones of a late shower have less energy, and
    spread less. Terms are even in the cotangent of the angle: a shower and its mirror image have the same layers.

    Args:
        conditions: Energy and angle.
        depth: How late the showers are at given conditions, a standard normal, (B, 1).
        library: `keras.ops` or NumPy.
    """
    return library.concatenate(
        [
            given_terms(conditions, library),
            depth,
            depth**2,
            depth * conditions.log_energy,
            depth * conditions.cotangent**2,
        ],
        axis=1,
    )


def layer_roots(terms: Any, deviation: Any, mean: Any, spread: Any, library: Any) -> Any:
    """Roots of the energy shares of the layers and of their sum, (B, Z + 1).

    Args:
        terms: Of `layer_terms`, (B, T).
        deviation: From the mean over the spread, (B, Z + 1).
        mean: Factors of the mean, (T, Z + 1).
        spread: Factors of the logarithm of the spread, alike.
        library: `keras.ops` or NumPy.
    """
    return library.matmul(terms, mean) + library.exp(library.matmul(terms, spread)) * deviation


def given_terms(conditions: Conditions, library: Any) -> Any:
    """Returns the terms of the conditions alone, (B, `LAYER_TERMS` - 4)."""
    log_energy, square = conditions.log_energy, conditions.cotangent**2
    ones = library.ones_like(log_energy)
    return library.concatenate(
        [ones, log_energy, log_energy**2, square, square * log_energy], axis=1
    )
