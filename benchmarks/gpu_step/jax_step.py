"""One adversarial step as a pure function for JAX: the mathematics of `cloudgan.training.step`.

Shapes: B is the batch; image (B, X, Y, Z, 1) of powered cells; energy/100, angle in rad and sum in
scaled GeV are (B, 1). One device only, so nothing is reduced over replicas.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import keras

from cloudgan.models import losses
from cloudgan.models.networks import build_discriminator, build_generator

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from cloudgan.models.layers import MaskSource, StageBuilder
    from cloudgan.schema.presets import Preset

REAL, FAKE, GENERATOR = 0, 1, 5  # as cloudgan.training.rng.Call counts the passes
Batch = dict[str, Any]


class Rng(Protocol):
    """What a step draws; dropout asks it for `keep`, as `cloudgan.models.layers.MaskSource`."""

    def at(self, key: Any, call: int) -> AbstractContextManager[None]:
        """Draws inside belong to pass `call` of the step whose key this is."""

    def normal(self, rows: int, per_row: int) -> Any:
        """Returns standard normals (rows, per_row)."""

    def bernoulli(self, probability: float, rows: int) -> Any:
        """Returns booleans (rows, 1), True with `probability`."""


class Networks(NamedTuple):
    """Both networks and their optimisers; their numbers live in a `State`."""

    generator: keras.Model
    discriminator: keras.Model
    generator_optimizer: keras.Optimizer
    discriminator_optimizer: keras.Optimizer


class State(NamedTuple):
    """All that a step changes; `ema_generator` is empty where the preset has none."""

    generator: list[Any]
    generator_statistics: list[Any]
    generator_slots: list[Any]
    discriminator: list[Any]
    discriminator_statistics: list[Any]
    discriminator_slots: list[Any]
    ema_generator: list[Any]


def build_networks(
    preset: Preset, masks: MaskSource, stages: StageBuilder, policy: str, *, seed: int = 0
) -> Networks:
    """Builds what `cloudgan.training.gan.build_gan` does, by one conv_impl.

    Args:
        preset: What to build.
        masks: Where dropout masks come from.
        stages: How the layers compute.
        policy: Keras' name of a precision, such as ``mixed_bfloat16``.
        seed: Of the initial weights.
    """
    keras.config.set_dtype_policy(policy)
    seeds = random.Random(seed)
    generator = build_generator(preset, seeds=seeds, stages=stages)
    discriminator = build_discriminator(preset, masks, seeds=seeds, stages=stages)
    optimizers = [_optimizer(preset) for _ in range(2)]
    for optimizer, network in zip(optimizers, (generator, discriminator), strict=True):
        optimizer.build(network.trainable_variables)
    return Networks(generator, discriminator, *optimizers)


def first_state(networks: Networks, preset: Preset) -> State:
    """Returns the numbers that the networks were built with."""
    generator = _values(networks.generator.trainable_variables)
    return State(
        generator,
        _values(networks.generator.non_trainable_variables),
        _values(networks.generator_optimizer.variables),
        _values(networks.discriminator.trainable_variables),
        _values(networks.discriminator.non_trainable_variables),
        _values(networks.discriminator_optimizer.variables),
        list(generator) if preset.ema_decay else [],
    )


class JaxStep:
    """Updates the discriminator on real and on fake showers, then the generator twice."""

    def __init__(
        self, networks: Networks, preset: Preset, rng: Rng, layer_target: Any = None
    ) -> None:
        """Collects what a step needs.

        Args:
            networks: Built for this preset.
            preset: Losses and shapes.
            rng: Every random number; the one that the networks take their masks from.
            layer_target: Mean over the training showers of layer energy over primary energy, (Z,);
                needed where the preset has a longitudinal term.

        Raises:
            ValueError: The preset has a shape loss or noise for each cell, which this step has not.
        """
        if preset.loss_weights["shape"] or preset.noise_channels:
            raise ValueError("the JAX step supports neither the shape loss nor noise_channels")
        self._networks, self._preset, self._rng = networks, preset, rng
        self._layer_target = layer_target

    def __call__(self, state: State, batch: Batch, key: Any) -> tuple[State, Any]:
        """Returns the new state and the mean losses, as those of `GanStep`."""
        with self._rng.at(key, FAKE):
            fake, _ = self._networks.generator.stateless_call(
                state.generator, state.generator_statistics, self._latent(batch), training=False
            )
        discriminate = self._update_discriminator
        state, real = discriminate(state, batch, batch["image"], label=1.0, key=key, call=REAL)
        state, faked = discriminate(state, batch, fake, label=0.0, key=key, call=FAKE)
        rows = []
        for number in range(self._preset.generator_updates):
            state, row = self._update_generator(state, batch, key, GENERATOR + number)
            rows.append(row)
        return self._averaged(state), jnp.stack([real, faked, sum(rows) / len(rows)])

    def generate(self, state: State, latent: Any) -> tuple[Any, list[Any]]:
        """Generates while training: images, and the new statistics."""
        return self._networks.generator.stateless_call(
            state.generator, state.generator_statistics, latent, training=True
        )

    def discriminate(self, state: State, image: Any) -> tuple[list[Any], list[Any]]:
        """Discriminates while training: outputs, and the new statistics."""
        return self._networks.discriminator.stateless_call(
            state.discriminator, state.discriminator_statistics, image, training=True
        )

    def _update_discriminator(
        self, state: State, batch: Batch, image: Any, *, label: float, key: Any, call: int
    ) -> tuple[State, Any]:
        def loss(weights: list[Any]) -> tuple[Any, tuple[Any, list[Any]]]:
            outputs, statistics = self.discriminate(state._replace(discriminator=weights), image)
            parts, total = self._parts(batch, labels, outputs)
            return total, (parts, statistics)

        with self._rng.at(key, call):
            labels = self._flipped(label, batch["energy"])
            (_, (parts, statistics)), gradients = jax.value_and_grad(loss, has_aux=True)(
                state.discriminator
            )
        weights, slots = self._networks.discriminator_optimizer.stateless_apply(
            state.discriminator_slots, gradients, state.discriminator
        )
        state = state._replace(discriminator=weights, discriminator_slots=slots)
        return state._replace(discriminator_statistics=statistics), parts

    def _update_generator(
        self, state: State, batch: Batch, key: Any, call: int
    ) -> tuple[State, Any]:
        def loss(weights: list[Any]) -> tuple[Any, tuple[Any, list[Any], list[Any]]]:
            fake, own = self.generate(state._replace(generator=weights), latent)
            outputs, others = self.discriminate(state, fake)
            ones = jnp.ones_like(batch["energy"])
            parts, total = self._parts(batch, ones, outputs, fake)
            return total, (parts, own, others)

        with self._rng.at(key, call):
            latent = self._latent(batch)
            (_, (parts, own, others)), gradients = jax.value_and_grad(loss, has_aux=True)(
                state.generator
            )
        weights, slots = self._networks.generator_optimizer.stateless_apply(
            state.generator_slots, gradients, state.generator
        )
        state = state._replace(generator=weights, generator_slots=slots)
        return state._replace(generator_statistics=own, discriminator_statistics=others), parts

    def _parts(
        self, batch: Batch, labels: Any, outputs: list[Any], image: Any = None
    ) -> tuple[Any, Any]:
        """Returns the columns of one row of losses, and the total to differentiate."""
        values, total = losses.weighted_losses(
            losses.LossInputs(
                self._preset,
                labels,
                batch["energy"],
                batch["angle"],
                batch["ecal"],
                outputs,
                len(labels),
                image=image,
                batch_mean=lambda each: jnp.mean(each, 0),
                layer_target=self._layer_target,
            )
        )
        return jnp.stack([*values, total]), total

    def _latent(self, batch: Batch) -> Any:
        energy, size = batch["energy"], self._preset.latent_size
        if self._preset.condition == "multiply":
            return energy * self._rng.normal(len(energy), size).astype(energy.dtype)
        normal = self._rng.normal(len(energy), size - 2).astype(energy.dtype)
        return jnp.concatenate([energy, batch["angle"], normal], 1)

    def _flipped(self, label: float, energy: Any) -> Any:
        labels = jnp.full(energy.shape, label, energy.dtype)
        if not self._preset.label_flip_fraction:
            return labels
        flips = self._rng.bernoulli(self._preset.label_flip_fraction, len(energy))
        return jnp.where(flips, 1 - labels, labels)

    def _averaged(self, state: State) -> State:
        share = 1 - self._preset.ema_decay
        pairs = (
            zip(state.ema_generator, state.generator, strict=True) if state.ema_generator else ()
        )
        return state._replace(ema_generator=[old + (new - old) * share for old, new in pairs])


def _optimizer(preset: Preset) -> keras.Optimizer:
    if preset.optimizer == "rmsprop":
        return keras.optimizers.RMSprop(preset.learning_rate)
    beta_1, beta_2 = preset.adam_betas
    return keras.optimizers.Adam(preset.learning_rate, beta_1=beta_1, beta_2=beta_2)


def _values(variables: list[keras.Variable]) -> list[Any]:
    return [variable.value for variable in variables]
