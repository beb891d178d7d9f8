"""The output layer of `cloudgan.models.cell_marginals` as an ONNX graph, with the measured tables as constants.

The formulas are those of `MarginalOutput`; the cells are in GeV, because the inverse of the preprocessing takes
back the last power.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cloudgan.models.shower_frame import (
    ENERGY_KNOTS,
    LARGEST_SCALE,
    LEAST_EXCESS,
    LEAST_GEV,
    LEAST_SHARE,
    QUANTILES,
    REACH,
    Conditions,
    bin_number,
    knot_position,
    layer_terms,
    spectrum_corners,
    spectrum_place,
    stage_position,
    table_shape,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cloudgan.exports.generator_weights import Weights
    from cloudgan.exports.onnx_graph import Graph, Value
    from cloudgan.schema.presets import Preset

    Floats = NDArray[np.float32]


class Tables:
    """The measured tables of a generator, and the graph that reads them."""

    def __init__(self, graph: Graph, preset: Preset, weights: Weights) -> None:
        """Takes the tables from the weights of the layer `output`."""
        self.graph = graph
        self.shape = table_shape(preset.image_shape)
        self._values = {name: weights[f"output/{name}"] for name in self.shape.weights()}

    def number(self, name: str) -> Floats:
        """Returns a table as numbers."""
        return self._values[name]

    def value(self, name: str) -> Value:
        """Returns a table as a constant of the graph."""
        return self.graph.constant(self._values[name])


def marginal_showers(
    tables: Tables,
    of_cells: Value,
    of_layers: Value,
    given: tuple[Value, Value],
    normals: Value,
) -> Value:
    """Returns showers in GeV, (B, X, Y, Z).

    Args:
        tables: Measured tables.
        of_cells: Corrections of the cells, (B, X, Y, Z).
        of_layers: Corrections of the layers and their sum, (B, Z + 1).
        given: Energy in GeV and angle in rad, (B, 1) each.
        normals: (B, `TableShape.normals`).
    """
    graph = tables.graph
    x, y, depth = tables.shape.image
    energy = graph.maximum(given[0], LEAST_GEV)
    conditions = _conditions(tables, energy, given[1])
    layer = energy * _layer_shares(tables, conditions, normals[:, : depth + 1], of_layers)
    offset = _interpolate(graph, normals[:, depth + 1 : depth + 3], tables.number("offsets"))
    places = _places(tables, layer, conditions, offset)
    noise = graph.reshape(normals[:, depth + 3 :], (None, x, y, depth)) + of_cells
    log_cell, is_hit = _cells(tables, layer, places, noise)
    own = graph.sum(graph.where(is_hit, graph.exp(log_cell), 0.0), (1, 2))
    scale = graph.log(graph.maximum(layer, LEAST_GEV)) - graph.log(graph.maximum(own, LEAST_GEV))
    scale = graph.clip(scale, -LARGEST_SCALE, LARGEST_SCALE)
    gev = graph.exp(log_cell + scale[:, None, None, :])
    return graph.where(is_hit, gev, 0.0)


def _conditions(tables: Tables, energy: Value, angle: Value) -> Conditions:
    graph = tables.graph
    least, most, left, right = (float(limit) for limit in tables.number("limits"))
    return Conditions(
        graph.clip(graph.log(energy), least, most),
        graph.clip(1.0 / graph.unary("Tan", angle), left, right),
    )


def _layer_shares(
    tables: Tables, conditions: Conditions, normals: Value, corrections: Value
) -> Value:
    """Energy of each layer over that of the primary, (B, Z)."""
    graph = tables.graph
    terms = layer_terms(conditions, graph)
    factor = graph.constant(tables.number("layer_factor").T)
    normal = graph.matmul(normals, factor) + corrections
    deviation = _interpolate(graph, normal, tables.number("layer_quantiles"))
    spread = graph.exp(graph.matmul(terms, tables.value("layer_spread")))
    root = graph.relu(graph.matmul(terms, tables.value("layer_mean")) + spread * deviation)
    share = root * root
    layers, total = share[:, :-1], share[:, -1:]
    return layers * (total / graph.maximum(graph.sum(layers, 1, keepdims=True), LEAST_SHARE))


def _places(
    tables: Tables, layer: Value, conditions: Conditions, offset: Value
) -> tuple[Value, Value]:
    """Weights of the table's bins for each cell: of y, (B, Z, Y, rows), and of x, (B, X, columns)."""
    graph = tables.graph
    x, y, _ = tables.shape.image
    depth = tables.value("depth")
    total = graph.maximum(graph.sum(layer, 1, keepdims=True), LEAST_GEV)
    mean = graph.sum(layer * depth, 1, keepdims=True) / total
    axis = conditions.cotangent * (depth - mean) + offset[:, 1:2]
    sine = 1.0 / graph.unary("Sqrt", conditions.cotangent * conditions.cotangent + 1.0)
    along_y = graph.abs(graph.constant(_centred(y)[None, None, :]) - axis[:, :, None])
    along_x = graph.abs(graph.constant(_centred(x)[None, :]) - offset[:, :1])
    rows, columns = tables.shape.bins
    return (
        _bin_weights(graph, along_y * sine[:, :, None], rows),
        _bin_weights(graph, along_x, columns),
    )


