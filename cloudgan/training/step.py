"""One adversarial training step per replica; the only module that computes gradients.

Shapes: B is the batch per replica; image (B, X, Y, Z, 1) of powered cells; energy/100, angle in
rad and sum in scaled GeV are (B, 1); step and first_row are int64 (1,). Losses are sums over the
replica divided by the *global* batch, because Keras sums gradients over the replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import tensorflow as tf

from cloudgan.models import losses
from cloudgan.models.differentiable_observables import shower_shape
from cloudgan.models.networks import latent_of
from cloudgan.training.draws import Call
from cloudgan.training.gan import Gan, batch_norm_statistics
from cloudgan.training.update import update

if TYPE_CHECKING:
    import keras
    import numpy as np

    from cloudgan.schema.presets import Preset
    from cloudgan.training.rng import Rng

Result = TypeVar("Result")
Adversarial = Callable[[Any, Any], Any]
"""Maps labels and outputs of a discriminator, (B, 1) each, to losses, (B, 1)."""


class Batch(TypedDict):
    """One element of the input pipeline, for one replica."""

    image: tf.Tensor
    energy: tf.Tensor
    angle: tf.Tensor
    ecal: tf.Tensor
    step: tf.Tensor
    first_row: tf.Tensor


class GanStep:
    """Updates the discriminator on real and on fake showers, then the generator twice."""

    def __init__(
        self,
        gan: Gan,
        preset: Preset,
        rng: Rng,
        *,
        global_batch_size: int,
        layer_target: np.ndarray[Any, Any] | None = None,
        shape_scale: np.ndarray[Any, Any] | None = None,
    ) -> None:
        """Creates a step.

        Args:
            gan: Networks and optimisers.
            preset: Losses and shapes.
            rng: Source of all random numbers.
            global_batch_size: Showers per step of all replicas together.
            layer_target: Mean over the training showers of layer energy over primary energy, (Z,);
                needed for a longitudinal loss.
            shape_scale: Spread of each feature of a shower's shape at given energy and angle, (F,);
                needed for a shape loss.
        """
        self._gan, self._preset, self._rng = gan, preset, rng
        self._global_batch_size = global_batch_size
        self._layer_target, self._shape_scale = layer_target, shape_scale

    def __call__(self, batch: Batch) -> tf.Tensor:
        """Runs the step in replica context.

        Returns:
            This replica's share of the global mean losses, rows `PASSES`, columns `loss_columns()`; the
            generator's row is the mean of its updates.
        """
        batch = self._in_own_precision(batch)
        fake = self.fake(batch)
        real, faked = self.train_discriminator(batch, fake)
        generator = self.train_generator(batch, fake, averaged=self._statistics())
        self.update_ema_generator()
        return tf.stack([real, faked, generator])

    def fake(self, batch: Batch) -> tf.Tensor:
        """Returns showers (B, X, Y, Z, 1) of the trained generator, in inference mode."""
        with self._rng.at(batch["step"][0], batch["first_row"][0], Call.FAKE):
            return self._gan.generator(self._latent(batch), training=False)

    def train_discriminator(
        self, batch: Batch, fake: tf.Tensor, adversarial: Adversarial = losses.binary_crossentropy
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Updates the discriminator on real, then on fake showers; returns a row of losses of each."""
        real = self._update_discriminator(
            batch, batch["image"], adversarial, label=1.0, call=Call.REAL
        )
        faked = self._update_discriminator(batch, fake, adversarial, label=0.0, call=Call.FAKE)
        return real, faked

    def train_generator(
        self,
        batch: Batch,
        fake: tf.Tensor,
        adversarial: Adversarial = losses.binary_crossentropy,
        averaged: Sequence[keras.Variable] = (),
    ) -> tf.Tensor:
        """Updates the generator as often as the preset says, but not its average.

        Args:
            batch: Real showers.
            fake: Generated for the same conditions; read with a shape loss only.
            adversarial: Loss of real against fake, see `LossInputs`.
            averaged: Variables that get their mean over the replicas in the last update.

        Returns:
            Mean row of losses of the updates.
        """
        updates = self._preset.generator_updates
        features = self._features(batch["image"], batch), self._features(fake, batch)
        rows = []
        for number in range(updates):
            row, own = self._update_generator(
                batch,
                Call.GENERATOR + number,
                features,
                adversarial,
                averaged if number == updates - 1 else (),
            )
            rows.append(row)
            features = features[0], own
        return tf.add_n(rows) / updates

    def evaluate(self, batch: Batch) -> tf.Tensor:
        """Returns the losses on held-out showers: inference mode, no flips, no update; rows as a step's."""
        batch = self._in_own_precision(batch)
        return self.judge(batch, *self.sample(batch))

    def sample(self, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns showers of the generator for inference, and the shape features of others."""
        with self._rng.at(batch["step"][0], batch["first_row"][0], Call.TEST):
            fake = self._gan.inference_generator(self._latent(batch), training=False)
        return fake, self._other_features(batch)

    def judge(self, batch: Batch, fake: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        """Returns the losses of showers that `sample` returned, with the discriminator as it is."""
        return tf.stack([self.judge_real(batch), *self.judge_fake(batch, fake, other)])

    def judge_real(self, batch: Batch) -> tf.Tensor:
        """Returns the discriminator's row of losses on real showers."""
        outputs = self._gan.discriminator(batch["image"], training=False)
        return self._losses(batch, tf.ones_like(batch["energy"]), outputs)[0]

    def judge_fake(
        self, batch: Batch, fake: tf.Tensor, other: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the rows of discriminator and generator on showers that `sample` returned."""
        outputs = self._gan.discriminator(fake, training=False)
        features = (self._features(batch["image"], batch), self._features(fake, batch), other)
        ones = tf.ones_like(batch["energy"])
        of_discriminator, _ = self._losses(batch, tf.zeros_like(ones), outputs)
        of_generator, _ = self._losses(batch, ones, outputs, image=fake, features=features)
        return of_discriminator, of_generator

    @property
    def loss_dtype(self) -> str:
        """Type of the losses: float32, or float64 with float64 weights."""
        return str(self._gan.generator.weights[0].dtype)

    def _in_own_precision(self, batch: Batch) -> Batch:
        names = ("image", "energy", "angle", "ecal")
        return batch | {name: tf.cast(batch[name], self.loss_dtype) for name in names}  # type: ignore[return-value, literal-required]

    def _update_discriminator(
        self, batch: Batch, image: tf.Tensor, adversarial: Adversarial, *, label: float, call: int
    ) -> tf.Tensor:
        with self._rng.at(batch["step"][0], batch["first_row"][0], call):
            labels = self._flipped(label, batch)

            def losses() -> tuple[tf.Tensor, tf.Tensor]:
                outputs = self._gan.discriminator(image, training=True)
                return self._losses(batch, labels, outputs, adversarial=adversarial)

            return descend(self._gan.discriminator, self._gan.discriminator_optimizer, losses)

    def _update_generator(
        self,
        batch: Batch,
        call: int,
        features: tuple[tf.Tensor, tf.Tensor],
        adversarial: Adversarial,
        averaged: Sequence[keras.Variable],
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Updates the generator; returns the losses and the shape features of its showers.

        Args:
            batch: Real showers.
            call: Position of the random numbers.
            features: Shape features of real showers, and of others generated for the same conditions.
            adversarial: Loss of real against fake.
            averaged: Variables that get their mean over the replicas.
        """
        with self._rng.at(batch["step"][0], batch["first_row"][0], call):
            latent = self._latent(batch)

            def losses() -> tuple[tuple[tf.Tensor, tf.Tensor], tf.Tensor]:
                fake = self._gan.generator(latent, training=True)
                outputs = self._gan.discriminator(fake, training=True)
                ones = tf.ones_like(batch["energy"])
                own = self._features(fake, batch)
                row, total = self._losses(
                    batch,
                    ones,
                    outputs,
                    image=fake,
                    features=(features[0], own, features[1]),
                    adversarial=adversarial,
                )
                return (row, own), total

            return descend(self._gan.generator, self._gan.generator_optimizer, losses, averaged)

    def _losses(
        self, batch: Batch, labels: tf.Tensor, outputs: list[tf.Tensor], **more: Any
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns one row of `loss_columns()`, and the total to differentiate.

        Args:
            batch: Targets.
            labels: Of real against fake.
            outputs: Of the discriminator.
            more: `image` and `features` of `LossInputs`, in the generator's pass, and `adversarial`.
        """
        context = tf.distribute.get_replica_context()
        values, total = losses.weighted_losses(
            losses.LossInputs(
                self._preset,
                labels,
                batch["energy"],
                batch["angle"],
                batch["ecal"],
                outputs,
                self._global_batch_size,
                batch_mean=self._batch_mean,
                replicas=context.num_replicas_in_sync,
                layer_target=self._layer_target,
                feature_scale=self._shape_scale,
                **more,
            )
        )
        return tf.stack([*values, total]), total

    def _batch_mean(self, values: tf.Tensor) -> tf.Tensor:
        """Mean over the global batch, the same on every replica."""
        mean = tf.reduce_sum(values, 0) / self._global_batch_size
        context = tf.distribute.get_replica_context()
        replicas = context.num_replicas_in_sync
        if replicas == 1:
            return mean

        @tf.custom_gradient
        def shared(own: tf.Tensor) -> Any:
            # The loss of the mean has the same slope on every replica: their sum needs no collective.
            total = context.all_reduce(tf.distribute.ReduceOp.SUM, own)
            return total, lambda slope: slope * replicas

        return shared(mean)

    def _features(self, image: tf.Tensor, batch: Batch) -> tf.Tensor:
        """Shape features, (B, F); a scalar 0 without a shape term."""
        if not self._preset.loss_weights["shape"]:
            return tf.zeros((), image.dtype)
        return shower_shape(self._preset, image, batch["energy"])

    def _other_features(self, batch: Batch) -> tf.Tensor:
        """Shape features of other generated showers with the batch's conditions."""
        if not self._preset.loss_weights["shape"]:
            return tf.zeros(())
        with self._rng.at(batch["step"][0], batch["first_row"][0], Call.FAKE):
            image = self._gan.inference_generator(self._latent(batch), training=False)
            return self._features(image, batch)

    def _latent(self, batch: Batch) -> tf.Tensor:
        return latent_of(self._preset, self._rng, batch["energy"], batch["angle"])

    def _flipped(self, label: float, batch: Batch) -> tf.Tensor:
        energy = batch["energy"]
        if not self._preset.label_flip_fraction:
            return tf.fill(energy.shape, tf.cast(label, energy.dtype))
        step = 0 if self._preset.label_flips == "frozen" else None
        flips = self._rng.bernoulli(self._preset.label_flip_fraction, energy.shape[0], step=step)
        return tf.where(flips, tf.cast(1 - label, energy.dtype), tf.cast(label, energy.dtype))

    def _statistics(self) -> list[keras.Variable]:
        """Returns the batch norm statistics, which the last update averages over the replicas.

        Keras keeps them per replica, so a checkpoint would hold those of the first one only.
        """
        if tf.distribute.get_replica_context().num_replicas_in_sync == 1:
            return []
        networks = (self._gan.generator, self._gan.discriminator)
        return [weight for network in networks for weight in batch_norm_statistics(network)]

    def update_ema_generator(self) -> None:
        """Updates the moving average of the generator.

        Only trained weights are averaged. Batch norm statistics are averages already: averaged again
        they lag, and the sum of the generated cells is too small for a thousand steps.
        """
        if self._gan.ema_generator is None:
            return
        share = 1 - self._preset.ema_decay
        pairs = zip(self._gan.ema_generator.weights, self._gan.generator.weights, strict=True)
        for ema_generator, weight in pairs:
            if weight.trainable:
                ema_generator.assign_add((weight - ema_generator) * share)
            else:
                ema_generator.assign(weight)


def descend(
    learner: keras.Model,
    optimizer: keras.Optimizer,
    losses: Callable[[], tuple[Result, tf.Tensor]],
    averaged: Sequence[keras.Variable] = (),
) -> Result:
    """Updates a network once, in replica context.

    Args:
        learner: Network whose trainable weights are updated.
        optimizer: Built with them.
        losses: Returns any result, and this replica's share of the loss; it calls the learner and its
            adversary.
        averaged: Variables that get their mean over the replicas.

    Returns:
        The result of `losses`.
    """
    with tf.GradientTape() as tape:
        result, loss = losses()
        loss = optimizer.scale_loss(loss)
    weights = learner.trainable_variables
    gradients = tape.gradient(loss, [weight.value for weight in weights])
    update(optimizer, weights, gradients, averaged)
    return result
