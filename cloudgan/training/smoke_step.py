"""A fixed computation and one all-reduce on every device of a run, before its data are staged.

`cloudgan worker` runs this module as a process of its own: TensorFlow accepts the addresses of the
workers only before its first operation, and once per process, so the training cannot share it. It lists
the devices at once, and reads one line of standard input, TF_CONFIG as JSON or ``null``, when all workers
are there.
"""

from __future__ import annotations

import sys
import time
from typing import TextIO

import tensorflow as tf

from cloudgan.core import settings
from cloudgan.core.errors import CloudganError, TryAgain
from cloudgan.schema.config import RunConfig
from cloudgan.training.cluster import Cluster, read_cluster, refuse_missing_accelerators
from cloudgan.training.tensorflow_backend import (
    choose_strategy,
    device_kind,
    make_strategy,
    set_up_devices,
    translated_errors,
)

_EDGE, _KERNEL, _MATRIX = 8, 3, 64
_BUFFER = 250_000
"""Float32 values of the all-reduce, 1 MB: more than one packet, less than a second."""
_PER_REPLICA = float((_EDGE - _KERNEL + 1) ** 3 * _KERNEL**3 + _MATRIX**3)
"""Sum of the gradient of a convolution of ones, and of a product of ones: exact in bfloat16 inputs."""


def main() -> int:
    """Runs the smoke step; returns the exit code."""
    try:
        if not settings.has_tpu():  # listing TPUs is part of their initialisation in `_compute`
            refuse_missing_accelerators(len(tf.config.list_physical_devices("GPU")))
        _say("the planned devices are there")
        line = sys.stdin.readline()
        if not line:
            return TryAgain.exit_code
        tf_config = "" if line.strip() == "null" else line.strip()
        cluster = read_cluster(tf_config)
        settings.set_variables({"TF_CONFIG": tf_config})
        _say(_compute(cluster))
    except CloudganError as error:
        _say(f"cloudgan: {error}", sys.stderr)
        return error.exit_code
    return 0


def _say(line: str, stream: TextIO | None = None) -> None:
    output = stream or sys.stdout
    output.write(line + "\n")
    output.flush()


def _compute(cluster: Cluster | None) -> str:
    """Computes on each device, sums over all devices of all workers, compares; returns the line to print."""
    started, config = time.monotonic(), RunConfig()
    set_up_devices(config.training, threads=1)
    try:
        with translated_errors(cluster):
            strategy = make_strategy(config, choose_strategy(config.training, cluster))
            own, everywhere = _step(strategy)
    except tf.errors.OpError as error:
        first = str(error).strip().splitlines()[0]
        raise CloudganError(
            f"{device_kind()} fails at a convolution, a matrix product or the sum over all workers"
            f" ({type(error).__name__}: {first}); the node, its driver or its network is at fault"
        ) from error
    replicas = int(strategy.num_replicas_in_sync)
    _compare(own, _PER_REPLICA, "a device of this worker computed a wrong result")
    _compare(everywhere, replicas * _PER_REPLICA, f"the sum over {replicas} devices is wrong")
    seconds = time.monotonic() - started
    what = f"{replicas} x {device_kind()} computed and summed as expected"
    return f"smoke step: {what} in {seconds:.1f} s"


def _step(strategy: tf.distribute.Strategy) -> tuple[list[float], list[float]]:
    """Returns the result of each device of this worker, and the extremes of the sums over all."""

    @tf.function
    def compute() -> tuple[tf.Tensor, tf.Tensor]:
        images = tf.ones((1, _EDGE, _EDGE, _EDGE, 1))
        kernel = tf.ones((_KERNEL, _KERNEL, _KERNEL, 1, 1))
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            folded = tf.nn.conv3d(images, kernel, [1] * 5, "VALID")
            total = tf.reduce_sum(folded)
        ones = tf.ones((_MATRIX, _MATRIX))
        result = tf.reduce_sum(tape.gradient(total, kernel)) + tf.reduce_sum(ones @ ones)
        context = tf.distribute.get_replica_context()
        summed = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.fill((_BUFFER,), result))
        return result, tf.stack([tf.reduce_min(summed), tf.reduce_max(summed)])

    own, everywhere = strategy.run(compute)
    local = strategy.experimental_local_results
    extremes = [float(value) for each in local(everywhere) for value in each.numpy()]
    return [float(each.numpy()) for each in local(own)], extremes


def _compare(found: list[float], expected: float, what: str) -> None:
    wrong = next((value for value in found if value != expected), None)
    if wrong is not None:
        raise CloudganError(f"{what}: {wrong:g} instead of {expected:g}; replace the node")


if __name__ == "__main__":
    sys.exit(main())
