"""One adversarial training step per replica, in `keras.ops`: TensorFlow and JAX run the same text.

The step changes variables. TensorFlow traces it in replica context; `jax_backend.pure` runs it on
traced values of the variables. What differs between the two are the functions of `backend()`.

Shapes: B is the batch per replica; image (B, X, Y, Z, 1) of powered cells; energy/100, angle in
rad and sum in scaled GeV are (B, 1); step and first_row are integers (1,). Losses are sums over the
replica divided by the *global* batch, because gradients are summed over the replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, TypeVar

import keras
import numpy as np
from keras import ops

from cloudgan.gan import losses
from cloudgan.gan.differentiable_observables import shower_shape
from cloudgan.gan.networks import latent_of
from cloudgan.schema.presets import Preset
from cloudgan.training.backend import backend
from cloudgan.training.gan import Gan, LossScale, batch_norm_statistics
from cloudgan.training.rng import Call, Rng

Result = TypeVar("Result")
Adversarial = Callable[[Any, Any], Any]
"""Maps labels and outputs of a discriminator, (B, 1) each, to losses, (B, 1)."""


class Batch(TypedDict):
    """Real showers of one replica, and where they are in the run."""

    image: Any
    energy: Any
    angle: Any
    ecal: Any
    step: Any
    first_row: Any


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
        """Creates a step of `global_batch_size` showers of all replicas together.

        A longitudinal loss needs `layer_target`, the mean over the training showers of layer energy over primary
        energy, (Z,), and a shape loss `shape_scale`, the spread of each feature of a shower's shape at given energy
        and angle, (F,).
        """
        self._gan, self._preset, self._rng = gan, preset, rng
        self._global_batch_size = global_batch_size
        self._layer_target, self._shape_scale = layer_target, shape_scale

    def __call__(self, batch: Batch) -> Any:
        """Runs the step on one replica.

        Returns:
            This replica's share of the global mean losses, rows `PASSES`, columns `loss_columns()`; the
            generator's row is the mean of its updates.
        """
        batch = self._in_own_precision(batch)
        fake = self.fake(batch)
        real, faked = self.train_discriminator(batch, fake)
        # Keras keeps statistics per replica, so a checkpoint would hold those of the first one only.
        several = backend().replicas() > 1
        networks = (self._gan.generator, self._gan.discriminator) if several else ()
        averaged = [weight for network in networks for weight in batch_norm_statistics(network)]
        generator = self.train_generator(batch, fake, averaged=averaged)
        self.update_ema_generator()
        return ops.stack([real, faked, generator])

    def fake(self, batch: Batch) -> Any:
        """Returns showers (B, X, Y, Z, 1) of the trained generator, in inference mode."""
        with self._at(batch, Call.FAKE):
            return self._gan.generator(self._latent(batch), training=False)

    def train_discriminator(
        self, batch: Batch, fake: Any, adversarial: Adversarial = losses.binary_crossentropy
    ) -> tuple[Any, Any]:
        """Updates the discriminator on real, then on fake showers; returns a row of losses of each."""
        discriminator, optimizer = self._gan.discriminator, self._gan.discriminator_optimizer

        def update(image: Any, label: float, call: int) -> Any:
            with self._at(batch, call):
                labels = self._flipped(label, batch)

                def losses() -> tuple[Any, Any]:
                    outputs = discriminator(image, training=True)
                    return self._losses(batch, labels, outputs, adversarial=adversarial)

                return descend([discriminator], optimizer, losses)

        real = update(batch["image"], 1.0, Call.REAL)
        return real, update(fake, 0.0, Call.FAKE)

    def train_generator(
        self,
        batch: Batch,
        fake: Any,
        adversarial: Adversarial = losses.binary_crossentropy,
        averaged: Sequence[keras.Variable] = (),
    ) -> Any:
        """Updates the generator as often as the preset says, but not its average; returns its mean row of losses.

        `fake` was generated for the same conditions, and is read with a shape loss only. The last update also gives
        the variables `averaged` their mean over the replicas.
        """
        networks = [self._gan.generator, self._gan.discriminator]
        updates, optimizer = self._preset.generator_updates, self._gan.generator_optimizer
        target, other = self._features(batch["image"], batch), self._features(fake, batch)

        def update(call: int, other: Any, averaged: Sequence[keras.Variable]) -> tuple[Any, Any]:
            with self._at(batch, call):
                latent = self._latent(batch)

                def losses() -> tuple[tuple[Any, Any], Any]:
                    fake = networks[0](latent, training=True)
                    outputs = networks[1](fake, training=True)
                    ones, own = ops.ones_like(batch["energy"]), self._features(fake, batch)
                    more = {"image": fake, "features": (target, own, other)}
                    row, total = self._losses(batch, ones, outputs, adversarial=adversarial, **more)
                    return (row, own), total

                return descend(networks, optimizer, losses, averaged)

        rows = []
        for number in range(updates):
            last = number == updates - 1
            row, other = update(Call.GENERATOR + number, other, averaged if last else ())
            rows.append(row)
        return sum(rows[1:], rows[0]) / updates

    def evaluate(self, batch: Batch) -> Any:
        """Returns the losses on held-out showers: inference mode, no flips, no update; rows as a step's."""
        batch = self._in_own_precision(batch)
        fake, other = self.sample(batch)
        return ops.stack([self.judge_real(batch), *self.judge_fake(batch, fake, other)])

    def sample(self, batch: Batch) -> tuple[Any, Any]:
        """Returns showers of the generator for inference, and the shape features (B, F) of others."""
        generator, other = self._gan.inference_generator, ops.zeros(())
        with self._at(batch, Call.TEST):
            fake = generator(self._latent(batch), training=False)
        if self._preset.loss_weights["shape"]:
            with self._at(batch, Call.FAKE):
                other = self._features(generator(self._latent(batch), training=False), batch)
        return fake, other

    def judge_real(self, batch: Batch) -> Any:
        """Returns the discriminator's row of losses on real showers."""
        outputs = self._gan.discriminator(batch["image"], training=False)
        return self._losses(batch, ops.ones_like(batch["energy"]), outputs)[0]

    def judge_fake(self, batch: Batch, fake: Any, other: Any) -> tuple[Any, Any]:
        """Returns the rows of discriminator and generator on showers that `sample` returned."""
        outputs = self._gan.discriminator(fake, training=False)
        features = (self._features(batch["image"], batch), self._features(fake, batch), other)
        ones = ops.ones_like(batch["energy"])
        of_discriminator, _ = self._losses(batch, ops.zeros_like(ones), outputs)
        of_generator, _ = self._losses(batch, ones, outputs, image=fake, features=features)
        return of_discriminator, of_generator

    def update_ema_generator(self) -> None:
        """Updates the moving average of the generator.

        Only trained weights are averaged. Batch norm statistics are averages already: averaged again
        they lag, and the sum of the generated cells is too small for a thousand steps.
        """
        if self._gan.ema_generator is None:
            return
        share = 1 - self._preset.ema_decay
        pairs = zip(self._gan.ema_generator.weights, self._gan.generator.weights, strict=True)
        for average, weight in pairs:
            if weight.trainable:
                average.assign_add((weight - average) * share)
            else:
                average.assign(weight)

    @property
    def loss_dtype(self) -> str:
        """Type of the losses: float32, or float64 with float64 weights."""
        return str(self._gan.generator.weights[0].dtype)

    def _in_own_precision(self, batch: Batch) -> Batch:
        names = ("image", "energy", "angle", "ecal")
        return batch | {name: ops.cast(batch[name], self.loss_dtype) for name in names}  # type: ignore[return-value, literal-required]

    def _at(self, batch: Batch, call: int) -> Any:
        """Sets the position of the random numbers."""
        return self._rng.at(batch["step"][0], batch["first_row"][0], call)

    def _losses(
        self, batch: Batch, labels: Any, outputs: list[Any], **more: Any
    ) -> tuple[Any, Any]:
        """Returns one row of `loss_columns()`, and the total to differentiate.

        `more` are `image` and `features` of `LossInputs`, in the generator's pass, and `adversarial`.
        """
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
                replicas=backend().replicas(),
                layer_target=self._layer_target,
                feature_scale=self._shape_scale,
                **more,
            )
        )
        return ops.stack([*values, total]), total

    def _batch_mean(self, values: Any) -> Any:
        """Mean over the global batch, the same on every replica."""
        mean, replicas = ops.sum(values, 0) / self._global_batch_size, backend().replicas()
        if replicas == 1:
            return mean

        @ops.custom_gradient
        def shared(own: Any) -> Any:
            # The loss of the mean has the same slope on every replica: their sum needs no collective.
            (total,) = backend().sum_over_replicas([own])
            return total, lambda slope: slope * replicas

        return shared(mean)

    def _features(self, image: Any, batch: Batch) -> Any:
        """Shape features, (B, F); a scalar 0 without a shape term."""
        if not self._preset.loss_weights["shape"]:
            return ops.zeros((), image.dtype)
        return shower_shape(self._preset, image, batch["energy"])

    def _latent(self, batch: Batch) -> Any:
        return latent_of(self._preset, self._rng.normal, batch["energy"], batch["angle"])

    def _flipped(self, label: float, batch: Batch) -> Any:
        energy = batch["energy"]
        labels = ops.full(energy.shape, label, energy.dtype)
        if not self._preset.label_flip_fraction:
            return labels
        step = 0 if self._preset.label_flips == "frozen" else None
        flips = self._rng.bernoulli(self._preset.label_flip_fraction, energy.shape[0], step=step)
        return ops.where(flips, 1 - labels, labels)


