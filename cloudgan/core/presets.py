"""What can be trained: the networks' shape, losses and optimiser, one named preset each.

Every difference between the presets is a key here; `model:` of run.yaml may override any of them.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.core.errors import UnknownNameError


class LossWeights(BaseModel):
    """Weights of the four loss terms of arXiv:2111.04628; 0 leaves a term out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    real_fake: float = Field(3.0, ge=0, description="binary cross-entropy of real against fake")
    energy: float = Field(0.1, ge=0, description="percentage error of the primary energy")
    angle: float = Field(25.0, ge=0, description="absolute error of the measured angle, rad")
    ecal_sum: float = Field(0.1, ge=0, description="percentage error of the sum over all cells")


class Preset(BaseModel):
    """Everything that defines a model but its data: the defaults are the published 3DGAN."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    preset: str = Field("paper", description="paper, mini, fixed25 or smoke")
    networks: Literal["paper", "mini", "fixed25", "smoke"] = Field(
        "paper", description="architecture tables of cloudgan/models/architectures.py"
    )
    image_shape: tuple[int, int, int] = Field(
        (51, 51, 25), description="cells in x, y and depth; larger showers are cut to the centre"
    )
    latent_size: int = Field(256, gt=3, description="length of the generator's input")
    noise_channels: int = Field(
        0, ge=0, description="normals per coarse cell of the generator, beside the latent vector"
    )
    condition: Literal["concatenate", "multiply"] = Field(
        "concatenate",
        description="latent = [energy/100, angle, normals], or normals times energy/100",
    )
    image_scale: float = Field(50.0, gt=0, description="cells in GeV are multiplied by this")
    image_power: float = Field(0.85, gt=0, le=1, description="then raised to this power")
    loss_weights: LossWeights = LossWeights()
    optimizer: Literal["rmsprop", "adam"] = "rmsprop"
    learning_rate: float = Field(1e-3, gt=0)
    adam_betas: tuple[float, float] = Field((0.5, 0.99), description="used by adam only")
    generator_updates: int = Field(2, ge=1, description="generator updates per batch")
    label_flip_fraction: float = Field(0.05, ge=0, lt=0.5)
    label_flips: Literal["drawn", "frozen"] = Field(
        "drawn",
        description="drawn anew at each step, or for ever those of step 0 as in the published code",
    )
    dropout: float = Field(0.2, ge=0, lt=1)
    batch_norm_momentum: float = Field(0.99, gt=0, lt=1)
    batch_norm_epsilon: float = Field(1e-6, gt=0)
    energy_scaled_output: bool = Field(
        False, description="generator output times (energy/100) ** image_power"
    )
    calibrated_output: bool = Field(
        False, description="one constant, measured on training showers, makes the mean sum right"
    )
    output_activation: Literal["relu", "squared_relu"] = "relu"
    longitudinal_weight: float = Field(
        0.0, ge=0, description="weight of |batch mean of layer energy / E - training mean|"
    )
    shape_weight: float = Field(
        0.0,
        ge=0,
        description="weight of the energy score of generated shapes: layers, columns, rings, hits",
    )
    generator_average: float = Field(
        0.0, ge=0, lt=1, description="decay of the averaged generator used to generate; 0 is off"
    )

    @property
    def has_angle(self) -> bool:
        """Whether the networks know an angle at all."""
        return self.condition == "concatenate"


_MINI = Preset(
    preset="mini",
    networks="mini",
    image_shape=(17, 17, 25),
    latent_size=64,  # with 256 the first layer is 2.2 million numbers and a fifth of the step
    optimizer="adam",
    batch_norm_momentum=0.9,
    energy_scaled_output=True,
    calibrated_output=True,
    output_activation="squared_relu",
    longitudinal_weight=20.0,
    generator_average=0.99,
)

PRESETS: dict[str, Preset] = {
    # arXiv:2111.04628 and the authors' public code, channels last.
    "paper": Preset(),
    # For laptops and the demo: central 17 x 17 full-size cells, 98.5 % of the energy.
    "mini": _MINI,
    # Does every thing mini does, in milliseconds, and learns little: for drills and tests.
    "smoke": _MINI.model_copy(
        update={"preset": "smoke", "networks": "smoke", "image_shape": (9, 9, 25)}
    ),
    # The fixed-angle predecessor (25 x 25 x 25 cells, energy only) in the same authors' code.
    "fixed25": Preset(
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
}


def find_preset(name: str) -> Preset:
    """Returns the preset called `name`.

    Raises:
        UnknownNameError: There is none; the message has the nearest.
    """
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return PRESETS[name]
