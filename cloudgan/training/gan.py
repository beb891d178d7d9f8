"""Networks, optimisers and learning-rate schedules of a run: everything that is learned."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from cloudgan.core.hardware import this_machine
from cloudgan.gan.cell_marginals import MarginalOutput
from cloudgan.gan.layers import PUBLISHED, PhaseStages, Stages
from cloudgan.gan.networks import Output, build_discriminator, build_generator
from cloudgan.schema.config import RunConfig
from cloudgan.schema.presets import Preset
from cloudgan.training.backend import backend
from cloudgan.training.rng import Rng

POLICIES = {
    "float32": "float32",
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
    "float64": "float64",
}
"""Keras dtype policy of each precision; with two-byte precisions the weights stay float32."""


def batch_norm_statistics(network: keras.Model) -> list[keras.Variable]:
    """Returns the weights that a step changes without a gradient: replicas average them.

    The output layer's tables and calibration are constants, equal on every replica: their mean would
    round where the number of replicas is no power of two.
    """
    constants = {
        id(weight)
        for layer in network.layers
        if isinstance(layer, (MarginalOutput, Output))
        for weight in layer.non_trainable_weights
    }
    return [weight for weight in network.non_trainable_weights if id(weight) not in constants]


@dataclass(frozen=True)
class Gan:
    """Both networks with their optimisers and the averaged generator.

    Attributes:
        generator: Latent to image.
        discriminator: Image to real/fake, energy, angle, sum.
        generator_optimizer: Built, so that its slots exist before the first step.
        discriminator_optimizer: Built as well.
        ema_generator: Exponential moving average of the generator over steps; None if disabled.
    """

    generator: keras.Model
    discriminator: keras.Model
    generator_optimizer: keras.Optimizer
    discriminator_optimizer: keras.Optimizer
    ema_generator: keras.Model | None

    @property
    def inference_generator(self) -> keras.Model:
        """The averaged generator, or the trained one if averaging is disabled."""
        return self.ema_generator or self.generator

    def init_from(self, weights: list[Any]) -> None:
        """Sets the weights of the generator and of its average."""
        self.generator.set_weights(weights)
        if self.ema_generator:
            self.ema_generator.set_weights(weights)

    def set_marginals(self, tables: dict[str, Any]) -> None:
        """Sets the measured tables of a preset with `cell_marginals` in the generator and its average."""
        for network in (self.generator, self.ema_generator):
            if network:
                network.get_layer("output").set_tables(tables)

    def variables(self) -> dict[str, keras.Variable]:
        """Returns all variables of a checkpoint by a name that is the same in every process."""
        parts: dict[str, Any] = {
            "generator": self.generator.weights,
            "discriminator": self.discriminator.weights,
            "generator_optimizer": self.generator_optimizer.variables,
            "discriminator_optimizer": self.discriminator_optimizer.variables,
            "ema_generator": self.ema_generator.weights if self.ema_generator else [],
        }
        return {
            f"{part}/{number:03d}/{variable.name}": variable
            for part, variables in parts.items()
            for number, variable in enumerate(variables)
        }


def build_gan(
    preset: Preset,
    rng: Rng,
    *,
    precision: str = "float32",
    synchronized: bool = False,
    learning_rates: tuple[Any, Any] | None = None,
    conv_impl: str = "published",
    stages: Stages | None = None,
    device_stages: Sequence[str] = (),
) -> Gan:
    """Builds networks and optimisers; call it inside the strategy's scope.

    Keras cannot create optimiser slots inside a traced function, so this function creates them. The learning rates
    of generator and discriminator are by default the preset's. `stages` are how the layers compute, by default
    those of `conv_impl`; `device_stages` are the layers from which on a network is on the next device.
    """
    seeds = random.Random(rng.seed)
    keras.config.set_dtype_policy(POLICIES[precision])
    form: dict[str, Any] = {
        "synchronized": synchronized,
        "stages": stages or make_stages(conv_impl),
    }
    generator = build_generator(preset, seeds=seeds, **form)
    discriminator = build_discriminator(preset, rng, seeds=seeds, **form)
    ema_generator = None
    if preset.ema_decay:
        ema_generator = build_generator(preset, **form)
        ema_generator.set_weights(generator.get_weights())
    if device_stages:
        # Of TensorFlow only, as loss scaling is.
        from cloudgan.training.tensorflow_backend import (  # noqa: PLC0415
            place_networks,
            place_slots,
        )

        place_networks([generator, discriminator, ema_generator], device_stages)
    rates = learning_rates or (preset.learning_rate, preset.learning_rate)
    optimizers = tuple(_optimizer(preset, rate, precision) for rate in rates)
    for optimizer, network in zip(optimizers, (generator, discriminator), strict=True):
        optimizer.build(network.trainable_variables)
        if device_stages:
            place_slots(optimizer, network.trainable_variables)
    return Gan(generator, discriminator, optimizers[0], optimizers[1], ema_generator)


def _optimizer(preset: Preset, rate: Any, precision: str) -> Any:
    beta_1, beta_2 = preset.adam_betas
    made = (
        keras.optimizers.RMSprop(rate)
        if preset.optimizer == "rmsprop"
        else keras.optimizers.Adam(rate, beta_1=beta_1, beta_2=beta_2)
    )
    return LossScale(made) if precision == "float16" else made


class LossScale:
    """An optimiser with dynamic loss scaling: in float16 small gradients would underflow.

    The loss is multiplied before differentiation and the gradients are divided. An update with NaN or
    infinite gradients is applied as zero and halves the scale: unlike in Keras' `LossScaleOptimizer`,
    which skips it, the moments decay and the iteration counts. Keras 3.15 checks the gradients of the first replica only,
    before the reduction: an overflow on another replica would reach the weights of all.
    """

    def __init__(
        self, optimizer: keras.Optimizer, *, first: float = 2.0**15, growth_steps: int = 2000
    ) -> None:
        """Starts with the scale `first` and doubles it after `growth_steps` finite updates."""
        self.optimizer = optimizer
        self._first, self._growth_steps = first, growth_steps

    def build(self, weights: list[Any]) -> None:
        """Creates the variables of the optimiser and of the scale."""
        self.optimizer.build(weights)
        form: dict[str, Any] = {"trainable": False, "aggregation": "only_first_replica"}
        self._scale = keras.Variable(self._first, dtype="float32", name="loss_scale", **form)
        self._good = keras.Variable(0, dtype="int32", name="good_updates", **form)

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables of a checkpoint."""
        return [*self.optimizer.variables, self._scale, self._good]

    @property
    def scale(self) -> Any:
        """Factor of the loss to differentiate, float32."""
        return backend().read(self._scale)

    def unscaled(self, gradients: Sequence[Any]) -> list[Any]:
        """Returns the gradients of the unscaled loss, and adapts the scale.

        They are summed over the replicas, the same on each of them, so all copies of the scale stay equal.
        """
        scale, good = self.scale, backend().read(self._good)
        finite = ops.all(ops.stack([ops.all(ops.isfinite(each)) for each in gradients]))
        grows = good + 1 >= self._growth_steps
        factor = ops.where(finite, ops.where(grows, 2.0, 1.0), 0.5)
        counted = ops.where(ops.logical_and(finite, ops.logical_not(grows)), good + 1, 0)
        backend().put(self._scale, scale * factor)
        backend().put(self._good, ops.cast(counted, "int32"))
        return [ops.where(finite, each / scale, ops.zeros_like(each)) for each in gradients]


