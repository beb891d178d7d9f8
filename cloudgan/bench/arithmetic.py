"""Counts the multiplications of a training step from the architecture tables; runs nothing.

A product and its addition count as one MAC, two operations. Two forms are counted: `published`, in
which an up-sampled image is convolved as it stands, and `phases`, in which each output phase of an
up-sampling meets the coarse cells once (see `cloudgan.models.phase_convolution`). Both are direct
convolutions. A form that multiplies in another basis (Fourier, Winograd) needs fewer products than
any count here, so the time that these counts allow is the limit of direct convolution only.

Counted are convolutions and dense layers, whose products are all but a percent of a step. Products
with the zeros of a padding count, as libraries do them.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Literal

from cloudgan.models.architectures import ARCHITECTURES
from cloudgan.models.convolutions import discriminator_convolutions, generator_convolutions

if TYPE_CHECKING:
    from cloudgan.core.presets import Preset
    from cloudgan.models.convolutions import Form

Pass = Literal["forward", "input_gradient", "weight_gradient"]
FORMS: tuple[Form, ...] = ("published", "phases")
PASSES: tuple[Pass, ...] = ("forward", "input_gradient", "weight_gradient")
_HEADS = 2  # real or fake, and the energy


def generator_macs(preset: Preset, form: Form) -> int:
    """Products for one shower from the generator."""
    return _dense_start(preset) + sum(one.macs(form) for one in generator_convolutions(preset))


def discriminator_macs(preset: Preset, form: Form) -> int:
    """Products for one judgement of the discriminator."""
    return _dense_heads(preset) + sum(one.macs(form) for one in discriminator_convolutions(preset))


def step_macs(preset: Preset, form: Form) -> dict[str, int]:
    """Products of one training step by its part, for one shower of the batch.

    Both networks' first layers need no gradient of their input when they are updated themselves;
    the generator's update needs that of the discriminator's first, and none of its weights.
    """
    generator, discriminator = generator_macs(preset, form), discriminator_macs(preset, form)
    first = discriminator_convolutions(preset)[0].macs(form)
    own = 3 * discriminator - first
    both = 3 * generator - _dense_start(preset) + 2 * discriminator
    return {
        "fake_showers": generator,
        "discriminator_real": own,
        "discriminator_fake": own,
        "generator_updates": preset.generator_updates * both,
    }


def _dense_start(preset: Preset) -> int:
    table = ARCHITECTURES[preset.networks].generator
    return preset.latent_size * prod(table.grid) * table.channels


def _dense_heads(preset: Preset) -> int:
    table, last = (
        ARCHITECTURES[preset.networks].discriminator,
        discriminator_convolutions(preset)[-1],
    )
    pooled = prod(n // table.pool for n in last.output_cells)
    return _HEADS * pooled * last.block.filters
