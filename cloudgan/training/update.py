"""One optimiser update: gradients reduced in one bucket, then a few operations per weight.

The state stays in the Keras optimisers, and in their checkpoints. Their own `apply` takes forty
operations per weight and replica: a third of the tracing time of a step, and of its operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from cloudgan.training.precision import LossScale


def sum_over_replicas(values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Sums tensors of one type over the replicas in one collective; call it in replica context.

    Returns:
        Tensors with the shapes of `values`, the same on every replica; `values` for one replica.
    """
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1 or not values:
        return list(values)
    bucket = tf.concat([tf.reshape(value, (-1,)) for value in values], 0)
    shared = context.all_reduce(tf.distribute.ReduceOp.SUM, bucket)
    parts = tf.split(shared, [int(np.prod(value.shape)) for value in values])
    return [tf.reshape(part, v.shape) for part, v in zip(parts, values, strict=True)]


def update(
    optimizer: keras.Optimizer | LossScale,
    weights: Sequence[keras.Variable],
    gradients: Sequence[tf.Tensor],
    averaged: Sequence[keras.Variable] = (),
) -> None:
    """Applies gradients in replica context, equal to `optimizer.apply` up to rounding.

    Args:
        optimizer: Adam or RMSprop as published (no clipping, decay, centring or averaging), or one of
            them with loss scaling.
        weights: Those that the optimiser was built with.
        gradients: This replica's share per weight; they are summed over the replicas.
        averaged: Variables of the same type that get their mean over the replicas, in the same collective.
    """
    local = [tf.convert_to_tensor(variable) for variable in averaged]
    summed = sum_over_replicas([*gradients, *local])
    gradients, sums = summed[: len(gradients)], summed[len(gradients) :]
    replicas = tf.distribute.get_replica_context().num_replicas_in_sync
    for variable, total in zip(averaged, sums, strict=True):
        variable.assign(total / replicas)
    if isinstance(optimizer, LossScale):
        gradients, optimizer = optimizer.unscaled(gradients), optimizer.optimizer
    adam = isinstance(optimizer, keras.optimizers.Adam)
    change = _adam(optimizer) if adam else _rmsprop(optimizer)
    for number, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
        change(number, _own(weight), gradient)
    count = optimizer.iterations
    one = tf.ones((), count.value.dtype)
    tf.raw_ops.AssignAddVariableOp(resource=_own(count), value=one)


def _own(variable: keras.Variable) -> tf.Tensor:
    """Returns this replica's copy; all replicas apply the same gradients."""
    return variable.value.handle


def _adam(optimizer: keras.optimizers.Adam) -> Callable[[int, Any, tf.Tensor], None]:
    """Kingma and Ba 2015 (arXiv:1412.6980), in the order of their section 2's last sentence."""
    moments, velocities = optimizer._momentums, optimizer._velocities
    dtype = moments[0].value.dtype
    done = tf.cast(tf.convert_to_tensor(optimizer.iterations.value) + 1, dtype)
    betas = [tf.constant(beta, dtype) for beta in (optimizer.beta_1, optimizer.beta_2)]
    powers = [beta**done for beta in betas]
    rate = tf.cast(tf.convert_to_tensor(optimizer.learning_rate), dtype)
    epsilon = tf.constant(optimizer.epsilon, dtype)

    def change(number: int, weight: Any, gradient: tf.Tensor) -> None:
        tf.raw_ops.ResourceApplyAdam(
            var=weight,
            m=_own(moments[number]),
            v=_own(velocities[number]),
            beta1_power=powers[0],
            beta2_power=powers[1],
            lr=rate,
            beta1=betas[0],
            beta2=betas[1],
            epsilon=epsilon,
            grad=gradient,
        )

    return change


def _rmsprop(optimizer: keras.optimizers.RMSprop) -> Callable[[int, Any, tf.Tensor], None]:
    """RMSprop without momentum; TensorFlow's own kernel would allocate a momentum slot."""
    velocities = optimizer._velocities
    dtype = velocities[0].value.dtype
    rate = tf.cast(tf.convert_to_tensor(optimizer.learning_rate), dtype)
    rho, rest = (tf.constant(share, dtype) for share in (optimizer.rho, 1 - optimizer.rho))
    epsilon = tf.constant(optimizer.epsilon, dtype)

    def change(number: int, weight: Any, gradient: tf.Tensor) -> None:
        slot = _own(velocities[number])
        before = tf.raw_ops.ReadVariableOp(resource=slot, dtype=dtype)
        velocity = rho * before + rest * tf.square(gradient)
        tf.raw_ops.AssignVariableOp(resource=slot, value=velocity)
        moved = rate * gradient / tf.sqrt(velocity + epsilon)
        tf.raw_ops.AssignSubVariableOp(resource=weight, value=moved)

    return change
