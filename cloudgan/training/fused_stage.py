"""A whole stage of a network as one layer, on a CPU in float32.

Batch norm and dropout of a stage are done by the next one as it reads: what leaves a stage are its
activated cells and two numbers a channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import keras
import numpy as np
import tensorflow as tf

from cloudgan.models.convolution_layer import ConvolutionLayer
from cloudgan.models.kernels import PhaseKernels
from cloudgan.native.fusion import Fusion
from cloudgan.native.geometry import Geometry
from cloudgan.training.draws import least_kept
from cloudgan.training.transformed import Transformed

if TYPE_CHECKING:
    from cloudgan.models.architectures import Block
    from cloudgan.models.stage import Stage
    from cloudgan.native.team import Team
    from cloudgan.training.draws import Draws

LEAST_TAPS = 9
"""A kernel of fewer is convolved directly: its transforms cost more than they save."""


@dataclass(frozen=True)
class Pending:
    """What leaves a stage: keep * (cells * scale + shift), of which nothing but cells is done."""

    cells: Any
    scale: Any
    shift: Any
    dropping: Stage


class FusedKernels(PhaseKernels):
    """Stages that transform, and hand on what is still to be done."""

    def __init__(self, team: Team) -> None:
        self._team = team

    def stage(self, stage: Stage, x: Any) -> Any:
        """Fuses the stage where transforms pay; batch norm over all replicas stays Keras' own."""
        block = stage.block
        few = np.prod(block.kernel) < LEAST_TAPS
        if block.upsample != (1, 1, 1) or few or stage.synchronized:
            return super().stage(stage, self.tensor(x))
        before = x.dropping if isinstance(x, Pending) else None
        layer = FusedStage(stage, self._team, before, name=f"conv{stage.number}")
        inputs = [x.cells, x.scale, x.shift] if isinstance(x, Pending) else [x]
        cells, scale, shift = layer(inputs)
        return Pending(cells, scale, shift, stage)

    def tensor(self, x: Any) -> Any:
        """Does what is pending."""
        if not isinstance(x, Pending):
            return x
        return Done(x.dropping)([x.cells, x.scale, x.shift])


class FusedStage(ConvolutionLayer):
    """[cells] or [cells, scale, shift] -> [cells, scale, shift]; weights as the plain layers'."""

    def __init__(self, stage: Stage, team: Team, before: Stage | None, **kwargs: Any) -> None:
        super().__init__(stage.block, stage.initializer, **kwargs)
        self._stage, self._team, self._before = stage, team, before
        # Holds the weights. Built here, they are called as those of a layer beside this one, and so
        # are their optimiser's slots: a checkpoint knows them by that name.
        self._norm = None
        if stage.block.normalise:
            self._norm = keras.layers.BatchNormalization(name=f"norm{stage.number}")
            self._norm.build((None, stage.block.filters))

    def build(self, input_shape: list[tuple[int | None, ...]]) -> None:
        """Makes the weights of convolution and batch norm, in their order."""
        stage, shape = self._stage, input_shape[0]
        block, channels = stage.block, int(shape[-1] or 0)
        self.add_weights(channels)
        x, y, z = (int(size or 0) for size in shape[1:4])
        self._sizes = geometry_of(block, (x, y, z), channels)
        affine, leak = len(input_shape) > 1, stage.leak
        self._plain = Transformed(self._sizes, Fusion(affine, None, leak), self._team)
        self._dropping = self._plain
        if self._before and self._before.dropout:
            least = least_kept(self._before.dropout)
            self._dropping = Transformed(self._sizes, Fusion(affine, least, leak), self._team)

    def compute_output_spec(self, inputs: Any, training: bool = False) -> list[keras.KerasTensor]:
        """Returns what Keras would have to trace otherwise."""
        del training
        filters = self._stage.block.filters
        shape = (inputs[0].shape[0], *self._sizes.output, filters)
        return [keras.KerasTensor(each, "float32") for each in (shape, (filters,), (filters,))]

    def call(self, inputs: list[Any], training: bool = False) -> list[tf.Tensor]:
        """Convolves and measures the statistics."""
        cells = tf.convert_to_tensor(inputs[0])
        channels, filters = self._sizes.channels, self._sizes.filters
        ones = tf.ones((channels,))
        scale, shift = inputs[1:] if len(inputs) > 1 else (ones, tf.zeros_like(ones))
        halves, before = None, self._before
        if training and before and before.dropout:
            halves = _draws(before).halves(tuple(cells.shape), before.number)
        run = self._plain if halves is None else self._dropping
        kernel = tf.convert_to_tensor(self.kernel)
        bias = tf.convert_to_tensor(self.bias) if self._stage.block.bias else tf.zeros((filters,))
        active, sums, squares = run(cells, scale, shift, kernel, bias, halves=halves)
        scale, shift = self._batch_norm(sums, squares, active.shape[0], training=training)
        if training and self._stage.dropout:
            rest = 1 / (1 - self._stage.dropout)
            scale, shift = scale * rest, shift * rest
        return [active, scale, shift]

    def _batch_norm(
        self, sums: tf.Tensor, squares: tf.Tensor, rows: int, *, training: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The two numbers a channel; the moments are float64, where a difference of sums is safe."""
        stage, norm = self._stage, self._norm
        if norm is None:
            ones = tf.ones((stage.block.filters,))
            return ones, tf.zeros_like(ones)
        if training:
            mean, variance = self._moments(sums, squares, rows)
            for moving, found in ((norm.moving_mean, mean), (norm.moving_variance, variance)):
                kept = tf.convert_to_tensor(moving) * stage.momentum
                moving.assign(kept + found * (1 - stage.momentum))
        else:
            mean = tf.convert_to_tensor(norm.moving_mean)
            variance = tf.convert_to_tensor(norm.moving_variance)
        scale = tf.convert_to_tensor(norm.gamma) * tf.math.rsqrt(variance + stage.epsilon)
        return scale, tf.convert_to_tensor(norm.beta) - mean * scale

    def _moments(
        self, sums: tf.Tensor, squares: tf.Tensor, rows: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        count = tf.constant(float(rows * np.prod(self._sizes.output)), tf.float64)
        mean = sums / count
        variance = tf.maximum(squares / count - mean**2, 0.0)
        return tf.cast(mean, tf.float32), tf.cast(variance, tf.float32)


class Done(keras.layers.Layer):
    """[cells, scale, shift] -> keep * (cells * scale + shift), for what comes behind the stages."""

    def __init__(self, stage: Stage, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._stage = stage

    def call(self, inputs: list[Any], training: bool = False) -> Any:
        """Scales, shifts and drops."""
        cells, scale, shift = inputs
        cells = cells * scale + shift
        stage = self._stage
        if training and stage.dropout:
            keep = _draws(stage).keep(tuple(cells.shape), stage.dropout, stage.number)
            cells = cells * tf.cast(keep, cells.dtype)
        return cells


def _draws(stage: Stage) -> Draws:
    """The masks of a stage that drops: training gives its own source."""
    return cast("Draws", stage.masks)


def geometry_of(block: Block, size: tuple[int, int, int], channels: int) -> Geometry:
    """Returns the sizes of a block's convolution over `size` cells."""
    if block.padding == "valid":
        return Geometry(size, channels, block.kernel, block.filters, block.pad, block.pad)
    (x0, x1), (y0, y1), (z0, z1) = (
        (pad + (taps - 1) // 2, pad + taps // 2)
        for pad, taps in zip(block.pad, block.kernel, strict=True)
    )
    return Geometry(size, channels, block.kernel, block.filters, (x0, y0, z0), (x1, y1, z1))
