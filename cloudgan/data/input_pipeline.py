"""The tf.data input pipeline of one worker: static shapes, only its own rows, each read once.

B is the batch per replica; element k of the dataset is for local replica k % L at step
start_step + k // L, so a distributed dataset gives consecutive elements to consecutive replicas.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import tensorflow as tf

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.data.batches import BatchReader, ReadingTime, TrainingSet
from cloudgan.data.epoch_sampler import EpochSampler

FLOATS = ("image", "energy", "angle", "ecal")
INTEGERS = ("step", "first_row")
_STEPS_AHEAD = 3
_MARK = f"{DataError.__module__}.{DataError.__qualname__}: "


def input_pipeline(
    training_set: TrainingSet,
    order: EpochSampler,
    *,
    worker_first_replica: int,
    local_replicas: int,
    replicas: int,
    start_step: int,
    threads: int,
    reading: ReadingTime | None = None,
) -> tf.data.Dataset:
    """Returns the endless dataset of one worker.

    Each element is a dict of image (B, X, Y, Z, 1), energy, angle and ecal (B, 1), float32, and step
    and first_row (1,), int64: first row of the element in the global batch.

    `threads` readers read `training_set` in `order` from `start_step` on and add their time to `reading`.
    This worker has `local_replicas` of the `replicas`, starting with `worker_first_replica`.
    """
    batch, rest = divmod(order.global_batch_size, replicas)
    if rest:
        raise ConfigError(
            f"a global batch of {order.global_batch_size} is not divisible by {replicas} replicas; use"
            f" --global-batch={(batch + 1) * replicas}"
        )
    reader = BatchReader(training_set, order, batch, reading or ReadingTime())
    names = (*FLOATS, *INTEGERS)
    shapes = ((batch, *training_set.model.image_shape, 1), *[(batch, 1)] * 3, (1,), (1,))
    types = (tf.float32,) * len(FLOATS) + (tf.int64,) * len(INTEGERS)

    def read(element: np.int64) -> tuple[np.ndarray[Any, Any], ...]:
        step = start_step + int(element) // local_replicas
        first_row = (worker_first_replica + int(element) % local_replicas) * batch
        rows, number = reader.read(step, first_row)
        return (*rows, np.array([number], np.int64), np.array([first_row], np.int64))

    def in_graph(number: tf.Tensor) -> dict[str, tf.Tensor]:
        values = tf.numpy_function(read, [number], types, stateful=False)
        return {
            name: tf.ensure_shape(value, shape)
            for name, value, shape in zip(names, values, shapes, strict=True)
        }

    elements = tf.data.Dataset.counter().map(
        in_graph, num_parallel_calls=threads, deterministic=True
    )
    options = tf.data.Options()
    options.deterministic = True
    # All sizes are known. The autotune thread would use a core and delay the end of a run.
    options.autotune.enabled = False
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return elements.prefetch(_STEPS_AHEAD * local_replicas).with_options(options)


def reader_error(error: BaseException) -> DataError | None:
    """Returns the reader's `DataError` inside a TensorFlow error; None: another error."""
    found = re.search(re.escape(_MARK) + r"(.*)", str(error))
    return DataError(found.group(1)) if found else None
