"""The convolutions of a preset's networks with the cells that each meets; from tables, nothing is built."""

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
    def padded_cells(self) -> Cells:
        """Cells that it convolves, behind up-sampling and zero padding."""
        axes = zip(self.cells, self.block.upsample, self.block.pad, strict=True)
        return _each(n * up + 2 * pad for n, up, pad in axes)

    @property
    def output_cells(self) -> Cells:
        """Cells of its output in x, y and z."""
        if self.block.padding == "same":
            return self.padded_cells
        axes = zip(self.padded_cells, self.block.kernel, strict=True)
        return _each(n - taps + 1 for n, taps in axes)

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
    return (*generator_convolutions(preset), *discriminator_convolutions(preset))


def generator_convolutions(preset: Preset) -> tuple[Convolution, ...]:
    """Returns those of the generator."""
    table = ARCHITECTURES[preset.networks].generator
    channels = table.channels + preset.noise_channels
    return _chain("generator", table.blocks, table.grid, channels)


def discriminator_convolutions(preset: Preset) -> tuple[Convolution, ...]:
    """Returns those of the discriminator."""
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


def _each(numbers: Iterable[int]) -> Cells:
    x, y, z = numbers
    return x, y, z
