"""Feeds the replicas of one worker: static shapes, only its own rows, nothing read twice.

B is the batch per replica; element k of the dataset is for local replica k % L at step
start_step + k // L, so that a distributed dataset hands consecutive elements to consecutive replicas.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from cloudgan.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from cloudgan.data.order import Order
    from cloudgan.data.training_set import TrainingSet

FLOATS = ("image", "energy", "angle", "ecal")
INTEGERS = ("step", "first_row")
_MARK = f"{DataError.__module__}.{DataError.__qualname__}: "


def feed(
    training_set: TrainingSet,
    order: Order,
    *,
    worker_first_replica: int,
    local_replicas: int,
    replicas: int,
    start_step: int,
    threads: int | None = None,
) -> tf.data.Dataset:
    """Returns the endless dataset of one worker.

    Each element is a dict of image (B, X, Y, Z, 1), energy, angle and ecal (B, 1), float32, and step
    and first_row (1,), int64: the row of the global batch where the element begins.

    Args:
        training_set: Reads the showers.
        order: Says which shower stands in which row.
        worker_first_replica: Number, in the whole job, of this worker's first replica.
        local_replicas: Replicas of this worker.
        replicas: Replicas of the whole job.
        start_step: Step of the first element.
        threads: Elements read at the same time; TensorFlow decides by default.

    Raises:
        ConfigError: The replicas do not divide the global batch.
    """
    if order.global_batch_size % replicas:
        raise ConfigError(
            f"a global batch of {order.global_batch_size} cannot be shared by {replicas} replicas"
        )
    batch = order.global_batch_size // replicas

    def read(element: np.int64) -> tuple[np.ndarray[Any, Any], ...]:
        step = start_step + int(element) // local_replicas
        first_row = (worker_first_replica + int(element) % local_replicas) * batch
        showers = training_set.train_rows(order.rows(step, first_row, batch))
        place = (np.array([step], np.int64), np.array([first_row], np.int64))
        return (showers.image[..., np.newaxis], *showers[1:], *place)

    shapes = ((batch, *training_set.view.shape, 1), *[(batch, 1)] * 3, (1,), (1,))
    types = (tf.float32,) * len(FLOATS) + (tf.int64,) * len(INTEGERS)

    def element(number: tf.Tensor) -> dict[str, tf.Tensor]:
        values = tf.numpy_function(read, [number], types, stateful=False)
        named = dict(zip((*FLOATS, *INTEGERS), values, strict=True))
        return {
            name: tf.ensure_shape(value, shape)
            for (name, value), shape in zip(named.items(), shapes, strict=True)
        }

    options = tf.data.Options()
    options.deterministic = True
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return (
        tf.data.Dataset.counter()
        .map(element, num_parallel_calls=threads or tf.data.AUTOTUNE, deterministic=True)
        .prefetch(tf.data.AUTOTUNE)
        .with_options(options)
    )


def reader_error(error: BaseException) -> DataError | None:
    """Returns the `DataError` raised while reading that TensorFlow passed on as `error`, if any."""
    found = re.search(re.escape(_MARK) + r"(.*)", str(error))
    return DataError(found.group(1)) if found else None