def _cells(
    tables: Tables, layer: Value, places: tuple[Value, Value], noise: Value
) -> tuple[Value, Value]:
    """Logarithm of each cell's energy in GeV before its layer is scaled, and whether it is hit."""
    graph = tables.graph
    (x, y, depth), (rows, columns) = tables.shape.image, tables.shape.bins
    stage = graph.cast(stage_position(layer, graph), np.int32)
    knots = graph.take(tables.value("knots"), stage)
    log_energy = graph.log(graph.maximum(layer, LEAST_GEV))
    knot, position = knot_position(log_energy, knots, graph)
    first = stage * ENERGY_KNOTS + graph.cast(knot, np.int32)
    table = graph.constant(tables.number("cells").reshape(-1, rows * columns * 3))
    below, above = graph.take(table, first), graph.take(table, first + 1)
    values = below + position[:, :, None] * (above - below)
    values = graph.reshape(values, (None, depth, rows, columns * 3))
    values = graph.reshape(graph.matmul(places[0], values), (None, depth, y, columns, 3))
    values = graph.transpose(values, (0, 3, 4, 2, 1))
    values = graph.reshape(values, (None, columns, 3 * y * depth))
    values = graph.reshape(graph.matmul(places[1], values), (None, x, 3 * y, depth))
    threshold, log_scale, exponent = (values[:, :, at * y : (at + 1) * y] for at in range(3))
    excess = noise + threshold
    log_excess = graph.log(graph.maximum(excess, LEAST_EXCESS))
    log_cell = log_scale + exponent * log_excess
    return log_cell + _correction(tables, threshold, log_cell), graph.greater(excess, 0.0)


def _bin_weights(graph: Graph, distances: Value, bins: int) -> Value:
    """Weights of the bins for distances from the axis in cells, (..., bins)."""
    position = graph.clip(bin_number(distances, graph) - 0.5, 0.0, bins - 1.0)
    return graph.relu(1.0 - graph.abs(position[..., None] - graph.arange(bins)))


def _correction(tables: Tables, threshold: Value, log_cell: Value) -> Value:
    """What the measured spectrum adds to the logarithm of each cell's energy."""
    graph = tables.graph
    place = spectrum_place(threshold, log_cell, graph)
    corners = spectrum_corners(tables.number("spectrum"), np)
    found = graph.take(graph.constant(corners), graph.cast(place.row, np.int32))
    value, along, across, both = (graph.without_last(found[..., at : at + 1]) for at in range(4))
    return value + place.of_node * (along + place.of_class * both) + place.of_class * across


def _centred(cells: int) -> Floats:
    return (np.arange(cells) - (cells - 1) / 2).astype(np.float32)


def _interpolate(graph: Graph, normal: Value, quantiles: Floats) -> Value:
    """Values of quantile functions (N, `QUANTILES`) at normals (B, N), linear between the nodes."""
    position = (graph.clip(normal, -REACH, REACH) + REACH) * ((QUANTILES - 1) / (2 * REACH))
    nodes = graph.arange(QUANTILES)
    weights = graph.relu(1.0 - graph.abs(position[..., None] - nodes))
    return graph.sum(weights * graph.constant(quantiles), -1)
