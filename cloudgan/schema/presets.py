"""Networks and presets: one `NetworkProfile` per network holds all that is known of it.

Every difference between the presets is a key of `Preset`; `model:` of run.yaml may override any of
them. Add a network: one entry of `PROFILES`; help, JSON schema, memory forecast and benchmarks follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from cloudgan.core.document import SparseDocument
from cloudgan.core.errors import UnknownNameError
from cloudgan.core.flags import Text, flag
from cloudgan.schema.architecture import (
    AXES,
    Axes,
    Block,
    Cells,
    Discriminator,
    Generator,
    discriminator_for,
    generator_for,
    read_cells,
    resized,
    scaled,
)
from cloudgan.schema.losses import LossWeights

Side = Annotated[int, Field(ge=1, le=1024)]
"""Cells along one axis; a shower of 1024 cells on each is 4 GiB."""
Axis = Literal["x", "y", "z"]
Beta = Annotated[float, Field(ge=0, lt=1)]
Width = Annotated[float, Field(ge=0.125, le=8)]
Depth = Annotated[int, Field(ge=1, le=8)]
SIZE_KEYS = ("generator_width", "generator_depth", "discriminator_width", "discriminator_depth")
"""Factors on the networks of a preset; `generator_table` and `discriminator_table` apply them."""


def networks() -> dict[str, str]:
    """Returns what each network is for, by name."""
    return {name: profile.summary for name, profile in PROFILES.items()}


PROFILES: dict[str, NetworkProfile] = {}
"""The networks by name; filled below."""


class Preset(SparseDocument):
    """Everything that defines a model except its data; the defaults are the published 3DGAN."""

    OMITTED = ("periodic_axes", "log_energy", *SIZE_KEYS)

    preset: str = flag(
        "paper",
        "{names}",
        "Model",
        screen=True,
        words="mini; GPU: paper",
        placeholder="NAME",
        names=networks,
    )
    networks: str = Field(
        "paper",
        description="architecture of the networks",
        json_schema_extra=lambda schema: schema.update(enum=list(PROFILES)),
    )
    image_shape: Annotated[tuple[Side, Side, Side], Text(read_cells, "XxYxZ", joint="x")] = flag(
        (51, 51, 25),
        "cells in x, y and depth; wider showers are cut to the centre; the networks of any shape are computed",
        "Model",
        words="the preset's",
    )
    periodic_axes: tuple[Axis, ...] = Field(
        (),
        max_length=3,
        description="axes whose ends meet, such as an angle about the beam: convolutions go on at the other end",
    )
    latent_size: int = Field(256, ge=2, le=2**16, description="generator's input, with conditions")
    noise_channels: int = Field(
        0,
        ge=0,
        le=2**12,
        description="normals per coarse cell of the generator, in addition to the latent vector",
    )
    condition: Literal["concatenate", "multiply"] = Field(
        "concatenate",
        description="latent = [energy/100, angle, normals], or normals times energy/100",
    )
    image_scale: float = Field(
        50.0, gt=0, le=1e9, description="cells in GeV are multiplied by this"
    )
    image_power: float = Field(0.85, gt=0, le=1, description="then raised to this power")
    loss_weights: LossWeights = LossWeights()
    optimizer: Literal["rmsprop", "adam"] = "rmsprop"
    learning_rate: float = Field(1e-3, gt=0, le=1e6)
    adam_betas: tuple[Beta, Beta] = Field((0.5, 0.99), description="used by adam only")
    generator_updates: int = Field(2, ge=1, le=1000, description="generator updates per batch")
    label_flip_fraction: float = Field(0.05, ge=0, lt=0.5)
    label_flips: Literal["drawn", "frozen"] = Field(
        "drawn",
        description="drawn at each step, or those of step 0 at every step as in the published code",
    )
    dropout: float = Field(0.2, ge=0, le=0.99)
    batch_norm_momentum: float = Field(0.99, gt=0, lt=1)
    batch_norm_epsilon: float = Field(1e-6, gt=0, le=1e6)
    energy_scaled_output: bool = Field(
        False, description="generator output times (energy/100) ** image_power"
    )
    calibrated_output: bool = Field(
        False,
        description="scale the output by one constant, measured on training showers, to the mean sum",
    )
    output_activation: Literal["relu", "squared_relu"] = "relu"
    angle: Literal["measured", "primary"] = Field(
        "measured",
        description="angle that conditions the networks: measured on the image as published, or theta of"
        " the primary particle where the showers have it",
    )
    cell_marginals: bool = Field(
        False,
        description="the generator's output has each cell's distribution as measured on training showers;"
        " needs condition: concatenate; replaces the three output keys above",
    )
    log_energy: bool = Field(
        False,
        description="the generator's first layers get log10(energy/100): for energies over decades",
    )
    ema_decay: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="decay of the moving average of the generator's weights, used for inference; 0: off",
    )

    generator_width: Width = Field(1.0, description="factor of filters per hidden block")
    generator_depth: Depth = Field(
        1,
        description="blocks for each hidden block: further ones have 3x3x3 cells and keep the size",
    )
    discriminator_width: Width = Field(1.0, description="as generator_width")
    discriminator_depth: Depth = Field(1, description="as generator_depth")

    @property
    def network_name(self) -> str:
        """The networks with what differs from their preset: what measured times and qualities belong to."""
        own = PROFILES[self.networks].preset.image_shape if self.networks in PROFILES else ()
        shape = [f"{'x'.join(map(str, self.image_shape))} cells"] * (self.image_shape != own)
        periodic = [f"periodic {axis}" for axis in self.periodic_axes]
        factors = [
            f"{key.replace('_', ' ')} {getattr(self, key):g}"
            for key in SIZE_KEYS
            if not self.is_default(key)
        ]
        differs = ", ".join((*shape, *periodic, *factors))
        return f"{self.networks} ({differs})" if differs else self.networks

    @property
    def periodic(self) -> Axes:
        """Whether the ends of x, y and depth meet."""
        x, y, z = (axis in self.periodic_axes for axis in AXES)
        return x, y, z

    @model_validator(mode="after")
    def _networks_of_the_shape_exist(self) -> Preset:
        # The networks' own presets are made before their table.
        if self.networks in PROFILES:
            generator_table(self)
            discriminator_table(self)
        return self

    @model_validator(mode="after")
    def _marginals_know_the_energy(self) -> Preset:
        if self.cell_marginals and self.condition != "concatenate":
            raise ValueError(
                "cell_marginals needs condition: concatenate; of a latent vector times the energy the"
                " energy cannot be read"
            )
        return self

    @property
    def has_angle(self) -> bool:
        """Whether the networks are conditioned on the angle."""
        return self.condition == "concatenate"


class MeasuredMemory(NamedTuple):
    """Memory that `benchmarks/memory.py` measured for one conv_impl (2 cores, float32).

    Attributes:
        process_mib: Of a process with a compiled step, without weights and showers.
        factor: Memory per shower over the count of `cloudgan.gan.footprint`.
        replica_mib: Of each further replica in a process, without weights: its own operations.
    """

    process_mib: int
    factor: float
    replica_mib: int = 80


@dataclass(frozen=True, eq=False)
class NetworkProfile:
    """One network: its architecture, the preset that trains it, and its defaults.

    Attributes:
        summary: What it is, for help texts and reports.
        preset: Default value of every model key.
        memory: Measured memory by conv_impl.
        batch: Showers per replica and step, unless configured.
        cpu_rate: Training showers per second on two cores (docs/measurements/performance.md); only its ratios are used.
        steps_per_loop: Steps per device call on a CPU: 1 where a step takes seconds, so that a
            signal stops the run in time.
        bench_batch: Showers per step in `bench scaling`.
        bench_steps: Steps of each run in `bench scaling`.
        memory_batches: Batches that `benchmarks/memory.py` measures.
        memory_batch_of_two: Batch of its runs with two replicas; None: no such run.
    """

    summary: str
    preset: Preset
    generator: Generator
    discriminator: Discriminator
    memory: Mapping[str, MeasuredMemory]
    batch: int
    cpu_rate: float
    steps_per_loop: int = 1
    bench_batch: int = 32
    bench_steps: int = 300
    memory_batches: tuple[int, ...] = (8, 32, 128)
    memory_batch_of_two: int | None = None


def _last(kernel: Cells, *, filters: int = 1, bias: bool = True) -> Block:
    padding = "valid" if filters == 1 else "same"
    return Block(
        filters,
        kernel,
        padding=padding,
        bias=bias,
        activate=False,
        normalise=False,
        initializer="glorot_normal",
    )


_SMOKE = Preset(
    preset="smoke",
    networks="smoke",
    image_shape=(9, 9, 25),
    latent_size=64,  # with 256 the first layer of mini has 2.2 million weights, a fifth of its step
    optimizer="adam",
    batch_norm_momentum=0.9,
    energy_scaled_output=True,
    calibrated_output=True,
    output_activation="squared_relu",
    loss_weights=LossWeights(longitudinal=20.0),
    ema_decay=0.99,
)

_MINI = _SMOKE.model_copy(
    update={
        "preset": "mini",
        "networks": "mini",
        "image_shape": (17, 17, 25),
        "latent_size": 2,  # energy and angle: what fluctuates comes from the measured tables
        "cell_marginals": True,
        "energy_scaled_output": False,
        "calibrated_output": False,
        "output_activation": "relu",
        "angle": "primary",
        "learning_rate": 2e-4,  # the output is right before the first step, and 1e-3 spoils it
        # The angle loss would make every measured angle the requested one; in showers it scatters by
        # 3 degrees. The layers have their mean from the marginals.
        "loss_weights": LossWeights(angle=0.0, shape=40.0),
        "ema_decay": 0.998,
    }
)

PROFILES |= {
    # arXiv:2111.04628 and the authors' public code, channels last.
    "paper": NetworkProfile(
        "51x51x25, the published 3DGAN",
        Preset(),
        Generator(
            (9, 9, 8),
            8,
            (
                Block(8, (6, 6, 8), upsample=(6, 6, 6)),
                Block(6, (4, 4, 6), pad=(2, 2, 1)),
                Block(6, (4, 4, 6), pad=(2, 2, 1)),
                Block(6, (4, 4, 6), pad=(2, 2, 1)),
                Block(6, (3, 3, 5), pad=(1, 1, 0)),
                Block(6, (3, 3, 3), pad=(1, 1, 0), normalise=False),
                _last((2, 2, 2)),
            ),
        ),
        Discriminator(
            (
                Block(16, (5, 6, 6), padding="same", normalise=False),
                Block(8, (5, 6, 6), pad=(0, 0, 1)),
                Block(8, (5, 6, 6), pad=(0, 0, 1)),
                Block(8, (5, 6, 6)),
            ),
            pool=2,
        ),
        memory={
            "published": MeasuredMemory(736, 1.20),
            "phases": MeasuredMemory(738, 1.21),
            "fft": MeasuredMemory(1328, 0.64, 270),
        },
        batch=64,
        cpu_rate=6.9,
        bench_batch=16,
        bench_steps=4,
        memory_batches=(1, 2, 4, 8),
        memory_batch_of_two=2,
    ),
    # Central 17 x 17 full-size cells, 98.5 % of the energy. An up-sampling and a strided convolution
    # in sub-pixel form: only the image itself has the full grid.
    "mini": NetworkProfile(
        "17x17x25, for laptops",
        _MINI,
        Generator(
            (9, 9, 13),
            8,
            (Block(8, (3, 3, 3), padding="same"), _last((3, 3, 3), filters=8)),
            subpixel=2,
        ),
        Discriminator(
            (
                Block(16, (3, 3, 3), padding="same", normalise=False),
                Block(8, (3, 3, 4)),
                Block(8, (3, 3, 4)),
                Block(8, (3, 3, 3)),
            ),
            space_to_depth=2,
        ),
        memory={
            "published": MeasuredMemory(708, 1.60),
            "phases": MeasuredMemory(705, 1.59),
            "fft": MeasuredMemory(851, 1.21, 104),
        },
        batch=32,
        cpu_rate=280,
        steps_per_loop=10,
        memory_batches=(8, 32, 128, 512),
        memory_batch_of_two=128,
    ),
    # The layers of mini in milliseconds per step, without marginals; hardly learns.
    "smoke": NetworkProfile(
        "9x9x25, for tests",
        _SMOKE,
        Generator(
            (5, 5, 13),
            4,
            (Block(4, (3, 3, 3), padding="same"), _last((3, 3, 3), filters=8)),
            subpixel=2,
        ),
        Discriminator(
            (
                Block(4, (3, 3, 3), padding="same", normalise=False),
                Block(4, (3, 3, 4)),
                Block(4, (3, 3, 4)),
            ),
            space_to_depth=2,
        ),
        memory={
            "published": MeasuredMemory(700, 1.52),
            "phases": MeasuredMemory(699, 1.60),
            "fft": MeasuredMemory(821, 0.82, 104),
        },
        batch=32,
        cpu_rate=1214,
        steps_per_loop=10,
        memory_batches=(8, 32, 256, 2048),
    ),
    # The fixed-angle predecessor (25 x 25 x 25 cells, energy only) in the same authors' code. Memory
    # was measured at one batch in the published form; its fft row is a conservative guess.
    "fixed25": NetworkProfile(
        "25x25x25, the fixed-angle predecessor",
        Preset(
            preset="fixed25",
            networks="fixed25",
            image_shape=(25, 25, 25),
            latent_size=200,
            condition="multiply",
            image_scale=100.0,
            image_power=1.0,
            loss_weights=LossWeights(real_fake=6.0, energy=0.2, angle=0.0, ecal_sum=0.1),
            batch_norm_epsilon=1e-3,
        ),
        Generator(
            (7, 7, 8),
            8,
            (
                Block(64, (6, 6, 8), padding="same"),
                Block(6, (6, 5, 8), upsample=(2, 2, 2), pad=(2, 2, 0)),
                Block(6, (3, 3, 8), upsample=(2, 2, 3), pad=(1, 0, 3), normalise=False),
                _last((2, 2, 2), bias=False),
            ),
            leak=0.3,
        ),
        Discriminator(
            (
                Block(32, (5, 5, 5), padding="same", normalise=False),
                Block(8, (5, 5, 5), pad=(2, 2, 2)),
                Block(8, (5, 5, 5), pad=(2, 2, 2)),
                Block(8, (5, 5, 5), pad=(1, 1, 1)),
            ),
            pool=2,
        ),
        memory={
            "published": MeasuredMemory(736, 1.31),
            "phases": MeasuredMemory(738, 1.31),
            "fft": MeasuredMemory(1328, 1.31, 270),
        },
        batch=128,
        cpu_rate=14.9,
        bench_batch=128,
        bench_steps=20,
        memory_batches=(4, 16, 32),
    ),
}


def find_profile(networks: str) -> NetworkProfile:
    """Returns the profile of a network."""
    if networks not in PROFILES:
        raise UnknownNameError("preset", networks, PROFILES)
    return PROFILES[networks]


def find_preset(name: str) -> Preset:
    """Returns the preset called `name`; raises what `find_profile` raises."""
    return find_profile(name).preset


def generator_table(preset: Preset) -> Generator:
    """Returns the architecture of the generator for the image and the factors of a preset.

    The width multiplies the channels of the start and the filters of all blocks but the last, which
    makes the image.
    """
    size = preset.generator_width, preset.generator_depth
    return _generator(find_profile(preset.networks), preset.image_shape, preset.periodic, *size)


def discriminator_table(preset: Preset) -> Discriminator:
    """Returns the architecture of the discriminator; the width multiplies the filters of all blocks."""
    size = preset.discriminator_width, preset.discriminator_depth
    return _discriminator(find_profile(preset.networks), preset.image_shape, preset.periodic, *size)


@cache
def _generator(
    profile: NetworkProfile, shape: Cells, periodic: Axes, width: float, depth: int
) -> Generator:
    table = generator_for(profile.generator, shape, periodic)
    *hidden, last = table.blocks
    blocks = (*resized(hidden, width, depth), last)
    return table._replace(channels=scaled(table.channels, width), blocks=blocks)


@cache
def _discriminator(
    profile: NetworkProfile, shape: Cells, periodic: Axes, width: float, depth: int
) -> Discriminator:
    table = discriminator_for(profile.discriminator, shape, periodic)
    return table._replace(blocks=resized(table.blocks, width, depth))
