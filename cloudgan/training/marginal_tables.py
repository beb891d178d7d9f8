"""Measures the tables of `cloudgan.gan.cell_marginals` on training showers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.special import ndtr, ndtri

from cloudgan.data.batches import TrainingSet
from cloudgan.data.showers import ENERGY_UNIT_GEV, LEAST_CELL_GEV
from cloudgan.gan.shower_frame import (
    CLASS_STEP,
    CLASSES,
    ENERGY_KNOTS,
    FIRST_CLASS,
    FIRST_NODE,
    LEAST_EXCESS,
    NODE_STEP,
    NODES,
    QUANTILES,
    STAGES,
    Conditions,
    corrected,
    knot_position,
    middle_position,
    stages,
    table_shape,
)
from cloudgan.schema.presets import Preset
from cloudgan.training.hit_model import Block, exponents, neighbour_shares
from cloudgan.training.layer_tables import PARTS, bin_middles, layer_tables, quantiles

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_SHOWERS = 10_000
"""Training showers that are measured, spread over the whole set; more change nothing that can be seen."""
_BLOCK = 512
_KNOT_SHARES = (0.01, 0.99)
_SMOOTHING = ((2.0, 6.0), (1.0, 3.0), (0.7, 1.5), (0.0, 0.5))
"""Standard deviations in layers and bins, wide to narrow: each estimate is the prior of the next."""
_SMOOTHING_OF_RINGS = ((2.0, 2.0), (1.0, 1.0), (0.7, 0.0), (0.0, 0.0))
"""A bin is a whole cell there, and the energy falls steeply from one radius to the next."""
_PRIOR_HITS, _PRIOR_SPREADS = 2.0, 4.0
"""Weight of the wider estimate, in showers: a spread needs more of them than a mean."""
_LEAST_SPREAD = 1.005
_DEPTH_ROUNDS = 20
_NEAR = 2.5
"""Cells: largest distance from the axis of the hits that follow it."""
_OFFSET_REACH, _OFFSETS = 3.0, 301
_SHIFT_REACH, _SHIFTS = 8.0, 321
"""Cells: farthest offset of an axis."""
_LEAST_SLOPE = 0.01
"""Showers of a single angle say nothing about places along the axis, which are then zero."""
_LEAST_STEP = 0.05
"""Cells: of the usual distance of layers."""
_TINY = 1e-12
_HITS_PER_CLASS = 2000
"""Least hits for the spectrum at a threshold; where fewer are near it, the nearest."""
_SPECTRUM_SHARES = np.r_[1e-4, 3e-4, 1e-3, 3e-3, np.linspace(0.01, 0.99, 197)]
_SPECTRUM_SHARES = np.r_[_SPECTRUM_SHARES, 1 - _SPECTRUM_SHARES[3::-1]]
_SPECTRUM_HITS = 400_000
"""Hits that the spectrum is measured with."""
_PAIRED, _PAIRED_AT_ONCE = 1000, 50
"""Showers whose neighbouring cells are compared: their correlations are known to 0.003 then."""
_LEVELS = 20
"""Quantiles of a cell's hits for their mean."""
_GOLDEN = (np.sqrt(5) - 1) / 2
"""Its multiples, modulo 1, are evenly spread over any run of hits."""


class _Hits(NamedTuple):
    """Cells with energy, one entry each: shower, cell along x, y and depth, energy in GeV."""

    shower: Integers
    x: Integers
    y: Integers
    layer: Integers
    gev: Floats


class _Showers(NamedTuple):
    """Showers of a measurement: hits; energy in GeV and cotangent of the angle (N,); layers in GeV (N, Z)."""

    hits: _Hits
    energy: Floats
    cotangent: Floats
    layers: Floats

    @property
    def conditions(self) -> Conditions:
        return Conditions(np.log(self.energy)[:, None], self.cotangent[:, None])


