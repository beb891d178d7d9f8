"""Convolution tables of each preset (cells, weights, multiplications) and the choice of their implementation.

Computed from the architecture tables; no network is built. A product and its addition count as one MAC, two operations.
Two forms are counted: `published`, in which the up-sampled image is convolved, and `phases`, in which each output phase
of an up-sampling meets the coarse cells once (see `cloudgan.gan.layers`). Both are direct convolutions: a transform
(Fourier, Winograd) needs fewer products, so these counts limit direct convolution only. Counted are convolutions and
dense layers, 99 % of the products of a step, with the zeros of a padding, as libraries compute them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from typing import Any, Literal, get_args

from cloudgan.schema.architecture import AXES, Block, Cells
from cloudgan.schema.config import RunConfig
from cloudgan.schema.presets import Preset, discriminator_table, generator_table

Form = Literal["published", "phases"]
Pass = Literal["forward", "input_gradient", "weight_gradient"]
PASSES: tuple[Pass, ...] = get_args(Pass)
Network = Literal["generator", "discriminator"]


@dataclass(frozen=True)
class Convolution:
    """One convolution of a network, with the up-sampling and padding before it.

    Attributes:
        network: Network of the convolution.
        name: Name of the layer.
        block: Row of the architecture table.
        cells: Cells of its input, before up-sampling and padding.
        channels: Channels of its input.
    """

    network: Network
    name: str
    block: Block
    cells: Cells
    channels: int

    @property
    def padded_cells(self) -> Cells:
        """Cells after up-sampling and the padding that the table states or that a periodic axis has."""
        block = self.block
        margins = [
            sum(margin) if wraps else 2 * pad
            for margin, pad, wraps in zip(block.margins, block.pad, block.periodic, strict=True)
        ]
        axes = zip(self.cells, block.upsample, margins, strict=True)
        return _each(n * up + added for n, up, added in axes)

    @property
    def output_cells(self) -> Cells:
        """Cells of its output in x, y and z."""
        block = self.block
        axes = zip(self.cells, block.upsample, block.margins, block.kernel, strict=True)
        return _each(n * up + sum(margin) - taps + 1 for n, up, margin, taps in axes)

    @property
    def weights(self) -> int:
        """Number of trainable weights, bias included."""
        bias = self.block.filters if self.block.bias else 0
        return prod(self.block.kernel) * self.channels * self.block.filters + bias

    @property
    def values(self) -> int:
        """Input and output values per shower."""
        ins, outs = prod(self.cells) * self.channels, prod(self.output_cells) * self.block.filters
        return ins + outs

    def macs(self, form: Form) -> int:
        """Multiply-accumulate operations of one pass over one shower; each of the three passes has as many."""
        channels = self.channels * self.block.filters
        block = self.block
        if form == "published" or any(block.periodic):
            return prod(self.output_cells) * prod(block.kernel) * channels
        before = [low for low, _ in block.margins]
        axes = zip(self.output_cells, block.kernel, block.upsample, before, strict=True)
        return prod(_phase_products(*axis) for axis in axes) * channels


def _phase_products(out: int, taps: int, up: int, pad: int) -> int:
    """Coarse cells times phases times coarse taps, along one axis."""
    coarse = (out - 1 - pad) // up - (-pad) // up + 1
    return coarse * up * ((up - 1 + taps - 1) // up + 1) if up > 1 else out * taps


def plan(preset: Preset) -> list[dict[str, Any]]:
    """Returns the convolutions of both networks as rows of a table: what the image shape makes of the preset."""
    return [
        {
            "network": each.network,
            "layer": each.name,
            "cells": each.cells,
            "channels": each.channels,
            "upsample": each.block.upsample,
            "kernel": each.block.kernel,
            "margins": each.block.margins,
            "periodic": [a for a, wraps in zip(AXES, each.block.periodic, strict=True) if wraps],
            "output_cells": each.output_cells,
            "filters": each.block.filters,
            "weights": each.weights,
        }
        for each in convolutions(preset)
    ]


def convolutions(preset: Preset) -> tuple[Convolution, ...]:
    """Returns the convolutions of both networks in order, the generator's first."""
    return (*generator_convolutions(preset), *discriminator_convolutions(preset))


def generator_convolutions(preset: Preset) -> tuple[Convolution, ...]:
    """Returns the convolutions of the generator."""
    table = generator_table(preset)
    channels = table.channels + preset.noise_channels
    return _chain("generator", table.blocks, table.grid, channels)


def discriminator_convolutions(preset: Preset) -> tuple[Convolution, ...]:
    """Returns the convolutions of the discriminator."""
    table = discriminator_table(preset)
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


def generator_macs(preset: Preset, form: Form) -> int:
    """Returns the products per shower of the generator."""
    return _dense_start(preset) + sum(one.macs(form) for one in generator_convolutions(preset))


def discriminator_macs(preset: Preset, form: Form) -> int:
    """Returns the products per shower of the discriminator."""
    layers = discriminator_convolutions(preset)
    pool = discriminator_table(preset).pool
    pooled = prod(n // pool for n in layers[-1].output_cells)
    heads = 2 * pooled * layers[-1].block.filters  # real or fake, and the energy
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


ConvImpl = Literal["published", "phases", "fft"]
CONV_IMPLS: tuple[str, ...] = get_args(ConvImpl)
WORTH_TAPS = 64


def choose_conv_impl(config: RunConfig, device: str, found: str | None = None) -> str:
    """Returns one of `CONV_IMPLS` for a kind of device, as `device_kind` names it.

    `found` is the implementation of a checkpoint; a flag overrides it.

    `fft` is generated CPU code in float32 and needs llvmlite; `phases` runs everywhere. `auto` uses `fft` if
    a kernel has WORTH_TAPS taps or more: with the kernels of mini and smoke it saves no time
    (docs/measurements/performance.md).
    """
    requested = config.training.conv_impl
    if requested in {"published", "phases"}:
        return requested
    able = device == "CPU" and config.training.precision == "float32" and find_spec("llvmlite")
    if requested == "auto" and found in CONV_IMPLS and (able or found != "fft"):
        return found
    generator, discriminator = generator_table(config.model), discriminator_table(config.model)
    blocks = (*generator.blocks, *discriminator.blocks)
    most_taps = max(prod(block.kernel) for block in blocks)
    worth = requested == "fast" or most_taps >= WORTH_TAPS
    return "fft" if able and worth else "phases"
