"""What every form of a convolution has alike: its weights, so that checkpoints hold one kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

if TYPE_CHECKING:
    from cloudgan.models.architectures import Block


class ConvolutionLayer(keras.layers.Layer):
    """A layer with the kernel and the bias of Conv3D."""

    def __init__(self, block: Block, initializer: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._block, self._initializer = block, initializer

    def add_weights(self, channels: int, *, autocast: bool = True) -> None:
        """Makes `kernel` and, where the block has one, `bias`; `channels` are those of the input."""
        block = self._block
        self.kernel = self.add_weight(
            name="kernel",
            shape=(*block.kernel, channels, block.filters),
            initializer=self._initializer,
            autocast=autocast,
        )
        if block.bias:
            self.bias = self.add_weight(name="bias", shape=(block.filters,), initializer="zeros")
