"""Convolution stages on a CPU in float32, by `cloudgan.gan.kernels` in TensorFlow's graph.

A stage defers its batch norm and dropout to the next stage, which applies them while it reads: the
output of a stage is its activated cells and two numbers per channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from cloudgan.gan.kernels.convolution import Convolution, Team
from cloudgan.gan.kernels.emitter import LANES
from cloudgan.gan.kernels.geometry import Geometry, blocks_of, from_spectrum, to_spectrum
from cloudgan.gan.kernels.program import Fusion, kernel_floats
from cloudgan.gan.layers import ConvolutionLayer, PhaseStages, Stage
from cloudgan.schema.architecture import Block
from cloudgan.training.rng import dropout_threshold

Output = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


class FftConv:
    """active, sums, squares of (image, scale, shift, kernel, bias, uniform), with its gradient.

    Shapes: image (B, *size, channels), scale and shift (channels,), kernel (*taps, channels,
    filters), bias (filters,), uniform uint16 (B, values of an image or more); active (B, *output,
    filters), its sums and sums of squares over the batch (filters,) in float64.
    """

    def __init__(self, sizes: Geometry, fusion: Fusion, team: Team) -> None:
        self.sizes, self._fusion = sizes, fusion
        self._native = Convolution(sizes, fusion, team)
        self._spectrum_of = to_spectrum(sizes)
        self._adjoint_spectrum_of = to_spectrum(sizes.adjoint())
        self._from_spectrum = from_spectrum(sizes)

    def __call__(
        self,
        image: tf.Tensor,
        scale: tf.Tensor,
        shift: tf.Tensor,
        kernel: tf.Tensor,
        bias: tf.Tensor,
        *,
        uniform: tf.Tensor | None = None,
    ) -> Output:
        """Runs the forward pass and defines its gradient."""
        sizes = self.sizes

        @tf.custom_gradient
        def run(
            image: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor
        ) -> tuple[Output, Any]:
            inputs = {"image": image, "scale": _padded(scale), "shift": _padded(shift)}
            if uniform is not None:
                inputs["uniform"] = uniform
            spectrum = _spectrum(self._spectrum_of, sizes, kernel)
            given = inputs | {"kernel": spectrum, "bias": _padded(bias)}
            active, sums, squares = _call(self._native.forward, given, 3)
            active.set_shape((image.shape[0], *sizes.output, sizes.filters))

            def gradient(
                of_active: tf.Tensor, of_sums: tf.Tensor, of_squares: tf.Tensor
            ) -> tuple[tf.Tensor, ...]:
                outer = {
                    "gradient": of_active,
                    "active": active,
                    "of_sums": _padded(tf.cast(of_sums, tf.float32)),
                    "of_squares": _padded(tf.cast(2 * of_squares, tf.float32)),
                }
                d_input = self._input_gradient(inputs, outer, kernel)
                return (*d_input, *self._kernel_gradient(inputs, outer))

            totals = (_total(each, sizes.filters, tf.float64) for each in (sums, squares))
            return (active, *totals), gradient

        result: Output = run(image, scale, shift, kernel, bias)
        return result

    def _input_gradient(
        self, inputs: dict[str, tf.Tensor], outer: dict[str, tf.Tensor], kernel: tf.Tensor
    ) -> Output:
        turned = tf.transpose(tf.reverse(kernel, [0, 1, 2]), (0, 1, 2, 4, 3))
        spectrum = _spectrum(self._adjoint_spectrum_of, self.sizes.adjoint(), turned)
        given = {**inputs, **outer, "kernel": spectrum}
        d_image, d_shift, d_scale = _call(self._native.input_gradient, given, 3)
        d_image.set_shape(inputs["image"].shape)
        channels = self.sizes.channels
        return d_image, _total(d_scale, channels), _total(d_shift, channels)

    def _kernel_gradient(
        self, inputs: dict[str, tf.Tensor], outer: dict[str, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        spectrum, bias_sums = _call(self._native.kernel_gradient, {**inputs, **outer}, 2)
        sizes = self.sizes
        taps_x, taps_y, taps_z = sizes.kernel
        spectrum.set_shape((kernel_floats(sizes),))
        spectrum = tf.reshape(
            spectrum, (-1, taps_x * sizes.channels, sizes.result.blocks, 2, LANES)
        )
        spectrum = tf.transpose(spectrum, (0, 3, 1, 2, 4))
        spectrum = tf.reshape(spectrum, (self._spectrum_of.shape[0], -1))
        d_kernel = tf.matmul(tf.constant(self._from_spectrum, tf.float32), spectrum)
        d_kernel = tf.reshape(d_kernel, (taps_y, taps_z, taps_x, sizes.channels, -1))
        d_kernel = tf.transpose(d_kernel[..., : sizes.filters], (2, 0, 1, 3, 4))
        return d_kernel, _total(bias_sums, sizes.filters)


def _call(run: Any, given: dict[str, tf.Tensor], outputs: int) -> list[tf.Tensor]:
    """Calls native code from the graph; stateless, so that TensorFlow prunes unused gradients."""
    names = list(given)
    found: list[tf.Tensor] = tf.numpy_function(
        lambda *arrays: run(dict(zip(names, arrays, strict=True))),
        list(given.values()),
        [tf.float32] * outputs,
        stateful=False,
    )
    return found


def _spectrum(matrix: np.ndarray[Any, Any], sizes: Geometry, kernel: tf.Tensor) -> tf.Tensor:
    """Returns the kernel at each frequency, in the layout of `kernel_floats`."""
    taps_x, taps_y, taps_z = sizes.kernel
    room = sizes.result.blocks * LANES - sizes.filters
    kernel = tf.pad(kernel, [(0, 0)] * 4 + [(0, room)])
    kernel = tf.reshape(tf.transpose(kernel, (1, 2, 0, 3, 4)), (taps_y * taps_z, -1))
    spectrum = tf.matmul(tf.constant(matrix, tf.float32), kernel)
    spectrum = tf.reshape(spectrum, (-1, 2, taps_x * sizes.channels, sizes.result.blocks, LANES))
    return tf.reshape(tf.transpose(spectrum, (0, 2, 3, 1, 4)), (-1,))


def _padded(numbers: tf.Tensor) -> tf.Tensor:
    """Pads values by channel with zeros to whole vectors."""
    channels = int(numbers.shape[0])
    return tf.pad(numbers, [(0, blocks_of(channels) * LANES - channels)])


def _total(sums: tf.Tensor, channels: int, dtype: Any = tf.float32) -> tf.Tensor:
    """Sums (B, x, lanes) to (channels,), in float64 because there are many terms."""
    total = tf.reduce_sum(tf.cast(sums, tf.float64), (0, 1))[:channels]
    return tf.cast(tf.ensure_shape(total, (channels,)), dtype)


LEAST_TAPS = 9
"""Smaller kernels are convolved directly: their transforms cost more than they save."""


@dataclass(frozen=True)
class Deferred:
    """Deferred output of a stage, mask * (cells * scale + shift): only `cells` is computed."""

    cells: Any
    scale: Any
    shift: Any
    dropping: Stage


class FftStages(PhaseStages):
    """Stages that convolve by Fourier transforms and defer batch norm and dropout."""

    def __init__(self, team: Team) -> None:
        self._team = team

    def stage(self, stage: Stage, x: Any) -> Any:
        """Fuses the stage if transforms are faster; Keras computes synchronized batch norm."""
        if not transforms_pay(stage):
            return super().stage(stage, self.tensor(x))
        before = x.dropping if isinstance(x, Deferred) else None
        layer = FusedStage(stage, self._team, before, name=f"conv{stage.number}")
        inputs = [x.cells, x.scale, x.shift] if isinstance(x, Deferred) else [x]
        cells, scale, shift = layer(inputs)
        return Deferred(cells, scale, shift, stage)

    def tensor(self, x: Any) -> Any:
        """Applies the deferred batch norm and dropout."""
        if not isinstance(x, Deferred):
            return x
        return ApplyDeferred(x.dropping)([x.cells, x.scale, x.shift])


def transforms_pay(stage: Stage) -> bool:
    """Whether a stage is convolved by transforms."""
    block = stage.block
    few = np.prod(block.kernel) < LEAST_TAPS
    plain = block.upsample == (1, 1, 1) and not any(block.periodic)
    return plain and not few and not stage.synchronized


class FusedStage(ConvolutionLayer):
    """[cells] or [cells, scale, shift] -> [cells, scale, shift]; weights as the plain layers'."""

    def __init__(self, stage: Stage, team: Team, before: Stage | None, **kwargs: Any) -> None:
        super().__init__(stage.block, stage.initializer, **kwargs)
        self._stage, self._team, self._before = stage, team, before
        # Built here, the weights and their optimiser slots have the names of the published layers,
        # so that a checkpoint fits every conv_impl.
        self._norm = None
        if stage.block.normalise:
            self._norm = keras.layers.BatchNormalization(name=f"norm{stage.number}")
            self._norm.build((None, stage.block.filters))

    def build(self, input_shape: list[tuple[int | None, ...]]) -> None:
        """Creates the weights of convolution and batch norm, in this order."""
        stage, shape = self._stage, input_shape[0]
        block, channels = stage.block, int(shape[-1] or 0)
        self.add_weights(channels)
        x, y, z = (int(size or 0) for size in shape[1:4])
        self._sizes = geometry_of(block, (x, y, z), channels)
        affine, leak = len(input_shape) > 1, stage.leak
        self._plain = FftConv(self._sizes, Fusion(affine, None, leak), self._team)
        self._dropping = self._plain
        if self._before and self._before.dropout:
            least = dropout_threshold(self._before.dropout)
            self._dropping = FftConv(self._sizes, Fusion(affine, least, leak), self._team)

    def compute_output_spec(self, inputs: Any, training: bool = False) -> list[keras.KerasTensor]:
        """Returns the output shapes, so that Keras does not trace the call."""
        del training
        filters = self._stage.block.filters
        shape = (inputs[0].shape[0], *self._sizes.output, filters)
        return [keras.KerasTensor(each, "float32") for each in (shape, (filters,), (filters,))]

    def call(self, inputs: list[Any], training: bool = False) -> list[tf.Tensor]:
        """Convolves and measures the batch statistics."""
        cells = tf.convert_to_tensor(inputs[0])
        channels, filters = self._sizes.channels, self._sizes.filters
        ones = tf.ones((channels,))
        scale, shift = inputs[1:] if len(inputs) > 1 else (ones, tf.zeros_like(ones))
        uniform, before = None, self._before
        if training and before and before.dropout:
            uniform = before.masks.uniform(tuple(cells.shape), before.number)
        run = self._plain if uniform is None else self._dropping
        kernel = tf.convert_to_tensor(self.kernel)
        bias = tf.convert_to_tensor(self.bias) if self._stage.block.bias else tf.zeros((filters,))
        active, sums, squares = run(cells, scale, shift, kernel, bias, uniform=uniform)
        scale, shift = self._batch_norm(sums, squares, active.shape[0], training=training)
        if training and self._stage.dropout:
            rest = 1 / (1 - self._stage.dropout)
            scale, shift = scale * rest, shift * rest
        return [active, scale, shift]

    def _batch_norm(
        self, sums: tf.Tensor, squares: tf.Tensor, rows: int, *, training: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns scale and shift per channel; moments are float64 because they are differences of sums."""
        stage, norm = self._stage, self._norm
        if norm is None:
            ones = tf.ones((stage.block.filters,))
            return ones, tf.zeros_like(ones)
        if training:
            count = tf.constant(float(rows * np.prod(self._sizes.output)), tf.float64)
            exact = sums / count
            variance = tf.cast(tf.maximum(squares / count - exact**2, 0.0), tf.float32)
            mean = tf.cast(exact, tf.float32)
            for moving, found in ((norm.moving_mean, mean), (norm.moving_variance, variance)):
                kept = tf.convert_to_tensor(moving) * stage.momentum
                moving.assign(kept + found * (1 - stage.momentum))
        else:
            mean = tf.convert_to_tensor(norm.moving_mean)
            variance = tf.convert_to_tensor(norm.moving_variance)
        scale = tf.convert_to_tensor(norm.gamma) * tf.math.rsqrt(variance + stage.epsilon)
        return scale, tf.convert_to_tensor(norm.beta) - mean * scale


class ApplyDeferred(keras.layers.Layer):
    """[cells, scale, shift] -> mask * (cells * scale + shift), after the last stage."""

    def __init__(self, stage: Stage, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._stage = stage

    def call(self, inputs: list[Any], training: bool = False) -> Any:
        """Applies scale, shift and dropout mask."""
        cells, scale, shift = inputs
        cells = cells * scale + shift
        stage = self._stage
        if training and stage.dropout:
            keep = stage.masks.dropout_mask(tuple(cells.shape), stage.dropout, stage.number)
            cells = cells * tf.cast(keep, cells.dtype)
        return cells


def geometry_of(block: Block, size: tuple[int, int, int], channels: int) -> Geometry:
    """Returns the sizes of a block's convolution over `size` cells."""
    (x0, x1), (y0, y1), (z0, z1) = block.margins
    return Geometry(size, channels, block.kernel, block.filters, (x0, y0, z0), (x1, y1, z1))
