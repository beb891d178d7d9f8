"""Keras layers of the networks: one stage, its dropout, and the implementations of its convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from cloudgan.schema.architecture import Block, Cells


def coarse_taps(taps: int, up: int) -> int:
    """Returns the coarse cells that `taps` neighbouring fine cells touch at most, along one axis."""
    return (up - 1 + taps - 1) // up + 1


def phase_kernel(kernel: Any, upsample: Cells, library: Any) -> Any:
    """Sums a kernel (x, y, z, C, filters) by phase: (tx, ty, tz, C, u*v*w*filters).

    Args:
        kernel: Of the convolution of fine cells.
        upsample: u, v, w: fine cells per coarse cell along each axis.
        library: `keras.ops` or NumPy.
    """
    channels, filters = (int(size) for size in kernel.shape[3:])
    pairs = [(int(taps), up) for taps, up in zip(kernel.shape[:3], upsample, strict=True)]
    sums_x, sums_y, sums_z = (library.array(_tap_sums(*pair), kernel.dtype) for pair in pairs)
    kernel = library.einsum("xyzio,zwc->xyciwo", kernel, sums_z)
    kernel = library.einsum("xyciwo,yvb->xbcivwo", kernel, sums_y)
    kernel = library.einsum("xbcivwo,xua->abciuvwo", kernel, sums_x)
    phases = upsample[0] * upsample[1] * upsample[2]
    return library.reshape(
        kernel, (*(coarse_taps(*pair) for pair in pairs), channels, phases * filters)
    )


def _tap_sums(taps: int, up: int) -> np.ndarray[Any, Any]:
    """(taps, phases, coarse cells): 1 where a tap of a phase falls into a coarse cell."""
    sums = np.zeros((taps, up, coarse_taps(taps, up)), np.float32)
    for tap in range(taps):
        for phase in range(up):
            sums[tap, phase, (tap + phase) // up] = 1
    return sums


class Dropout(keras.layers.Layer):
    """Dropout with masks from an injected source (`cloudgan.training.rng.Rng`), so that all replicas agree.

    Keras' own layer draws the same mask on every replica of a MirroredStrategy, and another one for another
    number of replicas (measured with Keras 3.15).
    """

    def __init__(self, rate: float, stream: int, masks: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._rate, self._stream, self._masks = rate, stream, masks

    def call(self, values: Any, training: bool = False) -> Any:
        """Drops values while training; otherwise returns `values` unchanged."""
        if not training or not self._rate:
            return values
        keep = self._masks.dropout_mask(tuple(values.shape), self._rate, self._stream)
        return values * (ops.cast(keep, values.dtype) * (1 / (1 - self._rate)))


@dataclass(frozen=True)
class Stage:
    """One stage of a network: convolution, activation, batch norm and dropout, in this order.

    Attributes:
        block: Up-sampling, padding and convolution.
        number: Index of the stage in its network; part of the layer names.
        initializer: Initializer of the kernel.
        leak: Negative slope of the activation; 1 for none.
        momentum: Momentum of the batch norm statistics.
        epsilon: Added to the batch norm variance.
        synchronized: Batch norm over all replicas.
        dropout: Dropout rate.
        masks: Source of dropout masks, `cloudgan.training.rng.Rng`; None: the network is not trained.
    """

    block: Block
    number: int
    initializer: keras.initializers.Initializer
    leak: float
    momentum: float
    epsilon: float
    synchronized: bool = False
    dropout: float = 0.0
    masks: Any = None


class ConvolutionLayer(keras.layers.Layer):
    """Base of all convolution implementations: kernel and bias of Conv3D, so that checkpoints are equal."""

    def __init__(self, block: Block, initializer: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._block, self._initializer = block, initializer

    def add_weights(self, channels: int) -> None:
        """Creates `kernel` and, if the block has one, `bias` for `channels` input channels."""
        block = self._block
        self.kernel = self.add_weight(
            name="kernel",
            shape=(*block.kernel, channels, block.filters),
            initializer=self._initializer,
        )
        if block.bias:
            self.bias = self.add_weight(name="bias", shape=(block.filters,), initializer="zeros")


@keras.saving.register_keras_serializable(package="cloudgan")
class PhaseConvolution(ConvolutionLayer):
    """(B, x, y, z, C) -> (B, X, Y, Z, filters): Conv3D(UpSampling3D(.)), valid, same weights.

    Up-sampling by u repeats each cell u times, so neighbouring kernel taps multiply the same value. The taps
    of each of the u output phases are summed first, and the convolution runs over the coarse cells with one
    channel group per phase. For 6x6x6 cells and the 6x6x8 kernel of the paper preset that is 94 instead of
    1814 million multiplications per shower.
    """

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates the weights of the plain convolution and the map from taps to coarse cells."""
        block, channels = self._block, int(input_shape[-1] or 0)
        self.add_weights(channels)
        grid = [int(size or 0) for size in input_shape[1:4]]
        axes = list(zip(grid, block.kernel, block.upsample, strict=True))
        self._size = [n * up - taps + 1 for n, taps, up in axes]
        self._pad = [
            (0, max(0, -(-size // up) + coarse_taps(taps, up) - 1 - n))
            for size, (n, taps, up) in zip(self._size, axes, strict=True)
        ]

    def call(self, x: Any) -> Any:
        """Convolves the coarse cells and interleaves the phases."""
        dtype = self.compute_dtype
        x = ops.pad(x, [(0, 0), *self._pad, (0, 0)])
        kernel = phase_kernel(ops.convert_to_tensor(self.kernel), self._block.upsample, ops)
        y = ops.conv(x, ops.cast(kernel, dtype), padding="valid")
        (nx, ny, nz), (u, v, w) = y.shape[1:4], self._block.upsample
        filters = self._block.filters
        y = ops.reshape(y, (-1, nx, ny, nz, u, v, w * filters))
        y = ops.transpose(y, (0, 1, 4, 2, 5, 3, 6))
        y = ops.reshape(y, (-1, nx * u, ny * v, nz * w, filters))
        # The gradient of slice is a pad; that of indexing is an op that runs on one core.
        y = ops.slice(y, (0, 0, 0, 0, 0), (-1, *self._size, filters))
        return y + ops.cast(self.bias, dtype) if self._block.bias else y


@keras.saving.register_keras_serializable(package="cloudgan")
class PeriodicPadding(keras.layers.Layer):
    """Pads (B, x, y, z, C): periodic axes with the cells of the other end, the others with zeros."""

    def __init__(
        self, margins: Sequence[Sequence[int]], periodic: Sequence[bool], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._margins, self._periodic = margins, periodic

    def call(self, x: Any) -> Any:
        """Returns the padded cells."""
        zeros = [
            (0, 0) if wraps else tuple(margin)
            for margin, wraps in zip(self._margins, self._periodic, strict=True)
        ]
        x = ops.pad(x, [(0, 0), *zeros, (0, 0)])
        for axis, ((before, after), wraps) in enumerate(
            zip(self._margins, self._periodic, strict=True), 1
        ):
            if wraps:
                cells = range(-before, x.shape[axis] + after)
                x = ops.take(x, [cell % x.shape[axis] for cell in cells], axis=axis)
        return x


class Stages:
    """Builds the stages of a network of the published Keras layers, or, in its subclasses, of others.

    The value between two stages is private to the implementation.
    """

    def stage(self, stage: Stage, x: Any) -> Any:
        """Applies a stage with new weights to `x`: the Keras layers in order."""
        x = self.convolution(stage, x)
        if stage.leak != 1.0:
            x = layers.LeakyReLU(negative_slope=stage.leak)(x)
        if stage.block.normalise:
            x = layers.BatchNormalization(
                momentum=stage.momentum,
                epsilon=stage.epsilon,
                synchronized=stage.synchronized,
                name=f"norm{stage.number}",
            )(x)
        if stage.masks is not None:
            x = Dropout(stage.dropout, stage.number, stage.masks)(x)
        return x

    def convolution(self, stage: Stage, x: Any) -> Any:
        """Up-samples, pads and convolves."""
        block = stage.block
        if block.upsample != (1, 1, 1):
            x = layers.UpSampling3D(block.upsample)(x)
        if any(block.periodic):
            x = PeriodicPadding(block.margins, block.periodic)(x)
        elif block.pad != (0, 0, 0):
            x = layers.ZeroPadding3D(block.pad)(x)
        return layers.Conv3D(
            block.filters,
            block.kernel,
            padding="valid" if any(block.periodic) else block.padding,
            use_bias=block.bias,
            kernel_initializer=stage.initializer,
            name=f"conv{stage.number}",
        )(x)

    def tensor(self, x: Any) -> Any:
        """Converts the output of the last stage to one tensor, which it is already."""
        return x


class PhaseStages(Stages):
    """Stages that up-sample and convolve in one operation, on every Keras backend."""

    def convolution(self, stage: Stage, x: Any) -> Any:
        """Fuses up-sampling and convolution unless padding is between them."""
        block = stage.block
        if block.upsample == (1, 1, 1) or any(map(any, block.margins)):
            return super().convolution(stage, x)
        return PhaseConvolution(block, stage.initializer, name=f"conv{stage.number}")(x)


PUBLISHED = Stages()
