"""Model parallelism: which layers of a network are on which device, and what crosses between them.

Counted from the architecture tables, before anything is built. No Keras here.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from cloudgan.core.errors import ConfigError, nearest
from cloudgan.gan.convolutions import discriminator_convolutions, generator_convolutions
from cloudgan.gan.footprint import learned
from cloudgan.schema.presets import Preset, discriminator_table, generator_table

_FLOAT_BYTES = 4


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
    table = generator_table(preset)
    start = (preset.latent_size + 1) * prod(table.grid) * table.channels
    networks = (
        ("generator", generator_convolutions(preset), start),
        ("discriminator", discriminator_convolutions(preset), 0),
    )
    rows = []
    for (network, blocks, before), total in zip(networks, learned(preset), strict=True):
        weights = [each.weights + 2 * each.block.normalise * each.block.filters for each in blocks]
        weights[0] += before
        weights[-1] += total - sum(weights)  # of the layers after the last block
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
                    "weight_bytes": _FLOAT_BYTES * (2 + slots) * sum(weights[n] for n in here),
                    "activation_bytes_per_shower": _FLOAT_BYTES * sum(outputs[n] for n in here),
                    "bytes_in_per_shower": _FLOAT_BYTES * arriving,
                }
            )
    return rows
