"""One adversarial step as a pure function for JAX: the mathematics of `cloudgan.training.step`.

Shapes: B is the batch of a replica; image (B, X, Y, Z, 1) of powered cells; energy/100, angle in rad and sum
in scaled GeV are (B, 1). With several replicas the step runs inside `jax.shard_map` over the axis `REPLICAS`
without checks of replication: losses are shares of the global mean, and sums over replicas are explicit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from cloudgan.models import losses
from cloudgan.models.differentiable_observables import shower_shape
from cloudgan.models.networks import latent_of
from cloudgan.training.draws import Call
from cloudgan.training.gan import Gan, batch_norm_statistics

if TYPE_CHECKING:
    from cloudgan.schema.presets import Preset
    from cloudgan.training.draws import Draws

REPLICAS = "replicas"
Batch = dict[str, Any]


class State(NamedTuple):
    """All that a step changes; `ema_generator` is empty where the preset has none."""

    generator: list[Any]
    generator_statistics: list[Any]
    generator_slots: list[Any]
    discriminator: list[Any]
    discriminator_statistics: list[Any]
    discriminator_slots: list[Any]
    ema_generator: list[Any]


def variables_of(gan: Gan) -> State:
    """Returns the Keras variables of a state, in its order."""
    ema = gan.ema_generator
    return State(
        gan.generator.trainable_variables,
        gan.generator.non_trainable_variables,
        gan.generator_optimizer.variables,
        gan.discriminator.trainable_variables,
        gan.discriminator.non_trainable_variables,
        gan.discriminator_optimizer.variables,
        ema.trainable_variables if ema else [],
    )


def first_state(gan: Gan) -> State:
    """Returns the numbers that the networks have now."""
    parts = ([variable.value for variable in part] for part in variables_of(gan))
    return State(*parts)


class Place(NamedTuple):
    """Where a step stands: its number, and the first row of this replica in the global batch."""

    step: Any
    first_row: Any


class JaxStep:
    """Updates the discriminator on real and on fake showers, then the generator twice."""

    def __init__(
        self,
        gan: Gan,
        preset: Preset,
        draws: Draws,
        *,
        global_batch_size: int,
        replicas: int = 1,
        layer_target: Any = None,
        shape_scale: Any = None,
    ) -> None:
        """Collects what a step needs.

        Args:
            gan: Built for this preset; its variables are not changed.
            preset: Losses and shapes.
            draws: Every random number; the one that the networks take their masks from.
            global_batch_size: Showers per step of all replicas together.
            replicas: Of the global batch.
            layer_target: Mean over the training showers of layer energy over primary energy, (Z,);
                needed where the preset has a longitudinal term.
            shape_scale: Spread of each feature of a shower's shape at given energy and angle, (F,);
                needed where the preset has a shape term.
        """
        self._gan, self._preset, self._draws = gan, preset, draws
        self._global_batch_size, self._replicas = global_batch_size, replicas
        self._layer_target, self._shape_scale = layer_target, shape_scale
        self._averages = [
            {id(weight) for weight in batch_norm_statistics(network)}
            for network in (gan.generator, gan.discriminator)
        ]

    def __call__(self, state: State, batch: Batch, place: Place) -> tuple[State, Any]:
        """Returns the new state and the global mean losses, as those of `GanStep`."""
        with self._draws.at(*place, Call.FAKE):
            fake = self._infer(state.generator, state, self._latent(batch))
        discriminate = self._update_discriminator
        state, real = discriminate(state, batch, batch["image"], place, label=1.0, call=Call.REAL)
        state, faked = discriminate(state, batch, fake, place, label=0.0, call=Call.FAKE)
        target, other = self._features(batch["image"], batch), self._features(fake, batch)
        rows = []
        for number in range(self._preset.generator_updates):
            call = Call.GENERATOR + number
            state, row, other = self._update_generator(state, batch, place, call, (target, other))
            rows.append(row)
        table = jnp.stack([real, faked, sum(rows) / len(rows)])
        return self._averaged(self._with_shared_statistics(state)), self._sum(table)

    def evaluate(self, state: State, batch: Batch, place: Place) -> Any:
        """Returns the losses on held-out showers, as those of `GanStep.evaluate`."""
        weights = state.ema_generator or state.generator
        with self._draws.at(*place, Call.TEST):
            fake = self._infer(weights, state, self._latent(batch))
        other = None
        if self._preset.loss_weights["shape"]:
            with self._draws.at(*place, Call.FAKE):
                image = self._infer(weights, state, self._latent(batch))
            other = self._features(image, batch)
        features = (self._features(batch["image"], batch), self._features(fake, batch), other)
        ones = jnp.ones_like(batch["energy"])
        of_real, of_fake = (self._judge(state, image) for image in (batch["image"], fake))
        rows = (
            self._losses(batch, ones, of_real),
            self._losses(batch, jnp.zeros_like(ones), of_fake),
            self._losses(batch, ones, of_fake, image=fake, features=features),
        )
        return self._sum(jnp.stack([row for row, _ in rows]))

    def generate(self, state: State, latent: Any) -> tuple[Any, list[Any]]:
        """Generates while training: images, and the new statistics."""
        return self._gan.generator.stateless_call(
            state.generator, state.generator_statistics, latent, training=True
        )

    def discriminate(self, state: State, image: Any) -> tuple[list[Any], list[Any]]:
        """Discriminates while training: outputs, and the new statistics."""
        return self._gan.discriminator.stateless_call(
            state.discriminator, state.discriminator_statistics, image, training=True
        )

    def _infer(self, weights: list[Any], state: State, latent: Any) -> Any:
        image, _ = self._gan.generator.stateless_call(
            weights, state.generator_statistics, latent, training=False
        )
        return image

    def _judge(self, state: State, image: Any) -> list[Any]:
        outputs, _ = self._gan.discriminator.stateless_call(
            state.discriminator, state.discriminator_statistics, image, training=False
        )
        return outputs

    def _update_discriminator(
        self, state: State, batch: Batch, image: Any, place: Place, *, label: float, call: int
    ) -> tuple[State, Any]:
        def loss(weights: list[Any]) -> tuple[Any, tuple[Any, list[Any]]]:
            outputs, statistics = self.discriminate(state._replace(discriminator=weights), image)
            row, total = self._losses(batch, labels, outputs)
            return total, (row, statistics)

        with self._draws.at(*place, call):
            labels = self._flipped(label, batch["energy"])
            (_, (row, statistics)), gradients = jax.value_and_grad(loss, has_aux=True)(
                state.discriminator
            )
        weights, slots = self._gan.discriminator_optimizer.stateless_apply(
            state.discriminator_slots, self._in_one_bucket(gradients), state.discriminator
        )
        state = state._replace(discriminator=weights, discriminator_slots=slots)
        return state._replace(discriminator_statistics=statistics), row

    def _update_generator(
        self, state: State, batch: Batch, place: Place, call: int, features: tuple[Any, Any]
    ) -> tuple[State, Any, Any]:
        """Returns the new state, the losses and the shape features of the generated showers.

        `features` are those of the real showers, and of others generated for the same conditions.
        """

        def loss(weights: list[Any]) -> tuple[Any, tuple[Any, Any, list[Any], list[Any]]]:
            fake, statistics = self.generate(state._replace(generator=weights), latent)
            outputs, others = self.discriminate(state, fake)
            ones, own = jnp.ones_like(batch["energy"]), self._features(fake, batch)
            three = (features[0], own, features[1])
            row, total = self._losses(batch, ones, outputs, image=fake, features=three)
            return total, (row, own, statistics, others)

        with self._draws.at(*place, call):
            latent = self._latent(batch)
            (_, (row, own, statistics, others)), gradients = jax.value_and_grad(loss, has_aux=True)(
                state.generator
            )
        weights, slots = self._gan.generator_optimizer.stateless_apply(
            state.generator_slots, self._in_one_bucket(gradients), state.generator
        )
        state = state._replace(generator=weights, generator_slots=slots)
        state = state._replace(generator_statistics=statistics, discriminator_statistics=others)
        return state, row, own

    def _losses(
        self, batch: Batch, labels: Any, outputs: list[Any], **more: Any
    ) -> tuple[Any, Any]:
        """Returns one row of `loss_columns()`, and the total to differentiate."""
        values, total = losses.weighted_losses(
            losses.LossInputs(
                self._preset,
                labels,
                batch["energy"],
                batch["angle"],
                batch["ecal"],
                outputs,
                self._global_batch_size,
                batch_mean=lambda each: self._sum(jnp.sum(each, 0) / self._global_batch_size),
                replicas=self._replicas,
                layer_target=self._layer_target,
                feature_scale=self._shape_scale,
                **more,
            )
        )
        return jnp.stack([*values, total]), total

    def _features(self, image: Any, batch: Batch) -> Any:
        """Shape features, (B, F); None without a shape term."""
        if not self._preset.loss_weights["shape"]:
            return None
        return shower_shape(self._preset, image, batch["energy"])

    def _latent(self, batch: Batch) -> Any:
        return latent_of(self._preset, self._draws, batch["energy"], batch["angle"])

    def _flipped(self, label: float, energy: Any) -> Any:
        labels = jnp.full(energy.shape, label, energy.dtype)
        if not self._preset.label_flip_fraction:
            return labels
        step = 0 if self._preset.label_flips == "frozen" else None
        flips = self._draws.bernoulli(self._preset.label_flip_fraction, len(energy), step=step)
        return jnp.where(flips, 1 - labels, labels)

    def _sum(self, values: Any) -> Any:
        return jax.lax.psum(values, REPLICAS) if self._replicas > 1 else values

    def _in_one_bucket(self, gradients: list[Any]) -> list[Any]:
        """Sums gradients over the replicas in one collective."""
        if self._replicas == 1:
            return gradients
        bucket, parts = ravel_pytree(gradients)
        return parts(self._sum(bucket))

    def _with_shared_statistics(self, state: State) -> State:
        """Averages batch norm statistics over the replicas, as `GanStep` does."""
        if self._replicas == 1:
            return state
        networks = (
            (self._gan.generator, state.generator_statistics),
            (self._gan.discriminator, state.discriminator_statistics),
        )
        means = [
            [
                jax.lax.pmean(value, REPLICAS) if id(weight) in averages else value
                for weight, value in zip(network.non_trainable_variables, values, strict=True)
            ]
            for (network, values), averages in zip(networks, self._averages, strict=True)
        ]
        return state._replace(generator_statistics=means[0], discriminator_statistics=means[1])

    def _averaged(self, state: State) -> State:
        share = 1 - self._preset.ema_decay
        pairs = (
            zip(state.ema_generator, state.generator, strict=True) if state.ema_generator else ()
        )
        return state._replace(ema_generator=[old + (new - old) * share for old, new in pairs])