def measure_marginals(preset: Preset, showers: TrainingSet) -> dict[str, NDArray[np.float32]]:
    """Returns the tables of training showers, by the names of `TableShape.weights`.

    Every worker of a run measures the same showers in the same order, and so gets the same bits.
    """
    measured, depth = _read(preset, showers), preset.image_shape[2]
    layers = layer_tables(measured.conditions, measured.energy, measured.layers)
    place = _Place(preset, measured)
    cells = _cell_tables(place, measured)
    limits = [
        edge(values)
        for values in (np.log(measured.energy), measured.cotangent)
        for edge in (np.min, np.max)
    ]
    tables = layers | cells
    tables |= {"depth": place.depth, "layer_depth": place.layer_depth}
    tables["limits"] = np.array(limits)
    tables["neighbours"] = neighbour_shares(
        place.blocks(cells["cells"][:, 0], measured.hits), depth, is_ring=place.shape.is_ring
    )
    tables["offsets"] = place.offsets if place.shape.is_ring else _windowed(place, measured)
    return {name: np.asarray(table, np.float32) for name, table in tables.items()}


def _read(preset: Preset, showers: TrainingSet) -> _Showers:
    rows = np.arange(0, showers.count, max(1, -(-showers.count // MOST_SHOWERS)))
    _, y, depth = preset.image_shape
    parts: list[_Hits] = []
    energy, angle = [], []
    for first in range(0, len(rows), _BLOCK):
        block = showers.train_cells(rows[first : first + _BLOCK])
        image = block.image
        gev = image.value.astype(np.float64) ** (1 / preset.image_power) / preset.image_scale
        is_hit = gev >= LEAST_CELL_GEV
        number = image.row[is_hit] + first
        cell = image.cell[is_hit].astype(np.int64)
        parts.append(
            _Hits(number, cell // (y * depth), cell // depth % y, cell % depth, gev[is_hit])
        )
        energy.append(block.energy[:, 0].astype(np.float64) * ENERGY_UNIT_GEV)
        angle.append(block.angle[:, 0].astype(np.float64))
    hits = _Hits(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    count = len(rows)
    layers = np.bincount(hits.shower * depth + hits.layer, hits.gev, count * depth).astype(
        np.float64
    )
    return _Showers(
        hits,
        np.concatenate(energy),
        1 / np.tan(np.concatenate(angle)),
        layers.reshape(count, depth),
    )


class _Place:
    """Where the cells of a shower lie relative to its axis, and between which energy knots its layers.

    `across` and `aside` are positions between the middles of the bins, of each row in each layer (N, Y, Z) and of
    each column (N, X).
    """

    def __init__(self, preset: Preset, showers: _Showers) -> None:
        self.shape = table_shape(preset)
        self.image = preset.image_shape
        if self.shape.is_ring:
            self._on_the_axis(showers)
        else:
            self._about_the_barycentre(showers)
        rows, columns = self.shape.bins
        self.row = np.minimum(np.floor(self.across + 0.5), rows - 1).astype(np.int64)
        self.column = np.minimum(np.floor(self.aside + 0.5), columns - 1).astype(np.int64)
        shares = np.linspace(*_KNOT_SHARES, ENERGY_KNOTS)
        log_layers = np.log(np.maximum(showers.layers, 1e-6))
        # Knots must increase, also for a layer that no shower reaches. Empty layers have no cells to measure.
        self.layer_depth = _layer_depth(self.depth)
        self.stage = stages(showers.layers, self.layer_depth, np)
        self.filled = showers.layers > 0
        known = [log_layers[(self.stage == stage) & self.filled] for stage in range(STAGES)]
        filled = [np.quantile(values if values.size else log_layers, shares) for values in known]
        self.knots = np.stack(filled) + 1e-3 * np.arange(ENERGY_KNOTS)
        self.knot, self.position = knot_position(log_layers, self.knots, self.stage, np)

    def _on_the_axis(self, showers: _Showers) -> None:
        """Rings: a column is a radius from the inner edge, and all angles are one row."""
        count, (x, y, depth) = len(showers.energy), self.image
        self.offsets, self.depth = np.zeros((2, QUANTILES)), np.zeros(depth)
        self.across = np.zeros((count, y, depth))
        self.aside = np.tile(np.arange(x, dtype=np.float64), (count, 1))

    def _about_the_barycentre(self, showers: _Showers) -> None:
        image, hits, layers, count = self.image, showers.hits, showers.layers, len(showers.energy)
        total = np.maximum(layers.sum(1), _TINY)
        centres = [
            np.bincount(hits.shower, hits.gev * (where - (size - 1) / 2), count) / total
            for where, size in ((hits.x, image[0]), (hits.y, image[1]))
        ]
        self.centre = np.stack(centres, 1)
        self.offsets = quantiles(self.centre)
        self.depth = self._depth(showers)
        mean = layers @ self.depth / total
        axis = showers.cotangent[:, None] * (self.depth - mean[:, None]) + self.centre[:, 1:]
        rows, columns = self.shape.bins
        y, x = (np.arange(size) - (size - 1) / 2 for size in (image[1], image[0]))
        sine = 1 / np.sqrt(1 + showers.cotangent**2)
        across = (y[None, :, None] - axis[:, None, :]) * sine[:, None, None]
        self.across = middle_position(np.abs(across), rows, np)
        self.aside = middle_position(np.abs(x[None, :] - self.centre[:, :1]), columns, np)

    def _depth(self, showers: _Showers) -> Floats:
        """Place of each layer along the axis, in cells: the least squares of the layers' centres.

        Hits far from the axis do not follow it, and pull the centre of a layer with few others to that of the
        window: once the axis is known, only the hits near it count.
        """
        hits, (count, depth) = showers.hits, showers.layers.shape
        at, place = hits.shower * depth + hits.layer, hits.y - (self.image[1] - 1) / 2
        slope = showers.cotangent[:, None]
        total = np.maximum(showers.layers.sum(1, keepdims=True), _TINY)

        def by_layer(values: Floats, near: Any = slice(None)) -> Floats:
            sums = np.bincount(at[near], values[near], count * depth)
            return np.asarray(sums.reshape(count, depth), np.float64)

        found = np.arange(depth, dtype=np.float64)
        layers, moment = showers.layers, by_layer(hits.gev * place)
        for number in range(_DEPTH_ROUNDS):
            mean = showers.layers @ found[:, None] / total
            if number >= _DEPTH_ROUNDS // 2:
                axis = self.centre[:, 1:] + slope * (found - mean)
                near = np.abs(place - axis[hits.shower, hits.layer]) < _NEAR
                layers, moment = by_layer(hits.gev, near), by_layer(hits.gev * place, near)
            weight, centre = layers / total, moment / np.maximum(layers, _TINY)
            shift = np.where(layers > 0, centre - self.centre[:, 1:] + slope * mean, 0.0)
            norm = (weight * (slope**2 + _LEAST_SLOPE**2)).sum(0) + _TINY
            found = (weight * slope * shift).sum(0) / norm
        return found - found[0]

    def of_hits(self, hits: _Hits) -> tuple[Integers, Floats]:
        """Row of each hit in the table at its lower knot, and its position between the knots."""
        rows, columns = self.shape.bins
        at = (hits.shower, hits.layer)
        row = self.row[hits.shower, hits.y, hits.layer]
        column = self.column[hits.shower, hits.x]
        first = self.stage[at] * ENERGY_KNOTS + self.knot[at]
        return (first * rows + row) * columns + column, self.position[at]

    def sums(self, at: tuple[Integers, Floats], values: Floats) -> Floats:
        """Sums of a value of each hit in the table, in its shape; `at` is of `of_hits`: two knots share a value."""
        rows, position = at
        shape = (STAGES, ENERGY_KNOTS, *self.shape.bins)
        low = np.bincount(rows, values * (1 - position), int(np.prod(shape)))
        rows = rows + int(np.prod(self.shape.bins))
        high = np.bincount(rows, values * position, int(np.prod(shape)))
        return np.asarray((low + high).reshape(shape), np.float64)

    def read(self, table: Floats, hits: _Hits) -> Floats:
        """Values of a table, (stages, knots, rows, columns, K), for the cells of hits, as showers get them."""
        rows, columns = self.shape.bins
        at = (hits.shower, hits.layer)
        stage, knot, position = self.stage[at], self.knot[at], self.position[at]
        row, of_row = _between(self.across[hits.shower, hits.y, hits.layer], rows)
        column, of_column = _between(self.aside[hits.shower, hits.x], columns)
        last = rows - 1
        found = np.zeros((len(hits.gev), table.shape[-1]))
        for k, j, i in np.ndindex(2, 2, 2):
            weight = np.where(k, position, 1 - position)
            weight *= np.where(j, of_row, 1 - of_row) * np.where(i, of_column, 1 - of_column)
            at_row = np.minimum(row + j, last)  # rings have one
            found += weight[:, None] * table[stage, knot + k, at_row, column + i]
        return found

    def blocks(self, threshold: Floats, hits: _Hits) -> Iterator[Block]:
        """Yields the thresholds of all cells of some showers, and which are hit, (B, Z, Y, X) each."""
        rows, columns = self.shape.bins
        table = threshold.reshape(STAGES, ENERGY_KNOTS, rows, columns)
        count = len(self.aside)
        some = np.unique(np.linspace(0, count - 1, min(count, _PAIRED)).astype(np.int64))
        for block in np.array_split(some, -(-len(some) // _PAIRED_AT_ONCE)):
            stage, knot = self.stage[block], self.knot[block]
            low, position = table[stage, knot], self.position[block][..., None, None]
            values = low + position * (table[stage, knot + 1] - low)
            across = _bin_weights(self.across[block].transpose(0, 2, 1), rows)
            aside = _bin_weights(self.aside[block], columns)[:, None]
            found = across @ values @ aside.swapaxes(2, 3)
            found[~self.filled[block]] = -np.inf
            is_hit, here = np.zeros(found.shape, np.bool_), np.isin(hits.shower, block)
            number = np.searchsorted(block, hits.shower[here])
            is_hit[number, hits.layer[here], hits.y[here], hits.x[here]] = True
            yield found, is_hit

    def overlap(self) -> Floats:
        """Share of each knot in the layers of another, (`STAGES`, knot, knot): rows sum to 1."""
        found = np.tile(1e-6 * np.eye(ENERGY_KNOTS), (STAGES, 1, 1))
        low, high = self.filled * (1 - self.position), self.filled * self.position
        for first, second, weight in (
            (0, 0, low * low),
            (0, 1, low * high),
            (1, 0, high * low),
            (1, 1, high * high),
        ):
            np.add.at(found, (self.stage, self.knot + first, self.knot + second), weight)
        return np.asarray(found / found.sum(2, keepdims=True))

    def cells(self) -> Floats:
        """Number of cells, hit or not, in each row of the table, in its shape."""
        rows, columns = self.shape.bins
        counts = np.zeros((STAGES, ENERGY_KNOTS, rows, columns))
        in_column = _counts(self.column, columns)
        for layer in range(self.image[2]):
            in_row = _counts(self.row[:, :, layer], rows)
            first = self.stage[:, layer] * ENERGY_KNOTS + self.knot[:, layer]
            filled, high = self.filled[:, layer], self.position[:, layer]
            for step, weight in ((0, filled * (1 - high)), (1, filled * high)):
                for place in np.unique(first + step):
                    those = first + step == place
                    counts.reshape(-1, rows, columns)[place] += (
                        in_row[those] * weight[those, None]
                    ).T @ in_column[those]
        return counts


def _layer_depth(places: Floats) -> Floats:
    """Depth of each layer in usual distances of layers, from half a distance on, (Z,).

    Args:
        places: Of the layers along the axis, (Z,); without inclined showers all are 0, and a depth is a number of layers.
    """
    steps = np.diff(places)
    usual = np.median(steps) if steps.size else 0.0
    if usual < _LEAST_STEP:
        return np.asarray(np.arange(len(places)) + 0.5, np.float64)
    # Few hits say little about the place of a layer.
    steps = np.clip(steps / usual, 0.5, 2.0)
    return np.concatenate([[0.5], 0.5 + np.cumsum(steps)])


def _windowed(place: _Place, showers: _Showers) -> Floats:
    """Quantiles of the offsets that, when generated, give the measured barycentres, (2, `QUANTILES`).

    A barycentre moves less than the axis: the window cuts the shower, the bins smear it. Both are in the
    measured barycentres already, and act once more when showers are generated.
    """
    energy, cells = place.sums(place.of_hits(showers.hits), showers.hits.gev), place.cells()
    total = np.maximum(showers.layers.sum(1, keepdims=True), _TINY)
    mean = showers.layers @ place.depth[:, None] / total
    # Along y a layer is away from the barycentre by its shift; along x by none.
    shift = np.linspace(-_SHIFT_REACH, _SHIFT_REACH, _SHIFTS)
    found = np.clip(showers.cotangent[:, None] * (place.depth - mean), -_SHIFT_REACH, _SHIFT_REACH)
    number = np.rint((found + _SHIFT_REACH) / (shift[1] - shift[0])).astype(np.int64)
    shares = np.bincount(number.ravel(), showers.layers.ravel(), _SHIFTS)
    offset = np.linspace(-_OFFSET_REACH, _OFFSET_REACH, _OFFSETS)
    columns = energy.sum((0, 1, 2)) / np.maximum(cells.sum((0, 1, 2)), _TINY)
    lines = energy.sum((0, 1, 3)) / np.maximum(cells.sum((0, 1, 3)), _TINY)
    along_x = _barycentres(offset, columns, place.image[0])
    along_y = _barycentres(offset[:, None] + shift, lines, place.image[1]) - shift
    along_y = along_y @ shares / np.maximum(shares.sum(), _TINY)
    centres = (np.maximum.accumulate(along) for along in (along_x, along_y))
    offsets = [np.interp(q, c, offset) for q, c in zip(place.offsets, centres, strict=True)]
    return np.stack(offsets)


def _barycentres(axis: Floats, density: Floats, cells: int) -> Floats:
    """Barycentres in a window of `cells` of showers around `axis`, whose mean cells are `density` by bins."""
    cell = np.arange(cells) - (cells - 1) / 2
    number = middle_position(np.abs(cell - axis[..., None]), len(density), np)
    weight = np.exp(np.interp(number, np.arange(len(density)), np.log(density + _TINY)))
    return np.asarray(weight @ cell / weight.sum(-1))


def _between(place: Floats, bins: int) -> tuple[Integers, Floats]:
    """The lower of the two bins whose middles are about positions, and the position between them."""
    lower = np.clip(np.floor(place), 0.0, max(bins - 2.0, 0.0))
    return lower.astype(np.int64), place - lower


def _bin_weights(place: Floats, bins: int) -> Floats:
    """Weights of the bins whose middles are about positions, (..., bins)."""
    return np.maximum(0.0, 1.0 - np.abs(place[..., None] - np.arange(bins)))


def _counts(bins: Integers, size: int) -> Floats:
    """Number of entries of (N, K) in each bin, (N, `size`)."""
    number = np.arange(len(bins))[:, None] * size + bins
    counts = np.bincount(number.ravel(), minlength=len(bins) * size).reshape(-1, size)
    return counts.astype(np.float64)


def _cell_tables(place: _Place, showers: _Showers) -> dict[str, Floats]:
    """Threshold, scale and exponent of the cells in each row of the table."""
    rows, position = at = place.of_hits(showers.hits)
    gev, sums = showers.hits.gev, partial(place.sums, at)
    cells, hits = place.cells(), sums(np.ones_like(gev))
    widths = _SMOOTHING_OF_RINGS if place.shape.is_ring else _SMOOTHING
    share = _smoothed(hits, cells, _PRIOR_HITS, widths)
    mean = _smoothed(sums(gev), hits, _PRIOR_HITS, widths)
    # The spread about the mean of each shower's own layer energy: that of a knot's whole range is wider.
    log_mean, step = np.log(mean).ravel(), int(np.prod(place.shape.bins))
    own = np.exp(log_mean[rows] * (1 - position) + log_mean[rows + step] * position)
    ratio = gev / own
    first = _smoothed(sums(ratio), hits, _PRIOR_SPREADS, widths)
    second = _smoothed(sums(ratio**2), hits, _PRIOR_SPREADS, widths)
    # A ring is read at the middles of its bins only.
    parts = 1 if place.shape.is_ring else PARTS
    threshold, log_mean_hit = bin_middles(share, mean * first, place.overlap(), parts)
    exponent, moment = exponents(threshold, np.maximum(second / first**2, _LEAST_SPREAD))
    log_scale = log_mean_hit - np.log(moment)
    cells_table = np.stack([threshold, log_scale, exponent], -1).reshape(-1, 3)
    wanted = log_mean_hit.ravel()
    every = max(1, len(gev) // _SPECTRUM_HITS)
    some = _Hits._make(each[::every] for each in showers.hits)
    spectrum = _spectrum(place.read(cells_table.reshape(*share.shape, 3), some), np.log(some.gev))
    # The spectrum of a class changes the mean of each of its cells.
    cells_table[:, 1] += wanted - _log_means(cells_table, spectrum)
    return {"cells": cells_table, "knots": place.knots, "spectrum": spectrum}


def _spectrum(of_hits: Floats, log_hit: Floats) -> Floats:
    """Map from the quantiles of modelled to those of measured hits, see `TableShape.weights`.

    Args:
        of_hits: Threshold, logarithm of the scale and exponent of the cell of each hit, (F, 3).
        log_hit: Logarithm of its energy in GeV, (F,).
    """
    table = np.zeros((CLASSES, NODES))
    if not len(log_hit):
        return table
    modelled = _log_hits(of_hits, np.arange(1, len(log_hit) + 1) * _GOLDEN % 1)
    threshold = of_hits[:, 0]
    order = np.argsort(threshold, kind="stable")
    nodes = FIRST_NODE + NODE_STEP * np.arange(NODES)
    for number in range(CLASSES):
        centre = FIRST_CLASS + CLASS_STEP * number
        first, last = np.searchsorted(
            threshold[order], (centre - CLASS_STEP / 2, centre + CLASS_STEP / 2)
        )
        missing = max(0, _HITS_PER_CLASS - (last - first)) // 2
        near = order[max(0, first - missing) : last + missing]
        ours, theirs = (np.quantile(each[near], _SPECTRUM_SHARES) for each in (modelled, log_hit))
        table[number] = np.interp(nodes, ours, theirs - ours)
    return table


def _log_hits(cells: Floats, level: Floats) -> Floats:
    """Logarithms of the energies of hits in GeV before the spectrum, (F,).

    Args:
        cells: Threshold, logarithm of the scale, exponent, (F, 3).
        level: Share of the cell's hits above each energy, (F,).
    """
    threshold, log_scale, exponent = cells.T
    excess = threshold - ndtri(np.maximum(level, _TINY) * ndtr(threshold))
    return np.asarray(log_scale + exponent * np.log(np.maximum(excess, LEAST_EXCESS)))


def _log_means(cells: Floats, spectrum: Floats) -> Floats:
    """Logarithm of the mean energy of the hits of each cell with the spectrum, (F,)."""
    total = np.zeros(len(cells))
    for level in (np.arange(_LEVELS) + 0.5) / _LEVELS:
        log_hit = _log_hits(cells, np.full(len(cells), level))
        total += np.exp(corrected(log_hit, cells[:, 0], spectrum, np))
    return np.asarray(np.log(total / _LEVELS))


def _smoothed(
    above: Floats, below: Floats, prior: float, smoothing: tuple[tuple[float, float], ...]
) -> Floats:
    """Returns `above / below`; where there are few entries, that of their surroundings counts."""
    axes = (0, 2, 3)
    value = np.broadcast_to(
        above.sum(axes, keepdims=True) / np.maximum(below.sum(axes, keepdims=True), _TINY),
        above.shape,
    )
    value = np.maximum(value, _TINY)
    for in_layers, in_bins in smoothing:
        in_rows = in_bins if above.shape[2] > 1 else 0.0
        widths = (in_layers, 0.0, in_rows, in_bins)
        entries = np.prod([max(1.0, 2 * np.sqrt(np.pi) * width) for width in widths])
        numerator, denominator = (
            gaussian_filter(each, widths) * entries for each in (above, below)
        )
        value = (numerator + prior * value) / (denominator + prior)
    return value
