"""How much the shape of showers varies at given energy and angle: the unit of the shape loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from cloudgan.models.shower_shape import shower_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cloudgan.core.presets import Preset
    from cloudgan.data.image_view import Batch
    from cloudgan.data.training_set import TrainingSet

SHOWERS = 1024
"""Enough for three per cent of each spread."""
_LEAST_SHARE = 1e-3  # of the median: a ring outside of the image never varies
_CHUNK = 64


def scale_of_training_set(preset: Preset, showers: TrainingSet) -> NDArray[np.float32] | None:
    """Returns the scale for a preset that has a shape loss; None for the others."""
    if not preset.shape_weight:
        return None
    stride = max(1, showers.count // SHOWERS)
    return shape_scale(preset, showers.train_rows(np.arange(0, showers.count, stride)[:SHOWERS]))


def shape_scale(preset: Preset, showers: Batch) -> NDArray[np.float32]:
    """Returns the spread of each feature about its least-squares line, (F,).

    The line is in energy, its logarithm, angle and the angle's square.
    """
    parts = [
        np.asarray(
            shower_shape(preset, _tensor(showers.image[at][..., None]), _tensor(showers.energy[at]))
        )
        for at in (slice(first, first + _CHUNK) for first in range(0, len(showers.energy), _CHUNK))
    ]
    features = np.concatenate(parts).astype(np.float64)
    energy, angle = showers.energy.astype(np.float64), showers.angle.astype(np.float64)
    known = np.concatenate(
        [np.ones_like(energy), energy, np.log(np.maximum(energy, 1e-3)), angle, angle**2], 1
    )
    line, *_ = np.linalg.lstsq(known, features, rcond=None)
    spread = (features - known @ line).std(0)
    usual = np.median(spread)
    return np.maximum(spread, _LEAST_SHARE * usual).astype(np.float32)


def _tensor(values: Any) -> Any:
    return keras.ops.convert_to_tensor(np.asarray(values, np.float32))
