"""The smoke step in TensorFlow: a program."""

from __future__ import annotations

import sys

import tensorflow as tf

from cloudgan.core import settings
from cloudgan.schema.config import RunConfig
from cloudgan.training.cluster import Cluster, refuse_missing_accelerators
from cloudgan.training.smoke_step import BUFFER, EDGE, KERNEL, MATRIX, Sums, failed, run
from cloudgan.training.tensorflow_backend import (
    choose_strategy,
    device_kind,
    make_strategy,
    set_up_devices,
    translated_errors,
)


def prepare() -> str:
    """Refuses fewer GPUs than the plan has; listing TPUs is part of their initialisation in `compute`."""
    if not settings.has_tpu():
        refuse_missing_accelerators(len(tf.config.list_physical_devices("GPU")))
    return "the planned devices are there"


def compute(cluster: Cluster | None) -> Sums:
    """Computes on each device of this worker, and sums over those of all workers.

    Raises:
        CloudganError: A device or the network failed.
        TryAgain: Another worker stopped answering.
    """
    config = RunConfig()
    set_up_devices(config.training, threads=1)
    try:
        with translated_errors(cluster):
            strategy = make_strategy(config, choose_strategy(config.training, cluster))
            own, everywhere = _step(strategy)
    except tf.errors.OpError as error:
        raise failed(device_kind(), error) from error
    return Sums(own, everywhere, int(strategy.num_replicas_in_sync), device_kind())


def _step(strategy: tf.distribute.Strategy) -> tuple[list[float], list[float]]:
    """Returns the result of each device of this worker, and the extremes of the sums over all."""

    @tf.function
    def compute() -> tuple[tf.Tensor, tf.Tensor]:
        images = tf.ones((1, EDGE, EDGE, EDGE, 1))
        kernel = tf.ones((KERNEL, KERNEL, KERNEL, 1, 1))
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            folded = tf.nn.conv3d(images, kernel, [1] * 5, "VALID")
            total = tf.reduce_sum(folded)
        ones = tf.ones((MATRIX, MATRIX))
        result = tf.reduce_sum(tape.gradient(total, kernel)) + tf.reduce_sum(ones @ ones)
        context = tf.distribute.get_replica_context()
        summed = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.fill((BUFFER,), result))
        return result, tf.stack([tf.reduce_min(summed), tf.reduce_max(summed)])

    own, everywhere = strategy.run(compute)
    local = strategy.experimental_local_results
    extremes = [float(value) for each in local(everywhere) for value in each.numpy()]
    return [float(each.numpy()) for each in local(own)], extremes


if __name__ == "__main__":
    sys.exit(run(compute, prepare))
