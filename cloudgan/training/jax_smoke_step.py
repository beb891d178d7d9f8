"""The smoke step in JAX: a program, whose environment has KERAS_BACKEND=jax."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from cloudgan.training.cluster import Cluster
from cloudgan.training.jax_backend import REPLICAS, device_kind
from cloudgan.training.jax_engine import JaxEngine, connect, mesh_of
from cloudgan.training.smoke_step import BUFFER, EDGE, KERNEL, MATRIX, Sums, failed, run


def prepare() -> str:
    """Does nothing: JAX must know the other workers before it looks at its devices."""
    return "JAX is loaded"


def compute(cluster: Cluster | None) -> Sums:
    """Computes on each device of this worker, and sums over those of all workers.

    Raises:
        CloudganError: A device or the network failed.
        TryAgain: Another worker stopped answering.
    """
    local = connect(cluster, None)
    mesh = mesh_of(local, cluster)
    try:
        with JaxEngine.translated_errors(cluster):
            spread = PartitionSpec(REPLICAS)
            step = jax.shard_map(_on_device, mesh=mesh, in_specs=(), out_specs=(spread, spread))
            own, everywhere = (_local_values(array) for array in jax.jit(step)())
    except jax.errors.JaxRuntimeError as error:
        raise failed(device_kind(), error) from error
    return Sums(own, everywhere, mesh.size, device_kind())


def _on_device() -> tuple[jax.Array, jax.Array]:
    """Returns the result of this device, and the extremes of the sum over all."""
    images, ones = jnp.ones((1, 1, EDGE, EDGE, EDGE)), jnp.ones((MATRIX, MATRIX))

    def total(kernel: jax.Array) -> jax.Array:
        return jax.lax.conv(images, kernel, (1, 1, 1), "VALID").sum()

    gradient = jax.grad(total)(jnp.ones((1, 1, KERNEL, KERNEL, KERNEL)))
    result = gradient.sum() + (ones @ ones).sum()
    summed = jax.lax.psum(jnp.full((BUFFER,), result), REPLICAS)
    return result[None], jnp.stack([summed.min(), summed.max()])


def _local_values(array: Any) -> list[float]:
    """Returns the values on the devices of this process."""
    parts = [np.asarray(shard.data).ravel() for shard in array.addressable_shards]
    return [float(value) for value in np.concatenate(parts)]


if __name__ == "__main__":
    sys.exit(run(compute, prepare))