def scaled_learning_rate(config: RunConfig, global_batch_size: int) -> float:
    """Returns the learning rate after warm-up.

    `linear` follows Goyal et al. 2017 (arXiv:1706.02677), `sqrt` Krizhevsky 2014 (arXiv:1404.5997).
    """
    factor = global_batch_size / config.training.reference_batch_size
    scale = {"none": 1.0, "linear": factor, "sqrt": math.sqrt(factor)}[config.training.scale_lr]
    return config.model.learning_rate * scale


def make_lr_schedules(
    config: RunConfig, global_batch_size: int, steps_per_epoch: float
) -> tuple[Any, Any]:
    """Returns the learning rates of generator and discriminator, each over its own updates.

    A rate that scaling raises is a Keras schedule with warm-up, else a number.
    """
    end = scaled_learning_rate(config, global_batch_size)
    steps = config.training.warmup_epochs * steps_per_epoch
    if end <= config.model.learning_rate or not steps:
        return end, end
    # A step updates the discriminator twice: on real and on fake showers.
    generator, discriminator = (
        WarmUp(config.model.learning_rate, end, steps * updates)
        for updates in (config.model.generator_updates, 2)
    )
    return generator, discriminator


@keras.saving.register_keras_serializable(package="cloudgan")
class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up from `begin` to `end` over `updates`, then constant."""

    def __init__(self, begin: float, end: float, updates: float) -> None:
        self._begin, self._end, self._updates = begin, end, updates

    def __call__(self, step: Any) -> Any:
        """Returns the rate of update number `step`."""
        done = ops.minimum(ops.cast(step, "float32") / self._updates, 1.0)
        return self._begin + (self._end - self._begin) * done

    def get_config(self) -> dict[str, float]:
        """Returns the constructor's arguments."""
        return {"begin": self._begin, "end": self._end, "updates": self._updates}


def make_stages(conv_impl: str) -> Stages:
    """Returns the stage builder of a convolution implementation."""
    if conv_impl == "fft":
        # Imported on demand: its compiler is needed on a CPU with TensorFlow only.
        import tensorflow as tf  # noqa: PLC0415

        from cloudgan.gan.kernels.convolution import Team  # noqa: PLC0415
        from cloudgan.training.fft_conv import FftStages  # noqa: PLC0415

        asked = tf.config.threading.get_intra_op_parallelism_threads()
        return FftStages(Team(asked or this_machine().cores))
    return PhaseStages() if conv_impl == "phases" else PUBLISHED
