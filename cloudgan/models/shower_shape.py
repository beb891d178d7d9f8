"""The shape of a shower as numbers with a gradient: what a generator is held against.

All are dimensionless or in cells, finite and with finite gradients for empty showers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from cloudgan.models.power import raised

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cloudgan.core.presets import Preset

    Floats = NDArray[np.float64]

_LEAST_ENERGY = 1e-2  # of 100 GeV
_ROOT_AT_ZERO = 1e-4  # a share of 1e-4 of the shower: below it a root's slope would explode
_SECTIONS = 5  # along the depth; rings and barycentres are taken in each
_RING_CELLS = (0.7, 1.5, 2.5, 4.0, 6.0, 9.0)
_HITS_GEV = (1e-4, 3e-4, 3e-3)


def shape_weights(preset: Preset) -> Floats:
    """Returns the weight of each feature, (F,): all kinds of features weigh alike, their sum is 1."""
    x, y, z = preset.image_shape
    rings = _SECTIONS * (len(_RING_CELLS) + 1)
    kinds = (z, x, y, rings, 1, 2 * _SECTIONS, 6, 1, len(_HITS_GEV))
    return np.concatenate([np.full(size, 1 / (len(kinds) * size)) for size in kinds])


def shower_shape(preset: Preset, image: Any, energy: Any) -> Any:
    """Returns the features of each shower, (B, F).

    Roots of the energy shares per layer, per column along x and y, and per ring about the middle
    in five sections of the depth, of all cells (a root evens out the spread of large and small
    shares); barycentres of the sections along x, then y; mean and width along x, y and depth; the
    root of the largest cell's share; roots of the soft numbers of cells above 0.1, 0.3 and 3 MeV.

    Args:
        preset: Holds scale and power.
        image: Powered cells, (B, X, Y, Z, 1).
        energy: energy/100, (B, 1).
    """
    cells = raised(image[..., 0], 1.0 / preset.image_power)
    # Of order 1: a fiftieth of the energy is seen, and the published scale is 50.
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
        ],
        1,
    )


def _plane_masks(x: int, y: int) -> Floats:
    """Rings about the middle, x and y in cells from the middle, columns along x, along y."""
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
    """Roots of the number of cells above each threshold; a cell at it counts half."""
    counts = []
    for cut in _HITS_GEV:
        above = ops.square(ops.square(cells_gev / cut))
        counts.append(ops.sum(above / (above + 1.0), (1, 2, 3)))
    return ops.sqrt(ops.stack(counts, 1) + 1.0)


def _root(share: Any) -> Any:
    return ops.sqrt(share + _ROOT_AT_ZERO) - _ROOT_AT_ZERO**0.5


def _ratio(above: Any, below: Any) -> Any:
    positive = below > 0
    return ops.where(positive, above / ops.where(positive, below, 1.0), ops.zeros_like(above))
