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

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Literal

from cloudgan.models.architectures import ARCHITECTURES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudgan.core.presets import Preset
    from cloudgan.models.architectures import Block, Cells

Form = Literal["published", "phases"]
Network = Literal["generator", "discriminator"]
Pass = Literal["forward", "input_gradient", "weight_gradient"]
FORMS: tuple[Form, ...] = ("published", "phases")
PASSES: tuple[Pass, ...] = ("forward", "input_gradient", "weight_gradient")
_HEADS = 2  # real or fake, and the energy


@dataclass(frozen=True)
class Convolution:
    """One convolution of a network, with the up-sampling and padding before it.

    Attributes:
        network: Whose it is.
        name: As in the network.
        block: Its row of the architecture table.
        cells: Of its input, before up-sampling and padding.
        channels: Of its input.
    """

    network: Network
    name: str
    block: Block
    cells: Cells
    channels: int

    @property
    def output_cells(self) -> Cells:
        """Cells of its output in x, y and z."""
        if self.block.padding == "same":
            return _each(n * up for n, up in zip(self.cells, self.block.upsample, strict=True))
        block = self.block
        axes = zip(self.cells, block.upsample, block.pad, block.kernel, strict=True)
        return _each(n * up + 2 * pad - taps + 1 for n, up, pad, taps in axes)

    @property
    def weights(self) -> int:
        """Numbers that it learns, the bias too."""
        bias = self.block.filters if self.block.bias else 0
        return prod(self.block.kernel) * self.channels * self.block.filters + bias

    @property
    def values(self) -> int:
        """Numbers of one shower that go in and out."""
        ins, outs = prod(self.cells) * self.channels, prod(self.output_cells) * self.block.filters
        return ins + outs

    def macs(self, form: Form) -> int:
        """Products of one pass over one shower; each of the three passes has as many."""
        channels = self.channels * self.block.filters
        if form == "published":
            return prod(self.output_cells) * prod(self.block.kernel) * channels
        block = self.block
        axes = zip(self.output_cells, block.kernel, block.upsample, self._pads(), strict=True)
        return prod(_phase_products(*axis) for axis in axes) * channels

    def _pads(self) -> Cells:
        if self.block.padding == "same":
            return _each((taps - 1) // 2 for taps in self.block.kernel)
        return self.block.pad


def _phase_products(out: int, taps: int, up: int, pad: int) -> int:
    """Coarse cells times phases times coarse taps, along one axis."""
    coarse = (out - 1 - pad) // up - (-pad) // up + 1
    return coarse * up * ((up - 1 + taps - 1) // up + 1) if up > 1 else out * taps


def convolutions(preset: Preset) -> tuple[Convolution, ...]:
    """Returns the convolutions of both networks, the generator's first, in their order."""
    return (*_generator(preset), *_discriminator(preset))


def _generator(preset: Preset) -> tuple[Convolution, ...]:
    table = ARCHITECTURES[preset.networks].generator
    return _chain("generator", table.blocks, table.grid, table.channels)


def _discriminator(preset: Preset) -> tuple[Convolution, ...]:
    table = ARCHITECTURES[preset.networks].discriminator
    fold = table.space_to_depth
    cells = _each(-(-n // fold) for n in preset.image_shape)
    return _chain("discriminator", table.blocks, cells, fold**3)


def _chain(
    network: Network, blocks: tuple[Block, ...], cells: Cells, channels: int
) -> tuple[Convolution, ...]:
    found = []
    for number, block in enumerate(blocks):
        found.append(Convolution(network, f"conv{number}", block, cells, channels))
        cells, channels = found[-1].output_cells, block.filters
    return tuple(found)


def generator_macs(preset: Preset, form: Form) -> int:
    """Products for one shower from the generator."""
    return _dense_start(preset) + sum(one.macs(form) for one in _generator(preset))


def discriminator_macs(preset: Preset, form: Form) -> int:
    """Products for one judgement of the discriminator."""
    return _dense_heads(preset) + sum(one.macs(form) for one in _discriminator(preset))


def step_macs(preset: Preset, form: Form) -> dict[str, int]:
    """Products of one training step by its part, for one shower of the batch.

    Both networks' first layers need no gradient of their input when they are updated themselves;
    the generator's update needs that of the discriminator's first, and none of its weights.
    """
    generator, discriminator = generator_macs(preset, form), discriminator_macs(preset, form)
    first = _discriminator(preset)[0].macs(form)
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
    table, last = ARCHITECTURES[preset.networks].discriminator, _discriminator(preset)[-1]
    pooled = prod(n // table.pool for n in last.output_cells)
    return _HEADS * pooled * last.block.filters


def _each(numbers: Iterable[int]) -> Cells:
    x, y, z = numbers
    return x, y, z
