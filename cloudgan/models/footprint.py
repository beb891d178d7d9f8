"""The memory that training takes, counted layer by layer before anything is built. No Keras here.

Kept for the backward pass of a generator update, which is the largest of a step: of each block what
its convolution reads, and what convolution, activation, batch norm and dropout make of it. What a
step needs beside that (gradients on their way, scratch of the kernels) goes with it, so one measured
factor for each table of networks and formulation makes the count a peak.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.models.architectures import ARCHITECTURES
from cloudgan.models.convolutions import discriminator_convolutions, generator_convolutions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.presets import Preset
    from cloudgan.models.convolutions import Convolution


class Measured(NamedTuple):
    """What `benchmarks/memory.py` found for networks in one formulation (2 cores, float32).

    Attributes:
        process_mib: Of a process with a compiled step, weights aside, before the first shower.
        factor: What each shower takes beyond that, over what is kept of it.
        replica_mib: What each further replica adds to a process, weights aside: its own operations.
    """

    process_mib: int
    factor: float
    replica_mib: int = 80


# Compiled kernels keep the compiler and their scratch, and less of each shower. fixed25 was measured
# at one batch in the published form, and its last row is a guess on the safe side.
MEASURED = {
    "paper": {
        "published": Measured(736, 1.20),
        "phases": Measured(738, 1.21),
        "transforms": Measured(1328, 0.64, 270),
    },
    "fixed25": {
        "published": Measured(736, 1.31),
        "phases": Measured(738, 1.31),
        "transforms": Measured(1328, 1.31, 270),
    },
    "mini": {
        "published": Measured(708, 1.60),
        "phases": Measured(705, 1.59),
        "transforms": Measured(851, 1.21, 104),
    },
    "smoke": {
        "published": Measured(700, 1.52),
        "phases": Measured(699, 1.60),
        "transforms": Measured(821, 0.82, 104),
    },
}

ERROR = 0.1
"""Relative error of a peak. The table is within 0.03 of what it was made from; the same step, run
again on a busy machine, took up to 0.1 more: which operations meet is up to the scheduler."""

_NUMBER_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8}
_IMAGES_KEPT = 7
"""Images that no table lists: what the output layer, the measurement and the losses keep of one."""
_FINISHED_SHOWERS, _FINISHING_BYTES = 1024, 24
"""Showers that a generator is finished with at once (`training.finishing`), bytes for each cell."""


class Kept(NamedTuple):
    """Numbers of one shower that wait for the backward pass of a layer."""

    layer: str
    numbers: int


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


def footprint(preset: Preset, *, formulation: str, precision: str) -> Footprint:
    """Returns what training `preset` takes; `formulation` is published, phases or transforms."""
    size = _NUMBER_BYTES[precision]
    measured = MEASURED[preset.networks][formulation]
    least = size * sum(kept.numbers for kept in kept_for_backward(preset, formulation))
    weight = max(size, _NUMBER_BYTES["float32"])
    slots = 2 if preset.optimizer == "adam" else 1
    generator, discriminator = learned(preset)
    copies = 3 + slots  # weights, gradients, and these once more on their way to the other replicas
    average = generator if preset.generator_average else 0
    is_finished = preset.calibrated_output or preset.generator_average
    return Footprint(
        weights=weight * ((generator + discriminator) * copies + average),
        shower=round(least * measured.factor),
        least=least,
        process=measured.process_mib << 20,
        replica=measured.replica_mib << 20,
        finishing=_FINISHED_SHOWERS * _FINISHING_BYTES * prod(preset.image_shape)
        if is_finished
        else 0,
    )


def kept_for_backward(preset: Preset, formulation: str) -> Iterator[Kept]:
    """Yields what a generator update keeps of one shower, layer by layer."""
    table = ARCHITECTURES[preset.networks]
    cells = prod(preset.image_shape)
    yield Kept("start", prod(table.generator.grid) * table.generator.channels)
    repeated = formulation == "published"  # the others never make an up-sampled input
    for number, each in enumerate(generator_convolutions(preset)):
        yield Kept(f"generator {number}", _read(each, repeated=repeated) + _made(each))
    yield Kept("images", _IMAGES_KEPT * cells)
    for number, each in enumerate(discriminator_convolutions(preset)):
        made = _made(each, dropout=True)
        yield Kept(f"discriminator {number}", _read(each, repeated=repeated) + made)


def learned(preset: Preset) -> tuple[int, int]:
    """Numbers that generator and discriminator learn."""
    table = ARCHITECTURES[preset.networks]
    start = prod(table.generator.grid) * table.generator.channels
    generator = (preset.latent_size + 1) * start
    generator += sum(_weights(each) for each in generator_convolutions(preset))
    judging = discriminator_convolutions(preset)
    last = judging[-1]
    pooled = [size // table.discriminator.pool for size in last.output_cells]
    features = prod(pooled) * last.block.filters
    return generator, sum(_weights(each) for each in judging) + 2 * (features + 1)


def _read(each: Convolution, *, repeated: bool) -> int:
    """What a convolution reads and the block before has not already kept."""
    block = each.block
    if block.pad == (0, 0, 0) and (block.upsample == (1, 1, 1) or not repeated):
        return 0
    return prod(each.padded_cells) * each.channels


def _made(each: Convolution, *, dropout: bool = False) -> int:
    """The outputs of convolution, activation and batch norm, and of dropout with its mask."""
    block = each.block
    tensors = 1 + (block.activate or dropout) + block.normalise + 2 * dropout
    return tensors * prod(each.output_cells) * block.filters


def _weights(each: Convolution) -> int:
    return each.weights + 2 * each.block.normalise * each.block.filters
