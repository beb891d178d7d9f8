"""How the layers of a network compute: forms of the same functions of the same weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from keras import layers

from cloudgan.models.phase_convolution import PhaseConvolution

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras

    from cloudgan.models.architectures import Block


class Kernels(Protocol):
    """Makes the layers of a network."""

    def convolution(
        self, block: Block, initializer: keras.initializers.Initializer, name: str
    ) -> Callable[[Any], Any]:
        """Returns the up-sampling, padding and convolution of `block`, with weights of its own."""


class PublishedKernels:
    """The layers as they were published: each does what its name says."""

    def convolution(
        self, block: Block, initializer: keras.initializers.Initializer, name: str
    ) -> Callable[[Any], Any]:
        """Returns three layers of Keras, one after the other."""

        def call(x: Any) -> Any:
            if block.upsample != (1, 1, 1):
                x = layers.UpSampling3D(block.upsample)(x)
            if block.pad != (0, 0, 0):
                x = layers.ZeroPadding3D(block.pad)(x)
            return layers.Conv3D(
                block.filters,
                block.kernel,
                padding=block.padding,
                use_bias=block.bias,
                kernel_initializer=initializer,
                name=name,
            )(x)

        return call


class FastKernels(PublishedKernels):
    """Less arithmetic for the same result, on every backend of Keras."""

    def convolution(
        self, block: Block, initializer: keras.initializers.Initializer, name: str
    ) -> Callable[[Any], Any]:
        """Returns a convolution that never makes the repeated cells of an up-sampling."""
        if block.upsample == (1, 1, 1) or block.pad != (0, 0, 0) or block.padding != "valid":
            return super().convolution(block, initializer, name)
        layer: Callable[[Any], Any] = PhaseConvolution(block, initializer, name=name)
        return layer


PUBLISHED = PublishedKernels()
FORMS: dict[str, Kernels] = {"published": PUBLISHED, "fast": FastKernels()}
