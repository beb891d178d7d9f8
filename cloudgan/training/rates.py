"""Learning rates for larger global batches: scaled, and warmed up where that raises them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from cloudgan.training.gan import Rates

if TYPE_CHECKING:
    from cloudgan.core.config import RunConfig


def scaled_rate(config: RunConfig, global_batch_size: int) -> float:
    """Returns the learning rate after warm-up.

    `linear` follows Goyal et al. 2017 (arXiv:1706.02677), `sqrt` Krizhevsky 2014 (arXiv:1404.5997).
    """
    factor = global_batch_size / config.training.reference_batch_size
    scale = {"none": 1.0, "linear": factor, "sqrt": math.sqrt(factor)}[config.training.scale_lr]
    return config.model.learning_rate * scale


def make_rates(config: RunConfig, global_batch_size: int, steps_per_epoch: float) -> Rates:
    """Returns the rates of both networks; each counts its own updates, of which a step has two."""
    end = scaled_rate(config, global_batch_size)
    warmup_steps = config.training.warmup_epochs * steps_per_epoch
    if end <= config.model.learning_rate or not warmup_steps:
        return Rates(end, end)

    def schedule(updates_per_step: int) -> WarmUp:
        return WarmUp(config.model.learning_rate, end, warmup_steps * updates_per_step)

    # The discriminator is updated on real and on fake showers.
    return Rates(generator=schedule(config.model.generator_updates), discriminator=schedule(2))


@keras.saving.register_keras_serializable(package="cloudgan")
class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly from `begin` to `end` over `updates`, then stays."""

    def __init__(self, begin: float, end: float, updates: float) -> None:
        self._begin, self._end, self._updates = begin, end, updates

    def __call__(self, step: Any) -> Any:
        """Returns the rate of update number `step`."""
        done = ops.minimum(ops.cast(step, "float32") / self._updates, 1.0)
        return self._begin + (self._end - self._begin) * done

    def get_config(self) -> dict[str, float]:
        """Returns what the constructor takes."""
        return {"begin": self._begin, "end": self._end, "updates": self._updates}
