"""The networks as tables: what `preset.networks` names. No code but rows.

Convolutions read (x, y, depth). `paper` is the 3DGAN of arXiv:2111.04628, `fixed25` its
fixed-angle predecessor, `mini` ours: the same functions as an up-sampling and a strided
convolution in sub-pixel form, so that nothing but the image itself lives on the full grid.
"""

from __future__ import annotations

from typing import NamedTuple

Cells = tuple[int, int, int]


class Block(NamedTuple):
    """Up-sampling, zero padding, convolution, activation, batch norm, dropout; in this order."""

    filters: int
    kernel: Cells
    upsample: Cells = (1, 1, 1)
    pad: Cells = (0, 0, 0)
    padding: str = "valid"
    bias: bool = True
    activate: bool = True
    normalise: bool = True
    initializer: str | None = None  # None: the network's own


class Generator(NamedTuple):
    """A dense start on a coarse grid and what follows."""

    grid: Cells
    channels: int
    blocks: tuple[Block, ...]
    leak: float = 0.0  # slope of the activation below zero
    initializer: str = "he_uniform"
    subpixel: int = 1  # depth-to-space factor after the last block


class Discriminator(NamedTuple):
    """Blocks over the image; two dense heads follow, the other outputs are measured."""

    blocks: tuple[Block, ...]
    leak: float = 0.3
    initializer: str = "glorot_uniform"
    space_to_depth: int = 1
    pool: int = 1  # average pooling before the heads


class Networks(NamedTuple):
    """One generator and the discriminator that it meets."""

    generator: Generator
    discriminator: Discriminator


def _last(kernel: Cells, *, filters: int = 1, bias: bool = True) -> Block:
    padding = "valid" if filters == 1 else "same"
    return Block(
        filters,
        kernel,
        padding=padding,
        bias=bias,
        activate=False,
        normalise=False,
        initializer="glorot_normal",
    )


ARCHITECTURES: dict[str, Networks] = {
    "paper": Networks(
        Generator(
            (9, 9, 8),
            8,
            (
                Block(8, (6, 6, 8), upsample=(6, 6, 6)),
                Block(6, (4, 4, 6), pad=(2, 2, 1)),
                Block(6, (4, 4, 6), pad=(2, 2, 1)),
                Block(6, (4, 4, 6), pad=(2, 2, 1)),
                Block(6, (3, 3, 5), pad=(1, 1, 0)),
                Block(6, (3, 3, 3), pad=(1, 1, 0), normalise=False),
                _last((2, 2, 2)),
            ),
        ),
        Discriminator(
            (
                Block(16, (5, 6, 6), padding="same", normalise=False),
                Block(8, (5, 6, 6), pad=(0, 0, 1)),
                Block(8, (5, 6, 6), pad=(0, 0, 1)),
                Block(8, (5, 6, 6)),
            ),
            pool=2,
        ),
    ),
    "mini": Networks(
        Generator(
            (9, 9, 13),
            8,
            (Block(8, (3, 3, 3), padding="same"), _last((3, 3, 3), filters=8)),
            subpixel=2,
        ),
        Discriminator(
            (
                Block(16, (3, 3, 3), padding="same", normalise=False),
                Block(8, (3, 3, 4)),
                Block(8, (3, 3, 4)),
                Block(8, (3, 3, 3)),
            ),
            space_to_depth=2,
        ),
    ),
    "smoke": Networks(
        Generator(
            (5, 5, 13),
            4,
            (Block(4, (3, 3, 3), padding="same"), _last((3, 3, 3), filters=8)),
            subpixel=2,
        ),
        Discriminator(
            (
                Block(4, (3, 3, 3), padding="same", normalise=False),
                Block(4, (3, 3, 4)),
                Block(4, (3, 3, 4)),
            ),
            space_to_depth=2,
        ),
    ),
    "fixed25": Networks(
        Generator(
            (7, 7, 8),
            8,
            (
                Block(64, (6, 6, 8), padding="same"),
                Block(6, (6, 5, 8), upsample=(2, 2, 2), pad=(2, 2, 0)),
                Block(6, (3, 3, 8), upsample=(2, 2, 3), pad=(1, 0, 3), normalise=False),
                _last((2, 2, 2), bias=False),
            ),
            leak=0.3,
        ),
        Discriminator(
            (
                Block(32, (5, 5, 5), padding="same", normalise=False),
                Block(8, (5, 5, 5), pad=(2, 2, 2)),
                Block(8, (5, 5, 5), pad=(2, 2, 2)),
                Block(8, (5, 5, 5), pad=(1, 1, 1)),
            ),
            pool=2,
        ),
    ),
}
