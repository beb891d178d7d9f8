"""Wider and deeper versions of the networks: the architecture tables of a preset with its factors.

Every count of weights, memory and operations reads the tables here, so it holds for any factor.
"""

from __future__ import annotations

from functools import cache

from cloudgan.schema.presets import Block, Discriminator, Generator, Preset, find_profile

_ADDED_KERNEL = (3, 3, 3)


def generator_table(preset: Preset) -> Generator:
    """Returns the architecture of the generator.

    The width multiplies the channels of the start and the filters of all blocks but the last, which
    makes the image.
    """
    width, depth = preset.generator_width, preset.generator_depth
    return _generator(preset.networks, width, depth)


def discriminator_table(preset: Preset) -> Discriminator:
    """Returns the architecture of the discriminator; the width multiplies the filters of all blocks."""
    width, depth = preset.discriminator_width, preset.discriminator_depth
    return _discriminator(preset.networks, width, depth)


@cache
def _generator(networks: str, width: float, depth: int) -> Generator:
    table = find_profile(networks).generator
    *hidden, last = table.blocks
    blocks = (*_resized(tuple(hidden), width, depth), last)
    return table._replace(channels=_scaled(table.channels, width), blocks=blocks)


@cache
def _discriminator(networks: str, width: float, depth: int) -> Discriminator:
    table = find_profile(networks).discriminator
    return table._replace(blocks=_resized(table.blocks, width, depth))


def _resized(blocks: tuple[Block, ...], width: float, depth: int) -> tuple[Block, ...]:
    """Scales the filters; after each block come `depth` - 1 more of 3x3x3 cells that keep its size."""
    found = []
    for block in blocks:
        filters = _scaled(block.filters, width)
        found.append(block._replace(filters=filters))
        found += [Block(filters, _ADDED_KERNEL, padding="same")] * (depth - 1)
    return tuple(found)


def _scaled(count: int, width: float) -> int:
    return max(1, round(count * width))
