"""Inputs and output of an exported generator, the same in every format, and the range of its requests."""

from __future__ import annotations

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.data.summary import TrainingSummary
from cloudgan.gan.shower_frame import latent_length
from cloudgan.schema.presets import Preset


class Tensor(Document):
    """A tensor of 32-bit floats; its first axis is the number of showers."""

    name: str
    unit: str
    shape: tuple[int, ...] = Field(description="of one shower; empty: one number")
    meaning: str


class Validity(Document):
    """Ranges of the training showers: outside of them what the network makes was never compared with Monte Carlo."""

    particle: str | None = Field(description="primary particle; None: the showers state none")
    energy_gev: tuple[float, float]
    theta_rad: tuple[float, float] | None = Field(
        description="of the primary; None: the showers have no theta, see measured_angle_rad"
    )
    measured_angle_rad: tuple[float, float] = Field(description="angle measured on the showers")
    cells: tuple[int, int, int] = Field(description="x, y, depth")

    @property
    def angle_rad(self) -> tuple[float, float]:
        """Range of the input `theta`."""
        return self.theta_rad or self.measured_angle_rad


def validity(preset: Preset, summary: TrainingSummary) -> Validity:
    """Returns the range of requests that the training showers cover."""
    return Validity(
        particle=summary.particle,
        energy_gev=summary.energy_range_gev,
        theta_rad=summary.theta_range_rad,
        measured_angle_rad=summary.mtheta_range_rad,
        cells=preset.image_shape,
    )


def inputs(preset: Preset) -> tuple[Tensor, ...]:
    """Returns the inputs in order."""
    use = "polar angle of the primary" if preset.has_angle else "not used by this preset"
    return (
        Tensor(name="energy", unit="GeV", shape=(), meaning="energy of the primary"),
        Tensor(name="theta", unit="rad", shape=(), meaning=use),
        Tensor(
            name="noise", unit="", shape=(noise_length(preset),),
            meaning="independent standard normals: one draw per shower",
        ),
    )  # fmt: skip


def output(preset: Preset) -> Tensor:
    """Returns the output."""
    return Tensor(
        name="ecal", unit="GeV", shape=preset.image_shape,
        meaning="energy deposited in the active material of each cell; axes x, y, depth",
    )  # fmt: skip


def noise_length(preset: Preset) -> int:
    """Returns the number of standard normals of a shower: the network's inputs without energy and angle."""
    return latent_length(preset) - (2 if preset.has_angle else 0)
