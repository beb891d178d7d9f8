"""The memory that training takes, and which layers are on which device, counted before anything is built. No Keras here.

Kept for the backward pass of a generator update, which is the largest of a step: of each block what
its convolution reads, and what convolution, activation, batch norm and dropout make of it. What a
step needs beside that (gradients on their way, scratch of the kernels) goes with it, so one measured
factor for each table of networks and conv_impl makes the count a peak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from cloudgan.core.errors import ConfigError, nearest
from cloudgan.gan.convolutions import (
    Convolution,
    discriminator_convolutions,
    generator_convolutions,
)
from cloudgan.gan.shower_frame import table_shape
from cloudgan.schema.presets import Preset, discriminator_table, find_profile, generator_table

ERROR = 0.1
"""Relative error of a peak. The table is within 0.03 of what it was made from; the same step, run
again on a busy machine, took up to 0.1 more: which operations meet is up to the scheduler."""

_NUMBER_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8}
_IMAGES_KEPT = 7
"""Images that no table lists: what the output layer, the measurement and the losses keep of one."""
_MARGINALS_KEPT = 24
"""Numbers for each cell that `cloudgan.gan.cell_marginals` keeps: three of two knots each, what lies
between them, its powers and exponentials, and the features of the shape loss."""
_FINISHED_SHOWERS, _FINISHING_BYTES = 1024, 24
"""Showers that a generator is finished with at once (`training.calibration`), bytes for each cell."""


@dataclass(frozen=True)
class Footprint:
    """Memory of training, in bytes.

    Attributes:
        weights: Of one replica: weights, their slots and averages, and gradients.
        shower: Of each shower of a replica's batch.
        least: Of each shower, what is kept, without any factor.
        process: Of a process that computes on its processor, before the first shower.
        replica: Of each further replica of such a process, weights and showers aside.
        finishing: Of such a process for a moment, whatever the batch.
    """

    weights: int
    shower: int
    least: int
    process: int
    replica: int
    finishing: int

    def of_replica(self, batch: int) -> int:
        """What one replica takes of its device."""
        return self.weights + batch * self.shower

    def of_process(self, batch: int, replicas: int) -> int:
        """What a process takes that computes itself, on its processor, without the showers it caches."""
        own = self.process + (replicas - 1) * self.replica
        return own + replicas * self.weights + max(replicas * batch * self.shower, self.finishing)


def footprint(preset: Preset, *, conv_impl: str, precision: str) -> Footprint:
    """Returns what training `preset` takes; `conv_impl` is published, phases or fft."""
    size = _NUMBER_BYTES[precision]
    measured = find_profile(preset.networks).memory[conv_impl]
    least = size * sum(kept_for_backward(preset, conv_impl).values())
    weight = max(size, _NUMBER_BYTES["float32"])
    slots = 2 if preset.optimizer == "adam" else 1
    generator, discriminator = learned(preset)
    copies = 3 + slots  # weights, gradients, and these once more on their way to the other replicas
    average = generator if preset.ema_decay else 0
    is_finished = preset.calibrated_output or preset.ema_decay
    tables = table_shape(preset).numbers if preset.cell_marginals else 0
    return Footprint(
        weights=weight * ((generator + discriminator) * copies + average + 2 * tables),
        shower=round(least * measured.factor),
        least=least,
        process=measured.process_mib << 20,
        replica=measured.replica_mib << 20,
        finishing=_FINISHED_SHOWERS * _FINISHING_BYTES * prod(preset.image_shape)
        if is_finished
        else 0,
    )


def kept_for_backward(preset: Preset, conv_impl: str) -> dict[str, int]:
    """Returns the numbers of one shower that a generator update keeps for its backward pass, by layer."""
    table = generator_table(preset)
    cells = prod(preset.image_shape)
    kept = {"start": prod(table.grid) * table.channels, "images": _IMAGES_KEPT * cells}
    if preset.cell_marginals:
        kept["marginals"] = _MARGINALS_KEPT * cells
    repeated = conv_impl == "published"  # the others never make an up-sampled input
    for network, blocks, _ in _networks(preset):
        for number, each in enumerate(blocks):
            made = _made(each, dropout=network == "discriminator")
            kept[f"{network} {number}"] = _read(each, repeated=repeated) + made
    return kept


def learned(preset: Preset) -> tuple[int, int]:
    """Numbers that generator and discriminator learn."""
    generator, discriminator = (sum(weights) for _, _, weights in _networks(preset))
    return generator, discriminator


def _networks(preset: Preset) -> list[tuple[str, tuple[Convolution, ...], list[int]]]:
    """Name, convolutions, and what each of these learns; dense layers count with the first and the last one."""
    generating, judging = generator_convolutions(preset), discriminator_convolutions(preset)
    numbers = [
        [each.weights + 2 * each.block.normalise * each.block.filters for each in blocks]
        for blocks in (generating, judging)
    ]
    table = generator_table(preset)
    numbers[0][0] += (preset.latent_size + 1) * prod(table.grid) * table.channels
    pooled = [size // discriminator_table(preset).pool for size in judging[-1].output_cells]
    numbers[1][-1] += 2 * (prod(pooled) * judging[-1].block.filters + 1)
    return [("generator", generating, numbers[0]), ("discriminator", judging, numbers[1])]


def network_sizes(preset: Preset) -> dict[str, dict[str, int]]:
    """Numbers of each network, all `parameters` and the `trainable` ones, without measured tables.

    Not trained are the moving statistics of batch norm, and the constant of a calibrated output.
    """
    found = {}
    for name, blocks, weights in _networks(preset):
        kept = sum(2 * each.block.normalise * each.block.filters for each in blocks)
        if name == "generator" and preset.calibrated_output and not preset.cell_marginals:
            kept += 1
        found[name] = {"parameters": sum(weights) + kept, "trainable": sum(weights)}
    return found


def _read(each: Convolution, *, repeated: bool) -> int:
    """What a convolution reads and the block before has not already kept."""
    block = each.block
    is_plain = block.pad == (0, 0, 0) and not any(block.periodic)
    if is_plain and (block.upsample == (1, 1, 1) or not repeated):
        return 0
    return prod(each.padded_cells) * each.channels


def _made(each: Convolution, *, dropout: bool = False) -> int:
    """The outputs of convolution, activation and batch norm, and of dropout with its mask."""
    block = each.block
    tensors = 1 + (block.activate or dropout) + block.normalise + 2 * dropout
    return tensors * prod(each.output_cells) * block.filters


def stage_names(preset: Preset) -> tuple[str, ...]:
    """Returns the layers at which a network can be divided."""
    tables = (generator_table(preset), discriminator_table(preset))
    most = max(len(table.blocks) for table in tables)
    return tuple(f"conv{number}" for number in range(1, most))


def check_stages(stages: Sequence[str], preset: Preset) -> None:
    """Checks names and order of the layers at which the networks are divided."""
    known = stage_names(preset)
    for name in stages:
        if name not in known:
            raise ConfigError(
                f"--stages={','.join(stages)}: {preset.preset} has no layer {name[:40]!r}."
                f"{nearest(name, known)} Valid: {', '.join(known)}"
            )
    if [known.index(name) for name in stages] != sorted({known.index(name) for name in stages}):
        ordered = ",".join(name for name in known if name in stages)
        raise ConfigError(
            f"--stages={','.join(stages)}: each layer once, in the order of the network:"
            f" --stages={ordered}"
        )


def device_of(number: int, stages: Sequence[str]) -> int:
    """Returns the device of block `number` of a network that is divided at `stages`."""
    return sum(number >= int(name.removeprefix("conv")) for name in stages)


def place(preset: Preset, stages: Sequence[str], *, slots: int) -> list[dict[str, Any]]:
    """Counts bytes per device and across each boundary, in float32.

    Args:
        preset: Preset of the networks.
        stages: Layers from which on a network is on the next device.
        slots: Numbers that the optimizer keeps per weight.

    Returns:
        A row per network and device. `layers` are its convolutions; the first device has the layers before
        them, too, the last one those after them. `weight_bytes` are weights with gradients and slots;
        `activation_bytes_per_shower` wait for the backward pass; `bytes_in_per_shower` arrive, and as many
        bytes of gradients go back.
    """
    rows, size = [], _NUMBER_BYTES["float32"]
    for network, blocks, weights in _networks(preset):
        outputs = [prod(each.output_cells) * each.block.filters for each in blocks]
        for device in range(len(stages) + 1):
            here = [n for n in range(len(blocks)) if device_of(n, stages) == device]
            if not here:
                continue
            arriving = outputs[here[0] - 1] if here[0] else 0
            rows.append(
                {
                    "network": network,
                    "device": device,
                    "layers": [f"conv{n}" for n in here],
                    "weight_bytes": size * (2 + slots) * sum(weights[n] for n in here),
                    "activation_bytes_per_shower": size * sum(outputs[n] for n in here),
                    "bytes_in_per_shower": size * arriving,
                }
            )
    return rows
