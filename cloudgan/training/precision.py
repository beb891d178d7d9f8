"""Resolution of `--precision` on this device, and loss scaling for float16.

bfloat16 has the range of float32. In float16 small gradients would underflow, so the loss is scaled
up before differentiation and the gradients are scaled down.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from cloudgan.core import settings
from cloudgan.core.hardware import cpu_features, has_bfloat16

_FIRST_WITH_BFLOAT16 = (8, 0)


def resolve_precision(precision: str) -> str:
    """Returns float32, bfloat16, float16 or float64 for `precision` on this machine.

    `mixed` is bfloat16 if the device supports it, else float16 on GPUs and float32 on CPUs.
    """
    if precision != "mixed":
        return precision
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus and not settings.has_tpu():
        return "bfloat16" if has_bfloat16(cpu_features()) else "float32"
    found = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    capabilities = [details.get("compute_capability") for details in found]
    is_old = any(known and tuple(known) < _FIRST_WITH_BFLOAT16 for known in capabilities)
    return "float16" if is_old else "bfloat16"


def with_loss_scaling(optimizer: keras.Optimizer, precision: str) -> Any:
    """Returns `optimizer`, with loss scaling for float16."""
    return LossScale(optimizer) if precision == "float16" else optimizer


class LossScale:
    """An optimiser with dynamic loss scaling.

    An update with NaN or infinite gradients is applied as zero and halves the scale. Keras 3.15
    checks the gradients of the first replica only, before the reduction: an overflow on another
    replica would reach the weights of all.
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

    def scale_loss(self, loss: Any) -> Any:
        """Returns the loss to differentiate."""
        return loss * tf.cast(tf.convert_to_tensor(self._scale), loss.dtype)

    def unscaled(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the gradients of the unscaled loss, and adapts the scale.

        Args:
            gradients: Of the scaled loss, summed over the replicas; the same on each of them, so
                all copies of the scale stay equal.
        """
        scale, good = (tf.convert_to_tensor(value) for value in (self._scale, self._good))
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(value)) for value in gradients])
        grows = good + 1 >= self._growth_steps
        factor = tf.where(finite, tf.where(grows, 2.0, 1.0), 0.5)
        counted = tf.where(tf.logical_and(finite, tf.logical_not(grows)), good + 1, 0)
        for variable, value in ((self._scale, scale * factor), (self._good, counted)):
            tf.raw_ops.AssignVariableOp(resource=variable.value.handle, value=value)
        return [tf.where(finite, value / scale, tf.zeros_like(value)) for value in gradients]
