"""How the stages of a network compute: forms of the same functions of the same weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from keras import layers

from cloudgan.models.dropout import Dropout
from cloudgan.models.phase_convolution import PhaseConvolution

if TYPE_CHECKING:
    from cloudgan.models.stage import Stage


class Kernels(Protocol):
    """Makes the stages of a network; what passes between two of them is the form's own."""

    def stage(self, stage: Stage, x: Any) -> Any:
        """Returns what a stage makes of `x`, with weights of its own."""

    def tensor(self, x: Any) -> Any:
        """Returns what came out of the last stage as one tensor."""


class PublishedKernels:
    """The layers as they were published: each does what its name says."""

    def stage(self, stage: Stage, x: Any) -> Any:
        """Puts layers of Keras one after the other."""
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
        if block.pad != (0, 0, 0):
            x = layers.ZeroPadding3D(block.pad)(x)
        return layers.Conv3D(
            block.filters,
            block.kernel,
            padding=block.padding,
            use_bias=block.bias,
            kernel_initializer=stage.initializer,
            name=f"conv{stage.number}",
        )(x)

    def tensor(self, x: Any) -> Any:
        """Returns x: between two layers stands a tensor."""
        return x


class PhaseKernels(PublishedKernels):
    """Never makes the repeated cells of an up-sampling; on every backend of Keras."""

    def convolution(self, stage: Stage, x: Any) -> Any:
        """Up-samples and convolves at once, where nothing stands between the two."""
        block = stage.block
        if block.upsample == (1, 1, 1) or block.pad != (0, 0, 0) or block.padding != "valid":
            return super().convolution(stage, x)
        return PhaseConvolution(block, stage.initializer, name=f"conv{stage.number}")(x)


PUBLISHED = PublishedKernels()
