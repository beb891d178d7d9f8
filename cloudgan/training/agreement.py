"""All workers begin with the same state, or none does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from cloudgan.core.errors import TryAgain

if TYPE_CHECKING:
    from cloudgan.training.cluster import Cluster


def agree_on_checkpoint(
    strategy: tf.distribute.Strategy, cluster: Cluster, step: int | None
) -> None:
    """Waits for all workers and compares which checkpoint each of them found.

    Args:
        strategy: Over all workers.
        cluster: This one's place.
        step: Of the checkpoint that it found; None without one.

    Raises:
        TryAgain: They differ, as when a copy reached the store while they were looking.
    """
    own = np.zeros(len(cluster.workers), np.int32)
    own[cluster.index] = 0 if step is None else step + 1

    @tf.function
    def collect(values: tf.Tensor) -> Any:
        everywhere = strategy.run(tf.identity, args=(values,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, everywhere, axis=None)

    replicas_each = int(strategy.num_replicas_in_sync) // len(cluster.workers)
    found = np.asarray(collect(tf.constant(own))) // replicas_each
    if len(set(found.tolist())) > 1:
        told = ", ".join(
            f"worker {index}: {f'step {value - 1}' if value else 'none'}"
            for index, value in enumerate(found.tolist())
        )
        raise TryAgain(
            f"the workers found different checkpoints ({told}); start all of them again, with the"
            " same --checkpoints or a folder that they share"
        )
