"""Model parallelism: which layers of a network are on which device, and what crosses between them.

Counted from the architecture tables, before anything is built. No Keras here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from cloudgan.core.errors import ConfigError, nearest
from cloudgan.models.convolutions import discriminator_convolutions, generator_convolutions
from cloudgan.models.footprint import learned
from cloudgan.schema.network_size import discriminator_table, generator_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.models.convolutions import Convolution
    from cloudgan.schema.presets import Preset

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class DeviceStages:
    """The part of one network that is on one device.

    Attributes:
        network: generator or discriminator.
        device: Number of the device.
        layers: Names of its convolutions; the first device has the layers before them, too, the
            last one the layers after them.
        weight_bytes: Weights with gradients and slots of the optimizer.
        shower_bytes: Outputs of the convolutions that wait for the backward pass, per shower.
        in_bytes: Activations that arrive per shower; as many bytes of gradients go back.
    """

    network: str
    device: int
    layers: tuple[str, ...]
    weight_bytes: int
    shower_bytes: int
    in_bytes: int

    def as_json(self) -> dict[str, Any]:
        """Returns the row of the table."""
        return {
            "network": self.network,
            "device": self.device,
            "layers": list(self.layers),
            "weight_bytes": self.weight_bytes,
            "activation_bytes_per_shower": self.shower_bytes,
            "bytes_in_per_shower": self.in_bytes,
        }


def stage_names(preset: Preset) -> tuple[str, ...]:
    """Returns the layers at which a network can be divided."""
    tables = (generator_table(preset), discriminator_table(preset))
    most = max(len(table.blocks) for table in tables)
    return tuple(f"conv{number}" for number in range(1, most))


def check_stages(stages: Sequence[str], preset: Preset) -> None:
    """Checks names and order of the layers at which the networks are divided.

    Raises:
        ConfigError: A name is unknown, or they are not in the order of the network.
    """
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


def place(preset: Preset, stages: Sequence[str], *, slots: int) -> tuple[DeviceStages, ...]:
    """Counts bytes per device and across each boundary, in float32.

    Args:
        preset: Preset of the networks.
        stages: Layers from which on a network is on the next device.
        slots: Numbers that the optimizer keeps per weight.
    """
    table = generator_table(preset)
    start = (preset.latent_size + 1) * prod(table.grid) * table.channels
    networks = (
        ("generator", generator_convolutions(preset), start),
        ("discriminator", discriminator_convolutions(preset), 0),
    )
    return tuple(
        row
        for (network, blocks, before), total in zip(networks, learned(preset), strict=True)
        for row in _place(network, blocks, stages, _weights(blocks, before, total), 2 + slots)
    )


def _weights(blocks: Sequence[Convolution], before: int, total: int) -> list[int]:
    """Weights by block; the first has those before it, the last those of no block."""
    weights = [each.weights + 2 * each.block.normalise * each.block.filters for each in blocks]
    weights[0] += before
    weights[-1] += total - sum(weights)
    return weights


def _place(
    network: str,
    blocks: Sequence[Convolution],
    stages: Sequence[str],
    weights: list[int],
    copies: int,
) -> list[DeviceStages]:
    rows = []
    for device in range(len(stages) + 1):
        here = [n for n in range(len(blocks)) if device_of(n, stages) == device]
        if not here:
            continue
        arrives = _outputs(blocks[here[0] - 1]) if here[0] else 0
        rows.append(
            DeviceStages(
                network,
                device,
                tuple(f"conv{n}" for n in here),
                _FLOAT_BYTES * copies * sum(weights[n] for n in here),
                _FLOAT_BYTES * sum(_outputs(blocks[n]) for n in here),
                _FLOAT_BYTES * arrives,
            )
        )
    return rows


def _outputs(each: Convolution) -> int:
    return prod(each.output_cells) * each.block.filters
