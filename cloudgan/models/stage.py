"""One stage of a network: convolution, activation, batch norm and dropout, in this order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import keras

    from cloudgan.models.architectures import Block
    from cloudgan.models.dropout import MaskSource


@dataclass(frozen=True)
class Stage:
    """What a stage computes, whichever way.

    Attributes:
        block: Up-sampling, padding and convolution.
        number: Of the stage in its network; its layers are named after it.
        initializer: Of the kernel.
        leak: Slope of the activation below zero; 1 where there is none.
        momentum: Of batch norm's statistics.
        epsilon: Added to batch norm's variance.
        synchronized: Batch norm over all replicas instead of each its own.
        dropout: Share of the values that are dropped while training.
        masks: Decides which; needed where `dropout` is not 0.
    """

    block: Block
    number: int
    initializer: keras.initializers.Initializer
    leak: float
    momentum: float
    epsilon: float
    synchronized: bool = False
    dropout: float = 0.0
    masks: MaskSource | None = None