def descend(
    networks: Sequence[keras.Model],
    optimizer: keras.Optimizer | LossScale,
    losses: Callable[[], tuple[Result, Any]],
    averaged: Sequence[keras.Variable] = (),
) -> Result:
    """Updates the first network once, on each replica by the sum of the gradients of all.

    Args:
        networks: All that `losses` calls; the others change their batch norm statistics only.
        optimizer: Adam or RMSprop, built with the first network's trainable weights.
        losses: Returns any result, and this replica's share of the loss.
        averaged: Variables that get their mean over the replicas, in the collective of the gradients;
            of the weights' type.

    Returns:
        The result of `losses`.
    """
    here, weights = backend(), networks[0].trainable_variables
    scale = optimizer.scale if isinstance(optimizer, LossScale) else None

    def scaled() -> tuple[Result, Any]:
        result, loss = losses()
        return result, loss if scale is None else loss * ops.cast(scale, loss.dtype)

    result, gradients = here.gradients(networks, scaled)
    own = [here.read(variable) for variable in averaged]
    summed = here.sum_over_replicas([*gradients, *own])
    gradients, sums = summed[: len(gradients)], summed[len(gradients) :]
    for variable, total in zip(averaged, sums, strict=True):
        variable.assign(total / here.replicas())
    if isinstance(optimizer, LossScale):
        gradients, optimizer = optimizer.unscaled(gradients), optimizer.optimizer
    here.apply_gradients(optimizer, weights, gradients)
    return result
