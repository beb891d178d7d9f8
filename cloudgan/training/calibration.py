"""Constants measured on training showers: batch norm statistics, output scale, spread of shape features.

Averaged weights were never run in training, so the moving statistics of the trained network do not
fit them (the same holds in stochastic weight averaging, Izmailov et al. 2018, arXiv:1803.05407,
section 3.2). Held-out showers are never used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from cloudgan.data.batches import Batch, TrainingSet
from cloudgan.gan.differentiable_observables import shower_shape
from cloudgan.gan.networks import build_generator, latent_of
from cloudgan.schema.presets import Preset
from cloudgan.training.rng import Call, Rng
from cloudgan.training.shared_work import ALONE, SharedWork

Floats = NDArray[np.float64]

SHOWERS = 1024
"""Training showers that each constant is measured with: a spread is then known to 3 %."""

_BLOCK = 64


class BatchNormRecalibrator:
    """Recalibrates copies of a generator; the trained network itself never changes."""

    def __init__(self, preset: Preset, rng: Rng, showers: Batch) -> None:
        """Stores the conditions of `showers` and their mean sum of scaled cells."""
        self._preset = preset
        self._copy = build_generator(preset)
        norms = [n for n in self._copy.layers if isinstance(n, keras.layers.BatchNormalization)]
        self._feeds = [(norm, keras.Model(self._copy.input, norm.input)) for norm in norms]
        dtype = self._copy.weights[0].dtype
        with rng.at(0, 0, Call.CALIBRATION):
            energy, angle = (
                keras.ops.cast(value, dtype) for value in (showers.energy, showers.angle)
            )
            self._latent = latent_of(preset, rng.normal, energy, angle)
        self._mean_sum = float(np.mean(showers.ecal))

    def recalibrate(
        self, weights: Sequence[Any], work: SharedWork = ALONE
    ) -> list[np.ndarray[Any, Any]]:
        """Returns the weights of a generator, in Keras order, with new statistics and output constant.

        A collective operation of the processes of `work`, on whose number the bits do not depend.
        """
        self._copy.set_weights(list(weights))
        for norm, feed in self._feeds:
            cells, channels = math.prod(norm.input.shape[1:-1]), norm.input.shape[-1]
            sums = self._per_block(feed, _moments, (2, channels), work).sum(0)
            mean, square = sums / (len(self._latent) * cells)
            norm.moving_mean.assign(mean)
            norm.moving_variance.assign(np.maximum(square - mean**2, 0))
        if self._preset.calibrated_output and not self._preset.cell_marginals:
            self._calibrate(work)
        return self._copy.get_weights()

    def _calibrate(self, work: SharedWork) -> None:
        power = self._preset.image_power

        def sums(image: Floats) -> Floats:
            return np.asarray((image ** (1 / power)).sum())

        found = self._per_block(self._copy, sums, (), work).sum() / len(self._latent)
        if found > 0:
            constant = self._copy.get_layer("output").calibration
            constant.assign(constant.numpy() * (self._mean_sum / found) ** power)

    def _per_block(
        self,
        network: keras.Model,
        measure: Callable[[Floats], Floats],
        shape: tuple[int, ...],
        work: SharedWork,
    ) -> Floats:
        """Returns what `measure` finds in the output of `network` for each block of showers, (blocks, *shape)."""
        found = np.zeros((-(-len(self._latent) // _BLOCK), *shape))
        for block in work.parts(len(found)):
            latent = self._latent[block * _BLOCK : (block + 1) * _BLOCK]
            output = keras.ops.convert_to_numpy(network(latent, training=False))
            found[block] = measure(output.astype(np.float64))
        return work.joined([found])[0]


def _moments(values: Floats) -> Floats:
    """Returns sums and sums of squares per channel, (2, channels), of values (..., channels)."""
    flat = values.reshape(-1, values.shape[-1])
    return np.stack([flat.sum(0), np.einsum("ij,ij->j", flat, flat)])


def recalibrator_of_training_set(
    preset: Preset, rng: Rng, showers: TrainingSet
) -> BatchNormRecalibrator | None:
    """Returns the recalibrator, for presets with an output constant or an averaged generator.

    Its training showers are spread over the whole set.
    """
    if not (preset.calibrated_output or preset.ema_decay):
        return None
    rows = np.arange(0, showers.count, max(1, -(-showers.count // SHOWERS)))
    return BatchNormRecalibrator(preset, rng, showers.train_rows(rows))


_LEAST_SHARE = 1e-3  # of the median: a ring outside the image never varies
_CHUNK = 64


def scale_of_training_set(preset: Preset, showers: TrainingSet) -> NDArray[np.float32] | None:
    """Returns the feature scale for a preset with a shape loss; None for the others."""
    if not preset.loss_weights["shape"]:
        return None
    stride = max(1, showers.count // SHOWERS)
    return shape_scale(preset, showers.train_rows(np.arange(0, showers.count, stride)[:SHOWERS]))


def shape_scale(preset: Preset, showers: Batch) -> NDArray[np.float32]:
    """Returns the spread of each shape feature about its least-squares fit, (F,).

    The fit is linear in energy, its logarithm, angle and the angle's square.
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
