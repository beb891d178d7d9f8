"""The networks of a run with their optimisers and the averaged generator: all that is learned."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras

from cloudgan.models.networks import build_discriminator, build_generator
from cloudgan.training.formulation import make_kernels
from cloudgan.training.precision import scaled

if TYPE_CHECKING:
    from cloudgan.core.presets import Preset
    from cloudgan.training.draws import Draws

POLICIES = {
    "float32": "float32",
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
    "float64": "float64",
}
"""Keras' name for each precision: with those of two bytes the weights stay float32."""


@dataclass(frozen=True)
class Gan:
    """Two networks that learn, and what they need for it.

    Attributes:
        generator: Latent to image.
        discriminator: Image to real/fake, energy, angle, sum.
        generator_optimizer: Built, so that its slots exist before the first step.
        discriminator_optimizer: Likewise.
        average: The generator's exponential average over steps; None where the preset has none.
    """

    generator: keras.Model
    discriminator: keras.Model
    generator_optimizer: keras.Optimizer
    discriminator_optimizer: keras.Optimizer
    average: keras.Model | None

    @property
    def generates(self) -> keras.Model:
        """The generator that showers are made with."""
        return self.average or self.generator

    def begin_with(self, weights: list[Any]) -> None:
        """Gives the generator, and its average, these weights."""
        self.generator.set_weights(weights)
        if self.average:
            self.average.set_weights(weights)

    def variables(self) -> dict[str, keras.Variable]:
        """Everything a checkpoint holds, by a name that is the same in every process."""
        parts: dict[str, Any] = {
            "generator": self.generator.weights,
            "discriminator": self.discriminator.weights,
            "generator_optimizer": self.generator_optimizer.variables,
            "discriminator_optimizer": self.discriminator_optimizer.variables,
            "average": self.average.weights if self.average else [],
        }
        return {
            f"{part}/{number:03d}/{variable.name}": variable
            for part, variables in parts.items()
            for number, variable in enumerate(variables)
        }


def build_gan(
    preset: Preset,
    draws: Draws,
    *,
    seed: int,
    precision: str,
    synchronized: bool,
    rates: Rates,
    formulation: str = "published",
) -> Gan:
    """Builds everything; call it inside the strategy's scope.

    Keras refuses to make optimiser slots inside a traced function, so they are made here.
    """
    seeds = random.Random(seed)
    keras.config.set_dtype_policy(POLICIES[precision])
    form: dict[str, Any] = {"synchronized": synchronized, "kernels": make_kernels(formulation)}
    generator = build_generator(preset, seeds=seeds, **form)
    discriminator = build_discriminator(preset, draws, seeds=seeds, **form)
    average = None
    if preset.generator_average:
        average = build_generator(preset, **form)
        average.set_weights(generator.get_weights())
    generator_optimizer = scaled(_optimizer(preset, rates.generator), precision)
    discriminator_optimizer = scaled(_optimizer(preset, rates.discriminator), precision)
    generator_optimizer.build(generator.trainable_variables)
    discriminator_optimizer.build(discriminator.trainable_variables)
    return Gan(generator, discriminator, generator_optimizer, discriminator_optimizer, average)


@dataclass(frozen=True)
class Rates:
    """Learning rates of the two networks: a number or a Keras schedule of their own updates."""

    generator: Any
    discriminator: Any


def _optimizer(preset: Preset, rate: Any) -> keras.Optimizer:
    if preset.optimizer == "rmsprop":
        return keras.optimizers.RMSprop(rate)
    beta_1, beta_2 = preset.adam_betas
    return keras.optimizers.Adam(rate, beta_1=beta_1, beta_2=beta_2)
