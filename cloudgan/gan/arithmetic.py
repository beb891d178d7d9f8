"""Counts the multiplications of a training step from the architecture tables; runs nothing.

A product and its addition count as one MAC, two operations. Two forms are counted: `published`, in which the
up-sampled image is convolved, and `phases`, in which each output phase of an up-sampling meets the coarse
cells once (see `cloudgan.gan.layers`). Both are direct convolutions: a transform (Fourier, Winograd) needs
fewer products, so these counts limit direct convolution only. Counted are convolutions and dense layers, 99 %
of the products of a step, with the zeros of a padding, as libraries compute them.
"""

from __future__ import annotations

from math import prod
from typing import Literal

from cloudgan.gan.convolutions import Form, discriminator_convolutions, generator_convolutions
from cloudgan.schema.presets import Preset, discriminator_table, generator_table

Pass = Literal["forward", "input_gradient", "weight_gradient"]
PASSES: tuple[Pass, ...] = ("forward", "input_gradient", "weight_gradient")
_HEADS = 2  # real or fake, and the energy


def generator_macs(preset: Preset, form: Form) -> int:
    """Returns the products per shower of the generator."""
    return _dense_start(preset) + sum(one.macs(form) for one in generator_convolutions(preset))


def discriminator_macs(preset: Preset, form: Form) -> int:
    """Returns the products per shower of the discriminator."""
    layers = discriminator_convolutions(preset)
    pool = discriminator_table(preset).pool
    pooled = prod(n // pool for n in layers[-1].output_cells)
    heads = _HEADS * pooled * layers[-1].block.filters
    return heads + sum(one.macs(form) for one in layers)


def step_macs(preset: Preset, form: Form) -> dict[str, int]:
    """Returns the products per shower of a training step, by part.

    The first layer of an updated network needs no input gradient; the generator's update needs that
    of the discriminator, but none of its weight gradients.
    """
    generator, discriminator = generator_macs(preset, form), discriminator_macs(preset, form)
    own = 3 * discriminator - discriminator_convolutions(preset)[0].macs(form)
    both = 3 * generator - _dense_start(preset) + 2 * discriminator
    return {
        "fake_showers": generator,
        "discriminator_real": own,
        "discriminator_fake": own,
        "generator_updates": preset.generator_updates * both,
    }


def _dense_start(preset: Preset) -> int:
    table = generator_table(preset)
    return preset.latent_size * prod(table.grid) * table.channels
