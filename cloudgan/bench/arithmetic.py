"""Counts the multiplications of a training step from the architecture tables; runs nothing.

A product and its addition count as one MAC, two operations. Two forms are counted: `published`, in
which the up-sampled image is convolved, and `phases`, in which each output phase of an
up-sampling meets the coarse cells once (see `cloudgan.models.layers`). Both are direct
convolutions: a transform (Fourier, Winograd) needs fewer products, so these counts limit direct
convolution only.

Counted are convolutions and dense layers, 99 % of the products of a step, including products with
the zeros of a padding, as libraries compute them.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Literal, NamedTuple

from cloudgan.models.convolutions import discriminator_convolutions, generator_convolutions
from cloudgan.schema.network_size import discriminator_table, generator_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.models.convolutions import Form
    from cloudgan.schema.presets import Preset

Pass = Literal["forward", "input_gradient", "weight_gradient"]
FORMS: tuple[Form, ...] = ("published", "phases")
PASSES: tuple[Pass, ...] = ("forward", "input_gradient", "weight_gradient")
Bound = Literal["arithmetic", "memory"]
_HEADS = 2  # real or fake, and the energy


def generator_macs(preset: Preset, form: Form) -> int:
    """Returns the products per shower of the generator."""
    return _dense_start(preset) + sum(one.macs(form) for one in generator_convolutions(preset))


def discriminator_macs(preset: Preset, form: Form) -> int:
    """Returns the products per shower of the discriminator."""
    return _dense_heads(preset) + sum(one.macs(form) for one in discriminator_convolutions(preset))


def step_macs(preset: Preset, form: Form) -> dict[str, int]:
    """Returns the products per shower of a training step, by part.

    The first layer of an updated network needs no input gradient; the generator's update needs that
    of the discriminator, but none of its weight gradients.
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
    table = generator_table(preset)
    return preset.latent_size * prod(table.grid) * table.channels


def _dense_heads(preset: Preset) -> int:
    table, last = (
        discriminator_table(preset),
        discriminator_convolutions(preset)[-1],
    )
    pooled = prod(n // table.pool for n in last.output_cells)
    return _HEADS * pooled * last.block.filters


class Ceilings(NamedTuple):
    """Measured limits of a device: speed of a large matrix product, bandwidth of a large copy."""

    tflops: Mapping[str, float]  # by precision
    memory_gb_per_second: float  # read and written


class Limit(NamedTuple):
    """Minimum time of a program, and its bound."""

    seconds: float
    bound: Bound


def limit_of(
    ceilings: Ceilings, precision: str, flops: float | None, moved_bytes: float | None
) -> Limit | None:
    """Returns the minimum time of a program; None if its arithmetic or traffic is unknown.

    Roofline model: Williams, Waterman and Patterson, doi:10.1145/1498765.1498785.

    Args:
        ceilings: Limits of the device.
        precision: One of those in `ceilings.tflops`.
        flops: Multiplications and additions of the program.
        moved_bytes: Read and written.
    """
    if not flops or not moved_bytes:
        return None
    arithmetic = flops / (1e12 * ceilings.tflops[precision])
    memory = moved_bytes / (1e9 * ceilings.memory_gb_per_second)
    if arithmetic >= memory:
        return Limit(arithmetic, "arithmetic")
    return Limit(memory, "memory")
