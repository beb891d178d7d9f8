"""One adversarial step, as every replica runs it: the only place where gradients are taken.

Shapes: B is the batch per replica; image (B, X, Y, Z, 1) of powered cells; energy/100, angle in
rad and sum in scaled GeV are (B, 1); step and first_row are int64 (1,). Losses are sums over the
replica divided by the *global* batch, because Keras sums gradients over the replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

import tensorflow as tf

from cloudgan import losses
from cloudgan.models.networks import latent_length
from cloudgan.models.shower_shape import shape_weights, shower_shape
from cloudgan.training.draws import Call
from cloudgan.training.update import reduced, update

if TYPE_CHECKING:
    import keras
    import numpy as np

    from cloudgan.core.presets import Preset
    from cloudgan.training.draws import Draws
    from cloudgan.training.gan import Gan

PASSES = ("discriminator_real", "discriminator_fake", "generator")
COLUMNS = (*losses.TERMS, "longitudinal", "shape", "total")


class Batch(TypedDict):
    """What the input pipeline hands to one replica."""

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
        draws: Draws,
        *,
        global_batch_size: int,
        layer_target: np.ndarray[Any, Any] | None = None,
        shape_scale: np.ndarray[Any, Any] | None = None,
    ) -> None:
        """Collects what a step needs.

        Args:
            gan: Networks and optimisers.
            preset: Losses and shapes.
            draws: Every random number.
            global_batch_size: Showers per step of all replicas together.
            layer_target: Mean over the training showers of layer energy over primary energy, (Z,);
                needed where the preset has a longitudinal term.
            shape_scale: Spread of each feature of a shower's shape at given energy and angle, (F,);
                needed where the preset has a shape term.
        """
        self._gan, self._preset, self._draws = gan, preset, draws
        self._global_batch_size = global_batch_size
        self._layer_target, self._shape_scale = layer_target, shape_scale

    def __call__(self, batch: Batch) -> tf.Tensor:
        """Runs the step in replica context.

        Returns:
            This replica's share of the global mean losses, rows `PASSES`, columns `COLUMNS`; the
            generator's row is the mean of its updates.
        """
        batch = self._in_own_precision(batch)
        with self._draws.at(batch["step"][0], batch["first_row"][0], Call.FAKE):
            fake = self._gan.generator(self._latent(batch), training=False)
        real = self._update_discriminator(batch, batch["image"], label=1.0, call=Call.REAL)
        faked = self._update_discriminator(batch, fake, label=0.0, call=Call.FAKE)
        updates = self._preset.generator_updates
        shapes = self._shape(batch["image"], batch), self._shape(fake, batch)
        generator = []
        for number in range(updates):
            parts, shape = self._update_generator(batch, Call.GENERATOR + number, shapes)
            generator.append(parts)
            shapes = shapes[0], shape
        self._share_statistics()
        self._update_average()
        return tf.stack([real, faked, tf.add_n(generator) / updates])

    def test(self, batch: Batch) -> tf.Tensor:
        """Losses on held-back showers: inference mode, no flips, no update; shaped as a step's."""
        batch = self._in_own_precision(batch)
        with self._draws.at(batch["step"][0], batch["first_row"][0], Call.TEST):
            fake = self._gan.generates(self._latent(batch), training=False)
            on_real = self._gan.discriminator(batch["image"], training=False)
            on_fake = self._gan.discriminator(fake, training=False)
        shapes = self._shape(batch["image"], batch), self._other_shape(batch)
        ones = tf.ones_like(batch["energy"])
        rows = [
            self._parts(batch, ones, on_real),
            self._parts(batch, tf.zeros_like(ones), on_fake),
            self._parts(
                batch, ones, on_fake, self._extras(fake, self._shape(fake, batch), shapes, batch)
            ),
        ]
        return tf.stack([row for row, _ in rows])

    @property
    def loss_dtype(self) -> str:
        """The type losses are summed in: float32, or float64 where weights are."""
        return str(self._gan.generator.weights[0].dtype)

    def _in_own_precision(self, batch: Batch) -> Batch:
        names = ("image", "energy", "angle", "ecal")
        return batch | {name: tf.cast(batch[name], self.loss_dtype) for name in names}  # type: ignore[return-value, literal-required]

    def _update_discriminator(
        self, batch: Batch, image: tf.Tensor, *, label: float, call: int
    ) -> tf.Tensor:
        with self._draws.at(batch["step"][0], batch["first_row"][0], call):
            labels = self._flipped(label, batch)
            with tf.GradientTape() as tape:
                outputs = self._gan.discriminator(image, training=True)
                parts, total = self._parts(batch, labels, outputs)
                total = self._gan.discriminator_optimizer.scale_loss(total)
        self._apply(tape, total, self._gan.discriminator, self._gan.discriminator_optimizer)
        return parts

    def _update_generator(
        self, batch: Batch, call: int, shapes: tuple[tf.Tensor, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Updates; returns the losses, and the shapes of what it generated.

        Args:
            batch: Real showers.
            call: Of the draws.
            shapes: Of real showers, and of others generated for the same conditions.
        """
        with self._draws.at(batch["step"][0], batch["first_row"][0], call):
            latent = self._latent(batch)
            with tf.GradientTape() as tape:
                fake = self._gan.generator(latent, training=True)
                outputs = self._gan.discriminator(fake, training=True)
                ones = tf.ones_like(batch["energy"])
                shape = self._shape(fake, batch)
                extras = self._extras(fake, shape, shapes, batch)
                parts, total = self._parts(batch, ones, outputs, extras)
                total = self._gan.generator_optimizer.scale_loss(total)
        self._apply(tape, total, self._gan.generator, self._gan.generator_optimizer)
        return parts, shape

    def _parts(
        self,
        batch: Batch,
        labels: tf.Tensor,
        outputs: list[tf.Tensor],
        extras: tuple[tf.Tensor, tf.Tensor] | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the columns of one row of losses, and the total to differentiate."""
        targets = labels, batch["energy"], batch["angle"], batch["ecal"]
        means = [
            tf.reduce_sum(term) / self._global_batch_size
            for term in losses.terms(self._preset, targets, outputs)
        ]
        total = tf.add_n(
            [w * mean for w, mean in zip(losses.weights(self._preset), means, strict=True)]
        )
        longitudinal, shape = extras or (tf.zeros_like(total), tf.zeros_like(total))
        total += self._preset.longitudinal_weight * longitudinal
        total += self._preset.shape_weight * shape
        return tf.stack([*means, longitudinal, shape, total]), total

    def _extras(
        self,
        fake: tf.Tensor,
        shape: tf.Tensor,
        shapes: tuple[tf.Tensor, tf.Tensor],
        batch: Batch,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The losses that are not published: longitudinal and shape."""
        longitudinal = self._longitudinal(fake, batch)
        if not self._preset.shape_weight:
            return longitudinal, tf.zeros_like(longitudinal)
        scale, weights = self._shape_scale, shape_weights(self._preset)
        units = [tf.constant(values, shape.dtype) for values in (scale, weights)]
        score = losses.shape_score(shapes[0], shape, shapes[1], *units)
        return longitudinal, tf.reduce_sum(score) / self._global_batch_size

    def _shape(self, image: tf.Tensor, batch: Batch) -> tf.Tensor:
        if not self._preset.shape_weight:
            return tf.zeros((), image.dtype)
        return shower_shape(self._preset, image, batch["energy"])

    def _other_shape(self, batch: Batch) -> tf.Tensor:
        """Of showers with the conditions of the batch and noise of their own."""
        if not self._preset.shape_weight:
            return tf.zeros(())
        with self._draws.at(batch["step"][0], batch["first_row"][0], Call.FAKE):
            return self._shape(self._gan.generates(self._latent(batch), training=False), batch)

    def _longitudinal(self, fake: tf.Tensor, batch: Batch) -> tf.Tensor:
        """Sum over layers of |mean over the global batch - training mean|, this replica's share."""
        if self._layer_target is None or not self._preset.longitudinal_weight:
            return tf.zeros((), fake.dtype)
        layer = losses.layer_energy(self._preset, fake, batch["energy"])
        mean = tf.reduce_sum(layer, 0) / self._global_batch_size
        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync > 1:
            mean = context.all_reduce(tf.distribute.ReduceOp.SUM, mean)
        target = tf.constant(self._layer_target * self._preset.image_scale, mean.dtype)
        return tf.reduce_sum(tf.abs(mean - target)) / context.num_replicas_in_sync

    def _latent(self, batch: Batch) -> tf.Tensor:
        return latent_of(self._preset, self._draws, batch["energy"], batch["angle"])

    def _flipped(self, label: float, batch: Batch) -> tf.Tensor:
        energy = batch["energy"]
        if not self._preset.label_flip_fraction:
            return tf.fill(energy.shape, tf.cast(label, energy.dtype))
        step = 0 if self._preset.label_flips == "frozen" else None
        flips = self._draws.happens(self._preset.label_flip_fraction, energy.shape[0], step=step)
        return tf.where(flips, tf.cast(1 - label, energy.dtype), tf.cast(label, energy.dtype))

    def _share_statistics(self) -> None:
        """Averages what is not learned over the replicas, in one small reduction.

        Keras leaves batch norm's statistics to each replica, so that a checkpoint would hold the
        first one's only.
        """
        if tf.distribute.get_replica_context().num_replicas_in_sync == 1:
            return
        networks = (self._gan.generator, self._gan.discriminator)
        weights = [weight for network in networks for weight in network.non_trainable_weights]
        local = [tf.convert_to_tensor(weight) for weight in weights]
        for weight, mean in zip(weights, reduced(local, tf.distribute.ReduceOp.MEAN), strict=True):
            weight.assign(mean)

    def _update_average(self) -> None:
        """Moves the averaged generator towards the present one.

        Only what is learned is averaged. The statistics of batch norm are averages already: averaged
        again they lag, and the sum of the generated cells falls short for a thousand steps.
        """
        if self._gan.average is None:
            return
        share = 1 - self._preset.generator_average
        pairs = zip(self._gan.average.weights, self._gan.generator.weights, strict=True)
        for average, weight in pairs:
            if weight.trainable:
                average.assign_add((weight - average) * share)
            else:
                average.assign(weight)

    @staticmethod
    def _apply(
        tape: tf.GradientTape, loss: tf.Tensor, model: keras.Model, optimizer: keras.Optimizer
    ) -> None:
        weights = model.trainable_variables
        update(optimizer, weights, tape.gradient(loss, [weight.value for weight in weights]))


def latent_of(preset: Preset, draws: Draws, energy: tf.Tensor, angle: tf.Tensor) -> tf.Tensor:
    """Generator input (B, `latent_length`) for energy/100 and angle (B, 1), at the draws' position."""
    if preset.condition == "multiply":
        normals = draws.normals(energy.shape[0], latent_length(preset))
        return energy * tf.cast(normals, energy.dtype)
    normals = draws.normals(energy.shape[0], latent_length(preset) - 2)
    return tf.concat([energy, angle, tf.cast(normals, energy.dtype)], 1)
