"""A fixed computation and one all-reduce on every device of a run, before its data are staged: a program.

`cloudgan worker` runs `python -m cloudgan.training.smoke_step ENGINE` as a process of its own: an engine accepts the
addresses of the workers only before its first operation, and once per process, so the training cannot share it. It looks
at the devices at once where the engine can, and reads one line of standard input, TF_CONFIG as JSON or ``null``, when
all workers are there. For JAX the environment has KERAS_BACKEND=jax.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

from cloudgan.core import settings
from cloudgan.core.errors import CloudganError, TryAgain
from cloudgan.schema.config import RunConfig
from cloudgan.training.cluster import Cluster, read_cluster, refuse_missing_accelerators

_EDGE, _KERNEL, _MATRIX = 8, 3, 64
"""Cells per axis of an image and of the kernel over it, and rows of a square matrix; all hold ones."""
_BUFFER = 250_000
"""Float32 values of the all-reduce, 1 MB: more than one packet, less than a second."""
_PER_REPLICA = float((_EDGE - _KERNEL + 1) ** 3 * _KERNEL**3 + _MATRIX**3)
"""Sum of the gradient of a convolution of ones, and of a product of ones: exact in bfloat16 inputs."""


class Sums(NamedTuple):
    """What the devices of this worker computed.

    Attributes:
        own: Result of each device of this worker.
        everywhere: Least and largest values of the sum over all devices, of each device of this worker.
        replicas: Devices of all workers.
        kind: Of a device.
    """

    own: list[float]
    everywhere: list[float]
    replicas: int
    kind: str


def run(engine: str) -> int:
    """Runs the smoke step of an engine, `tensorflow` or `jax`; returns the exit code."""
    prepare, compute = _ENGINES[engine]
    try:
        _say(prepare())
        line = sys.stdin.readline()
        if not line:
            return TryAgain.exit_code
        tf_config = "" if line.strip() == "null" else line.strip()
        cluster = read_cluster(tf_config)
        settings.set_variables({"TF_CONFIG": tf_config})
        started = time.monotonic()
        found = compute(cluster)
        compare(found.own, _PER_REPLICA, "a device of this worker computed a wrong result")
        wrong = f"the sum over {found.replicas} devices is wrong"
        compare(found.everywhere, found.replicas * _PER_REPLICA, wrong)
        what = f"{found.replicas} x {found.kind} computed and summed as expected"
        _say(f"smoke step: {what} in {time.monotonic() - started:.1f} s")
    except CloudganError as error:
        _say(f"cloudgan: {error}", sys.stderr)
        return error.exit_code
    return 0


def _say(line: str, stream: TextIO | None = None) -> None:
    output = stream or sys.stdout
    output.write(line + "\n")
    output.flush()


def compare(found: list[float], expected: float, what: str) -> None:
    """Refuses a value that is not the expected one; `what` says what it is of."""
    wrong = next((value for value in found if value != expected), None)
    if wrong is not None:
        raise CloudganError(f"{what}: {wrong:g} instead of {expected:g}; replace the node")


def _failed(kind: str, error: Exception) -> CloudganError:
    """Returns the error of a device whose computation failed."""
    first = str(error).strip().splitlines()[0]
    return CloudganError(
        f"{kind} fails at a convolution, a matrix product or the sum over all workers"
        f" ({type(error).__name__}: {first}); the node, its driver or its network is at fault"
    )


def _prepare_tensorflow() -> str:
    """Refuses fewer GPUs than the plan has; listing TPUs is part of their initialisation later."""
    import tensorflow as tf

    import cloudgan.training.tensorflow_backend  # noqa: F401 -- loaded before the other workers are there

    if not settings.has_tpu():
        refuse_missing_accelerators(len(tf.config.list_physical_devices("GPU")))
    return "the planned devices are there"


def _compute_in_tensorflow(cluster: Cluster | None) -> Sums:
    """Computes on each device of this worker, and sums over those of all workers."""
    import tensorflow as tf

    from cloudgan.training import tensorflow_backend as backend

    @tf.function
    def compute() -> tuple[tf.Tensor, tf.Tensor]:
        images = tf.ones((1, _EDGE, _EDGE, _EDGE, 1))
        kernel = tf.ones((_KERNEL, _KERNEL, _KERNEL, 1, 1))
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            total = tf.reduce_sum(tf.nn.conv3d(images, kernel, [1] * 5, "VALID"))
        ones = tf.ones((_MATRIX, _MATRIX))
        result = tf.reduce_sum(tape.gradient(total, kernel)) + tf.reduce_sum(ones @ ones)
        context = tf.distribute.get_replica_context()
        summed = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.fill((_BUFFER,), result))
        return result, tf.stack([tf.reduce_min(summed), tf.reduce_max(summed)])

    config = RunConfig()
    backend.set_up_devices(config.training, threads=1)
    try:
        with backend.translated_errors(cluster):
            name = backend.choose_strategy(config.training, cluster)
            strategy = backend.make_strategy(config, name)
            local = strategy.experimental_local_results
            own, everywhere = (local(each) for each in strategy.run(compute))
            sums = [float(one.numpy()) for one in own]
            extremes = [float(value) for one in everywhere for value in one.numpy()]
    except tf.errors.OpError as error:
        raise _failed(backend.device_kind(), error) from error
    return Sums(sums, extremes, int(strategy.num_replicas_in_sync), backend.device_kind())


def _prepare_jax() -> str:
    """Loads JAX, which must know the other workers before it looks at its devices."""
    import cloudgan.training.jax_engine  # noqa: F401

    return "JAX is loaded"


def _compute_in_jax(cluster: Cluster | None) -> Sums:
    """Does the same in JAX."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import PartitionSpec

    from cloudgan.training.jax_backend import REPLICAS, device_kind
    from cloudgan.training.jax_engine import JaxEngine, connect, mesh_of

    def compute() -> tuple[jax.Array, jax.Array]:
        images, ones = jnp.ones((1, 1, _EDGE, _EDGE, _EDGE)), jnp.ones((_MATRIX, _MATRIX))

        def total(kernel: jax.Array) -> jax.Array:
            return jax.lax.conv(images, kernel, (1, 1, 1), "VALID").sum()

        gradient = jax.grad(total)(jnp.ones((1, 1, _KERNEL, _KERNEL, _KERNEL)))
        result = gradient.sum() + (ones @ ones).sum()
        summed = jax.lax.psum(jnp.full((_BUFFER,), result), REPLICAS)
        return result[None], jnp.stack([summed.min(), summed.max()])

    def local(array: Any) -> list[float]:
        parts = [np.asarray(shard.data).ravel() for shard in array.addressable_shards]
        return [float(value) for value in np.concatenate(parts)]

    mesh = mesh_of(connect(cluster, None), cluster)
    try:
        with JaxEngine.translated_errors(cluster):
            spread = PartitionSpec(REPLICAS)
            step = jax.shard_map(compute, mesh=mesh, in_specs=(), out_specs=(spread, spread))
            own, everywhere = (local(array) for array in jax.jit(step)())
    except jax.errors.JaxRuntimeError as error:
        raise _failed(device_kind(), error) from error
    return Sums(own, everywhere, mesh.size, device_kind())


_ENGINES: dict[str, tuple[Callable[[], str], Callable[[Cluster | None], Sums]]] = {
    "tensorflow": (_prepare_tensorflow, _compute_in_tensorflow),
    "jax": (_prepare_jax, _compute_in_jax),
}

if __name__ == "__main__":
    sys.exit(run(sys.argv[1]))
