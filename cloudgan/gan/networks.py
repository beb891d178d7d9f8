"""Builds the generator and the discriminator that an architecture table describes.

Shapes: B showers, image (B, X, Y, Z, 1) of powered cells, latent (B, `latent_length`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from cloudgan.gan.cell_marginals import MarginalOutput
from cloudgan.gan.differentiable_observables import AngleAndSum
from cloudgan.gan.layers import PUBLISHED, Stage, Stages
from cloudgan.gan.philox import truncated_normal_of_tensorflow, uniform_of_tensorflow
from cloudgan.gan.shower_frame import LEAST_ENERGY, latent_length, table_shape
from cloudgan.schema.architecture import Cells, Discriminator, Generator
from cloudgan.schema.presets import Preset, discriminator_table, generator_table

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


DENSE = "glorot_uniform"
"""Initializer of dense layers, as published."""


def latent_of(preset: Preset, normal: Callable[[int, int], Any], energy: Any, angle: Any) -> Any:
    """Generator input (B, `latent_length`) for energy/100 and angle (B, 1); `normal` draws float32 (rows, per row)."""
    rows, length = energy.shape[0], latent_length(preset)
    if preset.condition == "multiply":
        return energy * ops.cast(normal(rows, length), energy.dtype)
    return ops.concatenate([energy, angle, ops.cast(normal(rows, length - 2), energy.dtype)], 1)


def build_generator(
    preset: Preset,
    *,
    seeds: random.Random | None = None,
    synchronized: bool = False,
    stages: Stages = PUBLISHED,
) -> keras.Model:
    """Latent (B, `latent_length`) -> image (B, X, Y, Z, 1), never negative.

    Args:
        preset: Preset of the network.
        seeds: Source of the initial weights. Default: seed 0.
        synchronized: Batch norm over all replicas.
        stages: Implementation of the stages; the weights are the same for each.
    """
    seeds = seeds or random.Random(0)
    table = generator_table(preset)
    latent = keras.Input((latent_length(preset),), name="latent")
    start = int(np.prod(table.grid)) * table.channels
    dense = layers.Dense(start, kernel_initializer=_seeded(DENSE, seeds), name="start")
    vector = latent[:, : preset.latent_size]
    if preset.log_energy:
        vector = LogEnergy(name="log_energy")(vector)
    x = dense(vector)
    x = layers.Reshape((*table.grid, table.channels))(x)
    if preset.noise_channels:
        last = preset.latent_size + preset.noise_channels * int(np.prod(table.grid))
        noise = latent[:, preset.latent_size : last]
        noise = layers.Reshape((*table.grid, preset.noise_channels))(noise)
        x = layers.Concatenate()([x, noise])
    for stage in _stages(preset, table, seeds, synchronized=synchronized):
        is_zero = preset.cell_marginals and stage.block is table.blocks[-1]
        zeros = keras.initializers.Zeros()
        x = stages.stage(replace(stage, initializer=zeros) if is_zero else stage, x)
    x = stages.tensor(x)
    if table.subpixel > 1:
        x = DepthToSpace(table.subpixel, preset.image_shape)(x)
    if preset.cell_marginals:
        normals = latent[:, -table_shape(preset).normals :]
        image = MarginalOutput(preset, dtype=_full_precision(), name="output")(
            [x, latent[:, :2], normals]
        )
    else:
        image = Output(preset, name="output")([x, latent])
    return keras.Model(latent, image, name="generator")


def build_discriminator(
    preset: Preset,
    masks: Any,
    *,
    seeds: random.Random | None = None,
    synchronized: bool = False,
    stages: Stages = PUBLISHED,
) -> keras.Model:
    """Image (B, X, Y, Z, 1) -> real (B, 1) in [0, 1], energy/100 (B, 1), angle (B, 1), sum (B, 1).

    The angle is omitted if the preset has none.

    Args:
        preset: Preset of the network.
        masks: Source of dropout masks, `cloudgan.training.rng.Rng`; None: the network is not trained.
        seeds: Source of the initial weights. Default: seed 0.
        synchronized: Batch norm over all replicas.
        stages: Implementation of the stages; the weights are the same for each.
    """
    seeds = seeds or random.Random(0)
    table = discriminator_table(preset)
    image = keras.Input((*preset.image_shape, 1), name="image")
    x = SpaceToDepth(table.space_to_depth)(image) if table.space_to_depth > 1 else image
    for stage in _stages(preset, table, seeds, synchronized=synchronized):
        x = stages.stage(replace(stage, dropout=preset.dropout, masks=masks), x)
    x = stages.tensor(x)
    if table.pool > 1:
        pooling = MeanPooling if _full_precision() == "float64" else layers.AveragePooling3D
        x = pooling(table.pool)(x)
    features = layers.Flatten()(x)
    full = _full_precision()
    head = [_seeded(DENSE, seeds) for _ in range(2)]
    real = layers.Dense(1, "sigmoid", kernel_initializer=head[0], dtype=full, name="real")(features)
    energy = layers.Dense(1, kernel_initializer=head[1], dtype=full, name="energy")(features)
    angle, total = AngleAndSum(preset.image_power, name="measure")(image)
    outputs = [real, energy, angle, total] if preset.has_angle else [real, energy, total]
    return keras.Model(image, outputs, name="discriminator")


def _seeded(initializer: str, seeds: random.Random) -> keras.initializers.Initializer:
    """Initializer with its own seed.

    Keras would draw one from Python's global `random`, which another thread could advance.
    """
    seed = seeds.randint(1, 10**9)
    found = keras.initializers.get({"class_name": initializer, "config": {"seed": seed}})
    return found if keras.config.backend() == "tensorflow" else InitializerOfTensorFlow(found)


def _stages(
    preset: Preset,
    table: Generator | Discriminator,
    seeds: random.Random,
    *,
    synchronized: bool,
) -> Iterator[Stage]:
    """Yields the stages of a table in order, each with its own seed."""
    for number, block in enumerate(table.blocks):
        yield Stage(
            block,
            number,
            _seeded(block.initializer or table.initializer, seeds),
            table.leak if block.activate else 1.0,
            preset.batch_norm_momentum,
            preset.batch_norm_epsilon,
            synchronized,
        )


def _full_precision() -> str:
    """Dtype of the network outputs: float32, or float64 if the policy is float64."""
    return "float64" if keras.config.dtype_policy().compute_dtype == "float64" else "float32"


@keras.saving.register_keras_serializable(package="cloudgan")
class LogEnergy(keras.layers.Layer):
    """Replaces energy/100, the first input of the generator, by its decimal logarithm."""

    def call(self, vector: Any) -> Any:
        """Returns the same shape."""
        energy = ops.maximum(vector[:, :1], LEAST_ENERGY)
        return ops.concatenate([ops.log(energy) / math.log(10.0), vector[:, 1:]], 1)


@keras.saving.register_keras_serializable(package="cloudgan")
class DepthToSpace(keras.layers.Layer):
    """(B, x, y, z, f*f*f) -> (B, X, Y, Z, 1): channels become sub-pixels, cropped to `shape`."""

    def __init__(self, factor: int, shape: Cells, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._factor, self._shape = factor, shape

    def call(self, values: Any) -> Any:
        """Rearranges the channels."""
        f, (x, y, z) = self._factor, values.shape[1:4]
        values = ops.reshape(values, (-1, x, y, z, f, f, f))
        values = ops.transpose(values, (0, 1, 4, 2, 5, 3, 6))
        values = ops.reshape(values, (-1, x * f, y * f, z * f, 1))
        # The gradient of slice is a pad; that of indexing is an op that runs on one core.
        return ops.slice(values, (0, 0, 0, 0, 0), (-1, *self._shape, 1))


@keras.saving.register_keras_serializable(package="cloudgan")
class SpaceToDepth(keras.layers.Layer):
    """(B, X, Y, Z, 1) -> (B, x, y, z, f*f*f): sub-pixels become channels, padded with zeros."""

    def __init__(self, factor: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._factor = factor

    def call(self, image: Any) -> Any:
        """Rearranges the cells."""
        f = self._factor
        coarse = [-(-n // f) for n in image.shape[1:4]]
        pad = [(0, c * f - n) for c, n in zip(coarse, image.shape[1:4], strict=True)]
        image = ops.pad(image[..., 0], [(0, 0), *pad])
        x, y, z = coarse
        image = ops.reshape(image, (-1, x, f, y, f, z, f))
        image = ops.transpose(image, (0, 1, 3, 5, 2, 4, 6))
        return ops.reshape(image, (-1, x, y, z, f**3))


class MeanPooling(keras.layers.Layer):
    """`AveragePooling3D`, which TensorFlow does not have in float64 on a CPU."""

    def __init__(self, cells: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._cells = cells

    def call(self, x: Any) -> Any:
        """Returns means over cubes; cells of an incomplete cube are omitted."""
        each, channels = self._cells, x.shape[-1]
        a, b, c = (size // each for size in x.shape[1:4])
        x = x[:, : a * each, : b * each, : c * each]
        return ops.mean(ops.reshape(x, (-1, a, each, b, each, c, each, channels)), (2, 4, 6))


@keras.saving.register_keras_serializable(package="cloudgan")
class Output(keras.layers.Layer):
    """Last activation, scaled by energy and calibration if the preset has them.

    The calibration is a non-trainable weight, measured on training showers.
    """

    def __init__(self, preset: Preset, **kwargs: Any) -> None:
        super().__init__(dtype=_full_precision(), **kwargs)
        self._preset = preset

    def build(self, input_shape: Any) -> None:
        """Creates the calibration, if the preset has one."""
        del input_shape
        if self._preset.calibrated_output:
            self.calibration = self.add_weight(
                name="calibration", shape=(), initializer="ones", trainable=False
            )

    def call(self, inputs: list[Any]) -> Any:
        """Activates and scales."""
        image, latent = ops.relu(inputs[0]), inputs[1]
        if self._preset.output_activation == "squared_relu":
            image = ops.square(image)
        if self._preset.energy_scaled_output:
            energy = ops.maximum(latent[:, :1], 0.0)
            image = image * ops.reshape(energy**self._preset.image_power, (-1, 1, 1, 1, 1))
        if self._preset.calibrated_output:
            image = image * self.calibration
        return image
