"""What a step needs of JAX: its variables as traced values, gradients, sums over replicas, random numbers.

A replica is a device: with several of them a step runs inside `jax.shard_map` over the axis `REPLICAS`,
without checks of replication, because sums over replicas are explicit. TensorFlow is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from cloudgan.gan.philox import FULL_TURN, LEAST_UNIFORM, float_bits, high_word, philox

REPLICAS = "replicas"
Result = TypeVar("Result")
_BLOCK = 4  # words of a block of Philox


def pure(
    call: Callable[..., Result], variables: Sequence[keras.Variable]
) -> Callable[..., tuple[Result, list[Any]]]:
    """Returns `call` as a function of the values of all variables that it reads or changes.

    Returns:
        A function of (values, *arguments) that returns the result and the new values.
    """

    def run(values: Sequence[Any], *arguments: Any) -> tuple[Result, list[Any]]:
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping) as scope:
            result = call(*arguments)
        return result, [scope.get_current_value(variable) for variable in variables]

    return run


def replicas() -> int:
    """Returns the number of replicas of all processes."""
    try:
        return int(jax.lax.axis_size(REPLICAS))
    except NameError:  # not inside a map over replicas
        return 1


def sum_over_replicas(values: Sequence[Any]) -> list[Any]:
    """Sums arrays of one type over the replicas in one collective; `values` for one replica."""
    if replicas() == 1 or not values:
        return list(values)
    bucket, parts = ravel_pytree(list(values))
    found: list[Any] = parts(jax.lax.psum(bucket, REPLICAS))
    return found


def gradients(
    networks: Sequence[keras.Model], losses: Callable[[], tuple[Result, Any]]
) -> tuple[Result, list[Any]]:
    """Returns the result of `losses`, and the gradients of its loss by the first network's weights.

    Args:
        networks: All that `losses` calls. It runs on values of their variables, and its changes of
            them, batch norm statistics, are made afterwards.
        losses: Returns any result, and a loss.
    """
    weights = networks[0].trainable_variables
    learned = {id(weight) for weight in weights}
    others = [v for each in networks for v in each.variables if id(v) not in learned]
    fixed = [variable.value for variable in others]

    def loss_of(values: list[Any]) -> tuple[Any, tuple[Result, list[Any]]]:
        call = pure(losses, [*weights, *others])
        (result, loss), after = call([*values, *fixed])
        return loss, (result, after[len(weights) :])

    found, (result, moved) = jax.grad(loss_of, has_aux=True)([w.value for w in weights])
    for variable, value in zip(others, moved, strict=True):
        variable.assign(value)
    return result, found


def apply_gradients(
    optimizer: keras.Optimizer, weights: Sequence[keras.Variable], gradients: Sequence[Any]
) -> None:
    """Updates weights by gradients that are the same on all replicas; XLA fuses Keras' operations."""
    optimizer.apply(gradients, weights)


def read(variable: keras.Variable) -> Any:
    """Returns the value of a variable now."""
    return variable.value


def put(variable: keras.Variable, value: Any) -> None:
    """Sets a variable; all replicas set the same."""
    variable.assign(value)


def words(seed: int, stream: int, place: tuple[Any, Any], rows: int, per_row: int) -> Any:
    """Returns random words, uint32 (rows, `per_row` rounded up to whole blocks), those of TensorFlow.

    Its Philox has the key (seed, stream and pass) and the counter (block of the row, step); `place` is the
    step, and the number of the first row.
    """
    blocks = -(-per_row // _BLOCK)
    step, first_row = (jnp.asarray(value).astype(jnp.uint32) for value in place)
    row, count = (first_row + jnp.arange(rows, dtype=jnp.uint32))[:, None], np.uint32(blocks)
    # The number of a block has 64 bits: 33,000 rows of the paper's dropout need more than 32.
    low = row * count + jnp.arange(blocks, dtype=jnp.uint32)
    high = high_word(count, row) + (low < row * count)
    counter = (low, high, jnp.broadcast_to(step, low.shape), jnp.zeros_like(low))
    return jnp.stack(philox(counter, (stream, seed)), -1).reshape(rows, blocks * _BLOCK)


def halves(words: Any) -> Any:
    """Returns both halves of each word, lower one first: uint16 (rows, 2 * words)."""
    both = jnp.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], -1)
    return both.reshape(len(words), -1).astype(jnp.uint16)


def normals(seed: int, stream: int, place: tuple[Any, Any], rows: int, per_row: int) -> Any:
    """Returns standard normals, float32 (rows, per_row), of TensorFlow to the rounding of a logarithm.

    Box and Muller's from two words each (tensorflow/core/lib/random/random_distributions.h of 2.21).
    """
    drawn = words(seed, stream, place, rows, per_row)
    bits = jax.lax.bitcast_convert_type(float_bits(drawn), jnp.float32)
    unit = (bits - 1.0).reshape(rows, -1, 2)
    radius = jnp.sqrt(-2.0 * jnp.log(jnp.maximum(unit[..., 0], LEAST_UNIFORM)))
    turn = FULL_TURN * unit[..., 1]
    pairs = jnp.stack([jnp.sin(turn) * radius, jnp.cos(turn) * radius], -1)
    return pairs.reshape(rows, -1)[:, :per_row]


def device_kind() -> str:
    """Returns the name of the computing device; CPU without an accelerator."""
    device = jax.local_devices()[0]
    return "CPU" if device.platform == "cpu" else str(device.device_kind)


def conv_device() -> str:
    """Returns XLA: the generated code of `fft` for a CPU runs in TensorFlow only."""
    return "XLA"


def resolve_precision(precision: str) -> str:
    """Returns the precision on this machine: `mixed` is bfloat16 on an accelerator."""
    if precision != "mixed":
        return precision
    return "float32" if device_kind() == "CPU" else "bfloat16"


def on_device(name: None) -> Any:
    """Computes inside on the first device of this process."""
    del name
    return nullcontext()


def compiled(
    call: Callable[..., Any], variables: Sequence[keras.Variable]
) -> Callable[..., NDArray[Any]]:
    """Returns `call`, which reads `variables`, as a compiled function that returns a new NumPy array."""
    jitted = jax.jit(pure(call, variables))

    def run(*arguments: Any) -> NDArray[Any]:
        found, _ = jitted([variable.value for variable in variables], *arguments)
        return np.array(found)

    return run
